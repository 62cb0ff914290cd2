/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target: the ports proxy's response reader. The first byte chooses how the rest is cut into reads and what was asked; whatever the cut,
 * the body and the outcome must be the same, and what is handed out must lie within what was put in.
 */
#undef NDEBUG
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "surfaces/shared/proxy_reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

struct outcome {
	VialReplyEvent last;
	unsigned status;
	size_t body_bytes;
	uint32_t sum;
};

static struct outcome read_all(const uint8_t *bytes, size_t size, size_t step, unsigned flags)
{
	g_autoptr(VialReplyReader) reader = vial_reply_reader_new(flags & 1, flags & 2);
	struct outcome outcome = { .last = VIAL_REPLY_MORE };
	const uint8_t *next = bytes, *end = bytes + size, *piece;
	size_t piece_size, count;

	while (next < end && outcome.last != VIAL_REPLY_END && outcome.last != VIAL_REPLY_BROKEN) {
		size_t part = step < (size_t)(end - next) ? step : (size_t)(end - next);
		const uint8_t *limit = next + part;

		do {
			outcome.last = vial_reply_reader_next(reader, &next, &part, &piece, &piece_size);
			assert(next + part == limit);
			if (outcome.last != VIAL_REPLY_DATA)
				continue;
			assert(piece >= bytes && piece + piece_size <= limit && piece_size > 0);
			outcome.body_bytes += piece_size;
			for (size_t i = 0; i < piece_size; i++)
				outcome.sum = outcome.sum * 31 + piece[i];
		} while (outcome.last == VIAL_REPLY_HEAD || outcome.last == VIAL_REPLY_DATA);
	}
	if (outcome.last == VIAL_REPLY_MORE)
		outcome.last = vial_reply_reader_finish(reader);
	if (outcome.last == VIAL_REPLY_END) {
		const VialReplyHeader *headers = vial_reply_reader_headers(reader, &count);

		outcome.status = vial_reply_reader_status(reader);
		assert(outcome.status >= 101 && outcome.status <= 599 && count <= VIAL_REPLY_MAX_HEADERS);
		for (size_t i = 0; i < count; i++)
			assert(*headers[i].name && !strpbrk(headers[i].value, "\r\n\t"));
	}
	return outcome;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct outcome whole, cut;

	if (size == 0)
		return 0;
	whole = read_all(bytes + 1, size - 1, SIZE_MAX, bytes[0] >> 6);
	cut = read_all(bytes + 1, size - 1, (size_t)(bytes[0] & 63) + 1, bytes[0] >> 6);
	assert(whole.last == cut.last && whole.status == cut.status);
	assert(whole.last == VIAL_REPLY_BROKEN || (whole.body_bytes == cut.body_bytes && whole.sum == cut.sum));
	return 0;
}
