/* SPDX-License-Identifier: Apache-2.0 */
#include "surfaces/shared/pandastack.h"

#include <string.h>

#include "operations/limits.h"
#include "util/json.h"

GError *vial_pandastack_timeout(void)
{
	return g_error_new_literal(VIAL_ERROR, VIAL_ERROR_TIMEOUT, "timeout: it did not end within the time that it was given, and was stopped");
}

json_t *vial_pandastack_results(const json_t *results)
{
	json_t *list = json_array(), *bundle, *value;
	const char *type;
	gsize i;

	json_array_foreach (results, i, bundle) {
		json_t *texts = json_object();

		json_object_foreach (bundle, type, value) {
			g_autofree char *text = json_is_string(value) ? NULL : vial_json_dump(value);

			/* A key "type" would make the client take the bundle for something else. */
			if (strcmp(type, "type") != 0)
				json_object_set_new(texts, type, text ? json_string(text) : json_incref(value));
		}
		json_array_append_new(list, texts);
	}
	return list;
}

json_t *vial_pandastack_sandbox(json_t *sandbox)
{
	json_t *tree = json_object_get(sandbox, "tree_id"), *parent = json_object_get(sandbox, "parent");
	json_t *metadata = json_copy(json_object_get(sandbox, "metadata")); /* the document's is the sandbox's own */

	if (tree && !json_object_get(metadata, "fork_tree_id"))
		json_object_set(metadata, "fork_tree_id", tree);
	if (parent && !json_object_get(metadata, "fork_parent_id"))
		json_object_set(metadata, "fork_parent_id", parent);
	if (metadata)
		json_object_set_new(sandbox, "metadata", metadata);
	return sandbox;
}

gint64 vial_pandastack_trial_seconds(const json_t *metadata)
{
	const char *text = json_string_value(json_object_get(metadata, "explore_ttl"));
	gint64 seconds;

	return text && g_ascii_string_to_signed(text, 10, 1, VIAL_LIFETIME_MAX_SECONDS, &seconds, NULL) ? seconds : VIAL_UNSAID;
}

static void set_of(json_t *document, const char *name, const json_t *from, const char *field)
{
	json_t *value = json_object_get(from, field);

	if (value)
		json_object_set(document, name, value);
}

json_t *vial_pandastack_build(const json_t *build)
{
	static const char *const fields[] = { "error", "started_at",  "ended_at",  "created_at", "phase",
		                              "step",  "steps_total", "exit_code", "last_lines" };
	const char *status = json_string_value(json_object_get(build, "status"));
	json_t *document = json_object();

	set_of(document, "id", build, "build_id");
	set_of(document, "name", build, "template");
	/* It knows of a queue, and of two ends. */
	json_object_set_new(document, "status",
	                    json_string(g_strcmp0(status, "ready") == 0     ? "done"
	                                : g_strcmp0(status, "pending") == 0 ? "queued"
	                                                                    : status));
	for (gsize i = 0; i < G_N_ELEMENTS(fields); i++)
		set_of(document, fields[i], build, fields[i]);
	set_of(document, "size_mb", build, "disk_mb");
	set_of(document, "bytes", build, "layer_bytes");
	return document;
}

json_t *vial_pandastack_builds(const json_t *builds)
{
	json_t *list = json_array(), *build;
	gsize i;

	json_array_foreach (builds, i, build)
		json_array_append_new(list, vial_pandastack_build(build));
	return list;
}

/* Logs */

#define LOG_END "end"

/* Where Python's str.splitlines() ends a line: the size of such a character at `text`, or 0. */
static gsize line_end_size(const char *text)
{
	gunichar c = g_utf8_get_char(text);

	if ((c >= '\n' && c <= '\r') || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 || c == 0x2029)
		return (gsize)(g_utf8_next_char(text) - text);
	return 0;
}

static gsize send_piece(VialRequest *request, const char *text, gsize size)
{
	g_autofree char *piece = g_strndup(text, size), *word = g_strstrip(g_strdup(piece));
	g_autofree char *shown = NULL;

	/* What a program prints must not end its reader: a space of no width in front. */
	if (strcmp(word, LOG_END) == 0)
		shown = g_strconcat("\u200b", piece, NULL);
	return vial_request_sse_send_text(request, NULL, shown ? shown : piece, strlen(shown ? shown : piece));
}

gsize vial_pandastack_send_log(VialRequest *request, const char *line, gsize size)
{
	g_autoptr(json_t) json = vial_json_parse_object(line, size, NULL);
	const char *text = json_string_value(json_object_get(json, "text")), *begin = text, *at;
	gsize waiting = 0;

	for (at = text; at && *at;) {
		gsize end = line_end_size(at);

		if (end > 0) {
			waiting = send_piece(request, begin, (gsize)(at - begin));
			begin = at + end;
		}
		at = end > 0 ? begin : g_utf8_next_char(at);
	}
	if (at && (at > begin || at == text)) /* what is left; an empty line is one, too */
		waiting = send_piece(request, begin, (gsize)(at - begin));
	return waiting;
}

void vial_pandastack_send_log_end(VialRequest *request)
{
	vial_request_sse_send_text(request, NULL, LOG_END, strlen(LOG_END));
}
