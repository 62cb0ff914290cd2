/* SPDX-License-Identifier: Apache-2.0 */
#include "operations/archive.h"

#include <string.h>

#include "operations/exec_private.h"
#include "operations/guest.h"
#include "operations/limits.h"
#include "operations/validate.h"
#include "util/json.h"

/* What tar complained about, for the error's sentence. */
#define COMPLAINT_BYTES 600

/*
 * find says what is packed, because tar alone would take sockets for errors and store devices. pax, because names in it have no limit, and clients
 * read no other extension for long link targets; its records of times are left out, because each would cost a file two blocks more. The parts are run
 * by bash for pipefail, so that an archive of nothing is no success when find could not run.
 */
#define PACK                                                                                                                                  \
	"cd -- \"$1\" || exit 9; shift; set -o pipefail; find . \"$@\" -print0 | tar --create --file=- --null --no-recursion --files-from=- " \
	"--format=posix --pax-option=delete=atime,delete=ctime,delete=mtime --hard-dereference --blocking-factor=128"

/* tar, and find: something was not as it had been seen a moment before. A folder in use is like that. */
#define EXIT_CHANGED 1

typedef struct {
	const VialReadSink *reader;
	const VialArchiveSink *writer;
	gpointer data;
	gboolean is_opened;
	GString *complaint;
} Archive;

static void archive_free(gpointer data)
{
	Archive *archive = data;

	g_string_free(archive->complaint, TRUE);
	g_free(archive);
}

/* Events */

static void on_reading(VialOperation *operation)
{
	vial_guest_tape_output(operation);
}

static void on_writing(VialOperation *operation)
{
	vial_guest_tape_input(operation, FALSE);
}

static void on_opened(VialOperation *operation)
{
	Archive *archive = vial_guest_state(operation);

	if (archive->writer)
		archive->writer->begun(operation, archive->data);
}

static void on_writable(VialOperation *operation)
{
	Archive *archive = vial_guest_state(operation);

	if (archive->writer)
		archive->writer->writable(archive->data);
}

static void open_once(Archive *archive)
{
	if (!archive->is_opened)
		archive->reader->opened(-1, archive->data);
	archive->is_opened = TRUE;
}

static gboolean on_data(VialOperation *operation, unsigned channel, GBytes *bytes)
{
	Archive *archive = vial_guest_state(operation);
	gsize size;
	const char *content = g_bytes_get_data(bytes, &size);

	if (channel == VIAL_WIRE_STDERR) {
		g_string_append_len(archive->complaint, content, (gssize)MIN(size, COMPLAINT_BYTES - archive->complaint->len));
		return FALSE;
	}
	if (!archive->reader)
		return FALSE;
	open_once(archive);
	return archive->reader->data(bytes, archive->data);
}

static gboolean on_event(VialOperation *operation, json_t *event)
{
	return FALSE; /* that it has started */
}

/* The end */

/* tar has two ways to tell: the disk was full, or it became full within a block. */
static gboolean tells_of_full_disk(const char *complaint)
{
	return strstr(complaint, "No space left on device") || strstr(complaint, "Wrote only");
}

static void fail(const Archive *archive, gint64 exit_code, GError **error)
{
	gboolean is_full = tells_of_full_disk(archive->complaint->str);
	g_autofree char *said = g_utf8_make_valid(archive->complaint->str, (gssize)archive->complaint->len);

	g_strdelimit(g_strstrip(said), "\r\n\t", ' ');
	if (archive->writer && is_full)
		vial_fail(error, VIAL_ERROR_NO_SPACE, "the archive could not be unpacked, the sandbox's disk is full: %s", said);
	else if (exit_code == 127)
		vial_fail(error, VIAL_ERROR_INVALID, "this sandbox has no tar or no find any more, which archives are made with: %s", said);
	else if (archive->writer)
		vial_fail(error, VIAL_ERROR_INVALID, "the archive could not be unpacked: %s", *said ? said : "tar was ended");
	else
		vial_fail(error, VIAL_ERROR_INVALID, "the folder could not be packed: %s", *said ? said : "tar was ended");
}

static gboolean is_good(const Archive *archive, gint64 exit_code)
{
	if (archive->writer || exit_code != EXIT_CHANGED)
		return exit_code == 0;
	/* It also says so where it may not look, which would be an archive that lacks something nobody knows of. */
	return archive->is_opened && !strstr(archive->complaint->str, "Permission denied");
}

static void tell(Archive *archive, const GError *error)
{
	if (archive->writer)
		return archive->writer->end(error, archive->data);
	if (!error)
		open_once(archive);
	archive->reader->end(error, archive->data);
}

static void on_closed(VialOperation *operation, json_t *result, const GError *error)
{
	Archive *archive = vial_guest_state(operation);
	g_autoptr(GError) problem = NULL, refusal = NULL, unrecorded = NULL;
	VialExecEnd end = { 0 };

	if (!error && !vial_exec_read_end(result, &end, &problem)) {
		vial_guest_distrust(operation, problem, &refusal);
		error = refusal;
	} else if (!error && !is_good(archive, end.exit_code)) {
		fail(archive, end.exit_code, &refusal);
		error = refusal;
	}
	error = vial_guest_end(operation, "done", NULL, error, &unrecorded);
	tell(archive, error);
}

/* Beginning */

