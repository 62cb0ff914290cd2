/* SPDX-License-Identifier: Apache-2.0 */
#include "operations/terminal.h"

#include "operations/guest.h"
#include "operations/limits.h"
#include "operations/validate.h"

gboolean vial_op_terminal_resize(const VialCaller *caller, const char *sandbox_id, gint64 pid, gint64 rows, gint64 cols, VialDocumentDone done,
                                 gpointer data, GError **error)
{
	VialSandbox *sandbox;

	return vial_operation_admit(caller, VIAL_VERB_TERMINAL_RESIZE, sandbox_id, 0, &sandbox, error) &&
	       vial_check_required_int("rows", rows, 1, VIAL_TERMINAL_MAX_CELLS, error) &&
	       vial_check_required_int("cols", cols, 1, VIAL_TERMINAL_MAX_CELLS, error) &&
	       vial_guest_ask(caller, VIAL_VERB_TERMINAL_RESIZE, sandbox,
	                      json_pack("{s:s, s:I, s:I, s:I}", "op", "proc.resize", "pid", (json_int_t)pid, "rows", (json_int_t)rows, "cols",
	                                (json_int_t)cols),
	                      NULL, NULL, done, data, error);
}

/* Reading */

typedef struct {
	VialTerminalRead done;
	gpointer data;
	GByteArray *bytes;
	gint64 max_bytes;
} Reading;

VIAL_SHAPE(output_shape, { "next", VIAL_SHAPE_INT, TRUE, 0, G_MAXINT64, NULL, G_STRUCT_OFFSET(VialTerminalOutput, next) },
           { "exited", VIAL_SHAPE_BOOL, TRUE, 0, 0, NULL, G_STRUCT_OFFSET(VialTerminalOutput, exited) },
           { "exit_code", VIAL_SHAPE_INT, FALSE, G_MININT32, G_MAXINT32, NULL, G_STRUCT_OFFSET(VialTerminalOutput, exit_code) });

static void reading_free(gpointer data)
{
	Reading *reading = data;

	g_byte_array_unref(reading->bytes);
	g_free(reading);
}

static gboolean on_data(VialOperation *operation, unsigned channel, GBytes *bytes)
{
	Reading *reading = vial_guest_state(operation);

	g_byte_array_append(reading->bytes, g_bytes_get_data(bytes, NULL), (guint)g_bytes_get_size(bytes));
	/* It was told how much it may send. */
	if (reading->bytes->len > reading->max_bytes)
		vial_guest_abandon(operation, "the sandbox sent more than it was asked for");
	return FALSE;
}

static void on_closed(VialOperation *operation, json_t *result, const GError *error)
{
	Reading *reading = vial_guest_state(operation);
	VialTerminalOutput output = { 0 };
	g_autoptr(GError) problem = NULL, refusal = NULL;

	if (!error && !vial_shape_read(&output_shape, result, &output, &problem)) {
		vial_guest_distrust(operation, problem, &refusal);
		error = refusal;
	}
	output.bytes = reading->bytes->data;
	output.size = reading->bytes->len;
	vial_guest_end(operation, "done", NULL, error, NULL);
	reading->done(error ? NULL : &output, error, reading->data);
}

static gint64 or_else(gint64 value, gint64 fallback)
{
	return value == VIAL_UNSAID ? fallback : value;
}

VialOperation *vial_op_terminal_read(const VialCaller *caller, const char *sandbox_id, gint64 pid, const VialTerminalReading *asked,
                                     VialTerminalRead done, gpointer data, GError **error)
{
	static const VialGuestEvents events = { .data = on_data, .closed = on_closed };
	gint64 since = or_else(asked->since, 0), wait_ms = or_else(asked->wait_ms, 0);
	gint64 max_bytes = or_else(asked->max_bytes, VIAL_TERMINAL_READ_BYTES);
	VialSandbox *sandbox;
	Reading *reading;

	if (!vial_operation_admit(caller, VIAL_VERB_PROCESS_READ, sandbox_id, 0, &sandbox, error) ||
	    !vial_check_int("since", since, 0, G_MAXINT64, error) || !vial_check_int("max_bytes", max_bytes, 1, VIAL_TERMINAL_READ_BYTES, error) ||
	    !vial_check_int("wait_ms", wait_ms, 0, VIAL_TERMINAL_WAIT_MS, error))
		return NULL;
	reading = g_new0(Reading, 1);
	*reading = (Reading){ done, data, g_byte_array_new(), max_bytes };
	return vial_guest_start(caller, VIAL_VERB_PROCESS_READ, sandbox,
	                        json_pack("{s:s, s:I, s:I, s:I, s:I}", "op", "proc.read", "pid", (json_int_t)pid, "since", (json_int_t)since,
	                                  "max_bytes", (json_int_t)max_bytes, "wait_ms", (json_int_t)wait_ms),
	                        NULL, &events, reading, reading_free, error);
}
