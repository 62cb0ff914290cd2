/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target: the wire's reader. The first byte chooses how the rest is cut into reads; whatever the cut, the frames must be the same, inside the
 * limits, and encode back to the bytes they came from.
 */
#undef NDEBUG
#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "wire/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

struct outcome {
	unsigned frames;
	size_t frame_bytes;
	int last;
};

static void check(const struct vial_wire_frame *frame, const uint8_t *source)
{
	uint8_t header[VIAL_WIRE_HEADER_BYTES];

	assert(frame->length <= VIAL_WIRE_MAX_PAYLOAD && frame->type >= 1 && frame->type <= VIAL_WIRE_TYPE_MAX);
	vial_wire_header_encode(frame, header);
	assert(memcmp(header, source, sizeof(header)) == 0);
	assert(frame->length == 0 || memcmp(frame->payload, source + sizeof(header), frame->length) == 0);
}

static struct outcome read_all(const uint8_t *bytes, size_t size, size_t step)
{
	struct vial_wire_reader reader;
	struct vial_wire_frame frame;
	struct outcome outcome = { 0 };
	size_t fed = 0;

	assert(vial_wire_reader_init(&reader) == 0);
	while (fed < size && outcome.last >= 0) {
		size_t space, part;
		uint8_t *at = vial_wire_reader_space(&reader, &space);

		assert(space > 0);
		part = step < size - fed ? step : size - fed;
		part = part < space ? part : space;
		memcpy(at, bytes + fed, part);
		vial_wire_reader_filled(&reader, part);
		fed += part;
		while ((outcome.last = vial_wire_reader_next(&reader, &frame)) > 0) {
			check(&frame, bytes + outcome.frame_bytes);
			outcome.frames++;
			outcome.frame_bytes += VIAL_WIRE_HEADER_BYTES + frame.length;
		}
	}
	if (outcome.last < 0)
		assert(outcome.last == -EPROTO && vial_wire_reader_next(&reader, &frame) == -EPROTO);
	vial_wire_reader_clear(&reader);
	return outcome;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct outcome whole, cut;

	if (size == 0)
		return 0;
	whole = read_all(bytes + 1, size - 1, SIZE_MAX);
	cut = read_all(bytes + 1, size - 1, (size_t)bytes[0] + 1);
	assert(whole.frames == cut.frames && whole.frame_bytes == cut.frame_bytes && whole.last == cut.last);
	return 0;
}
