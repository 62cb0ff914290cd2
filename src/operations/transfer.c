/* SPDX-License-Identifier: Apache-2.0 */
/* Files in and out, at the pace of the slower side. */
#include "operations/files_private.h"
#include "operations/limits.h"
#include "operations/validate.h"
#include "util/json.h"

/* Reading */

typedef struct {
	const VialReadSink *sink;
	gpointer data;
	gboolean is_opened;
} Reading;

typedef struct {
	gint64 size;
} Opened;

VIAL_SHAPE(opened_shape, { "size", VIAL_SHAPE_INT, TRUE, 0, G_MAXINT64, NULL, G_STRUCT_OFFSET(Opened, size) });

static void open_once(Reading *reading, gint64 size)
{
	if (!reading->is_opened)
		reading->sink->opened(size, reading->data);
	reading->is_opened = TRUE;
}

static gboolean on_entry(VialOperation *operation, json_t *event)
{
	g_autoptr(GError) problem = NULL;
	Opened opened = { 0 };

	if (!vial_shape_read(&opened_shape, event, &opened, &problem))
		return vial_guest_reject(operation, problem);
	/* Files of /proc and growing logs may have another length than they say: only a fixed length is promised. */
	open_once(vial_guest_state(operation), opened.size > 0 ? opened.size : -1);
	return FALSE;
}

static gboolean on_file_data(VialOperation *operation, unsigned channel, GBytes *bytes)
{
	Reading *reading = vial_guest_state(operation);

	open_once(reading, -1);
	return reading->sink->data(bytes, reading->data);
}

static void on_read(VialOperation *operation, json_t *result, const GError *error)
{
	Reading *reading = vial_guest_state(operation);
	g_autoptr(GError) unrecorded = NULL;

	error = vial_guest_end(operation, "done", NULL, error, &unrecorded);
	if (!error)
		open_once(reading, -1);
	reading->sink->end(error, reading->data);
}

VialOperation *vial_op_file_read(const VialCaller *caller, const char *sandbox_id, const VialFileRequest *request, const VialReadSink *sink,
                                 gpointer data, GError **error)
{
	static const VialGuestEvents events = { .recording = vial_guest_tape_output, .event = on_entry, .data = on_file_data, .closed = on_read };
	VialSandbox *sandbox;
	json_t *question = vial_file_question(caller, VIAL_VERB_FILE_READ, sandbox_id, "fs.read", request, &sandbox, error);
	Reading *reading;

	if (!question)
		return NULL;
	reading = g_new0(Reading, 1);
	*reading = (Reading){ .sink = sink, .data = data };
	return vial_guest_start(caller, VIAL_VERB_FILE_READ, sandbox, question, vial_file_record(request), &events, reading, g_free, error);
}

/* Writing */

typedef struct {
	const VialWriteSink *sink;
	gpointer data;
} Writing;

typedef struct {
	const char *path;
	gint64 bytes;
} Written;

VIAL_SHAPE(written_shape, { "path", VIAL_SHAPE_TEXT, TRUE, 0, 3 * VIAL_PATH_MAX_BYTES, NULL, G_STRUCT_OFFSET(Written, path) },
           { "bytes", VIAL_SHAPE_INT, TRUE, 0, G_MAXINT64, NULL, G_STRUCT_OFFSET(Written, bytes) });

static void on_recording(VialOperation *operation)
{
	vial_guest_tape_input(operation, FALSE);
}

static void on_write_opened(VialOperation *operation)
{
	Writing *writing = vial_guest_state(operation);

	writing->sink->begun(operation, writing->data);
}

static void on_writable(VialOperation *operation)
{
	Writing *writing = vial_guest_state(operation);

	writing->sink->writable(writing->data);
}

static void on_written(VialOperation *operation, json_t *result, const GError *error)
{
	Writing *writing = vial_guest_state(operation);
	g_autoptr(GError) problem = NULL, refusal = NULL, unrecorded = NULL;
	Written written = { NULL, 0 };

	if (!error && !vial_shape_read(&written_shape, result, &written, &problem)) {
		vial_guest_distrust(operation, problem, &refusal);
		error = refusal;
	}
	if (!error)
		json_object_set_new(vial_entry_body(vial_guest_entry(operation)), "path", json_string(written.path));
	error = vial_guest_end(operation, "done", NULL, error, &unrecorded);
	writing->sink->end(written.path, written.bytes, error, writing->data);
}

VialOperation *vial_op_file_write(const VialCaller *caller, const char *sandbox_id, const VialFileRequest *request, const VialWriteSink *sink,
                                  gpointer data, GError **error)
{
	static const VialGuestEvents events = { .recording = on_recording, .opened = on_write_opened, .writable = on_writable, .closed = on_written };
	VialSandbox *sandbox;
	g_autoptr(json_t) question = vial_file_question(caller, VIAL_VERB_FILE_WRITE, sandbox_id, "fs.write", request, &sandbox, error);
	Writing *writing;

	if (!question || !vial_check_text("mode", request->mode, 8, error) || !vial_check_metadata(request->metadata, error))
		return NULL;
	if (request->metadata)
		json_object_set(question, "metadata", request->metadata);
	if (request->mode)
		json_object_set_new(question, "mode", json_string(request->mode));
	writing = g_new0(Writing, 1);
	*writing = (Writing){ .sink = sink, .data = data };
	return vial_guest_start(caller, VIAL_VERB_FILE_WRITE, sandbox, g_steal_pointer(&question), vial_file_record(request), &events, writing,
	                        g_free, error);
}