static VialOperation *start(const VialCaller *caller, VialVerb verb, VialSandbox *sandbox, const VialArchiveRequest *request, const char *user,
                            json_t *argv, const VialGuestEvents *events, Archive archive, GError **error)
{
	g_autoptr(json_t) words = argv;
	json_t *open = json_pack("{s:s, s:O, s:s, s:s*, s:b, s:{s:s}}", "op", "exec", "argv", words, "cwd", "/", "user", user, "stdin",
	                         archive.writer != NULL, "env", "LC_ALL", "C");
	json_t *body = json_pack("{s:s, s:s, s:s*}", "path", request->path, "archive", "tar", "user", request->user);
	Archive *state = g_new0(Archive, 1);

	*state = archive;
	state->complaint = g_string_new(NULL);
	for (gsize i = 0; request->excludes && request->excludes[i]; i++) {
		if (i == 0)
			json_object_set_new(body, "excludes", json_array());
		json_array_append_new(json_object_get(body, "excludes"), json_string(request->excludes[i]));
	}
	return vial_guest_start(caller, verb, sandbox, open, body, events, state, archive_free, error);
}

static gboolean admit(const VialCaller *caller, VialVerb verb, const char *sandbox_id, const VialArchiveRequest *request, VialSandbox **out_sandbox,
                      GError **error)
{
	return vial_operation_admit(caller, verb, sandbox_id, 0, out_sandbox, error) && vial_check_path("path", request->path, error) &&
	       vial_check_user(request->user, error);
}

static gboolean check_exclude(const char *path, GError **error)
{
	g_auto(GStrv) parts = g_strsplit(path, "/", -1);

	if (!vial_check_path("excludes", path, error))
		return FALSE;
	if (*path == '/' || g_strv_contains((const char *const *)parts, ".."))
		return vial_fail(error, VIAL_ERROR_INVALID, "what is excluded must be a path within the folder, not %.200s", path);
	return TRUE;
}

static gboolean check_excludes(const char *const *paths, GError **error)
{
	gsize n = 0;

	for (; paths && paths[n]; n++)
		if (!check_exclude(paths[n], error))
			return FALSE;
	return n <= VIAL_ARCHIVE_EXCLUDES_MAX || vial_fail(error, VIAL_ERROR_INVALID, "at most %d paths can be excluded", VIAL_ARCHIVE_EXCLUDES_MAX);
}

/* "./path" as find's pattern that means nothing else: without the parts that mean nothing, and what would be a wildcard escaped. */
static char *pattern_of(const char *path)
{
	g_auto(GStrv) parts = g_strsplit(path, "/", -1);
	GString *pattern = g_string_new(".");

	for (gsize i = 0; parts[i]; i++) {
		if (*parts[i] == '\0' || strcmp(parts[i], ".") == 0)
			continue;
		g_string_append_c(pattern, '/');
		for (const char *c = parts[i]; *c; c++) {
			if (strchr("*?[]\\", *c))
				g_string_append_c(pattern, '\\');
			g_string_append_c(pattern, *c);
		}
	}
	return g_string_free(pattern, FALSE);
}

static void add_words(json_t *argv, const char *const *words)
{
	for (; *words; words++)
		json_array_append_new(argv, json_string(*words));
}

static json_t *pack_argv(const VialArchiveRequest *request)
{
	static const char *const kinds[] = { "(", "-type", "f", "-o", "-type", "d", "-o", "-type", "l", ")", NULL };
	json_t *argv = json_pack("[s, s, s, s, s]", "bash", "-c", PACK, "pack", request->path);

	for (gsize i = 0; request->excludes && request->excludes[i]; i++) {
		g_autofree char *pattern = pattern_of(request->excludes[i]);
		const char *const words[] = { "-path", pattern, "-prune", "-o", NULL };

		add_words(argv, words);
	}
	add_words(argv, kinds);
	return argv;
}

VialOperation *vial_op_archive_read(const VialCaller *caller, const char *sandbox_id, const VialArchiveRequest *request, const VialReadSink *sink,
                                    gpointer data, GError **error)
{
	static const VialGuestEvents events = { .recording = on_reading, .data = on_data, .event = on_event, .closed = on_closed };
	VialSandbox *sandbox;

	if (!admit(caller, VIAL_VERB_FILE_READ, sandbox_id, request, &sandbox, error) || !check_excludes(request->excludes, error))
		return NULL;
	return start(caller, VIAL_VERB_FILE_READ, sandbox, request, request->user ? request->user : "root", pack_argv(request), &events,
	             (Archive){ .reader = sink, .data = data }, error);
}

VialOperation *vial_op_archive_write(const VialCaller *caller, const char *sandbox_id, const VialArchiveRequest *request, const VialArchiveSink *sink,
                                     gpointer data, GError **error)
{
	static const VialGuestEvents events = {
		.recording = on_writing, .opened = on_opened, .data = on_data, .event = on_event, .writable = on_writable, .closed = on_closed
	};
	VialSandbox *sandbox;

	if (!admit(caller, VIAL_VERB_FILE_WRITE, sandbox_id, request, &sandbox, error))
		return NULL;
	return start(caller, VIAL_VERB_FILE_WRITE, sandbox, request, request->user,
	             json_pack("[s, s, s, s, s, s, s]", "tar", "--extract", "--file=-", "--directory", request->path, "--no-same-owner",
	                       "--preserve-permissions"),
	             &events, (Archive){ .writer = sink, .data = data }, error);
}
