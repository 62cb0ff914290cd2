/* SPDX-License-Identifier: Apache-2.0 */
#include "operations/input.h"

void vial_input_push(VialInput *input, VialOperation *operation)
{
	gsize size, piece;
	const guint8 *bytes;

	if (!input->bytes)
		return;
	bytes = g_bytes_get_data(input->bytes, &size);
	piece = MIN(vial_operation_room(operation), size - input->sent);
	vial_operation_write(operation, bytes + input->sent, piece);
	input->sent += piece;
	if (input->sent < size)
		return;
	vial_operation_write_end(operation);
	vial_input_clear(input);
}

void vial_input_clear(VialInput *input)
{
	g_clear_pointer(&input->bytes, g_bytes_unref);
	input->sent = 0;
}
