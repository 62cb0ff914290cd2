/* SPDX-License-Identifier: Apache-2.0 */
/* The record of what was done: the last of it as a table, one record whole. audit_tail.c, audit_export.c and audit_verify.c do the rest. */
#include "cli/commands/audit.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/fields.h"
#include "cli/output.h"
#include "cli/table.h"
#include "cli/times.h"

enum { USUAL_COUNT = 20, PAGE_MAX = 1000, WHAT_MAX = 200, SANDBOX_ID_SIZE = 20, LINE_MAX_BYTES = 100 };

VialAuditFilters vial_audit_filters;
gint64 vial_audit_count = -1;

static const VialOption list_options[] = { VIAL_AUDIT_FILTER_OPTIONS, VIAL_AUDIT_SEARCH_OPTIONS, VIAL_AUDIT_END };

/* --- asking --- */

static void append(GString *query, const char *name, const char *value)
{
	if (!value)
		return;
	g_string_append_printf(query, "&%s=", name);
	g_string_append_uri_escaped(query, value, NULL, FALSE);
}

char *vial_audit_query(VialCli *cli, GError **error)
{
	const VialAuditFilters *filters = &vial_audit_filters;
	g_autofree char *from = NULL, *to = NULL, *sandbox = g_strdup(filters->sandbox);
	if (filters->is_all && filters->project) {
		g_set_error_literal(error, VIAL_OPTIONS_ERROR, 0, "--all and --project exclude each other");
		return NULL;
	}
	if ((filters->from && !(from = vial_time_from_option("from", filters->from, FALSE, error))) ||
	    (filters->to && !(to = vial_time_from_option("to", filters->to, FALSE, error))))
		return NULL;
	/* The beginning of an id is looked up; of a sandbox that is gone the whole id is needed. */
	if (sandbox && strlen(sandbox) < SANDBOX_ID_SIZE) {
		char *whole = vial_api_sandbox_id(cli, sandbox, error);
		if (!whole) {
			g_prefix_error(error, "of a sandbox that is gone --sandbox wants the whole id: ");
			return NULL;
		}
		g_free(sandbox);
		sandbox = whole;
	}
	GString *query = g_string_new(NULL);
	append(query, "project", filters->is_all ? "*" : filters->project);
	append(query, "principal", filters->principal);
	append(query, "agent", filters->agent);
	append(query, "session", filters->session);
	append(query, "sandbox", sandbox);
	append(query, "action", filters->action);
	append(query, "trace_id", filters->trace);
	append(query, "text", filters->text);
	append(query, "from", from);
	append(query, "to", to);
	return g_string_free(query, FALSE);
}

int vial_audit_fail(VialCli *cli, GError *error)
{
	return error->domain == VIAL_OPTIONS_ERROR ? vial_output_fail_usage(cli, error) : vial_output_fail(cli, error);
}

json_t *vial_audit_page(VialCli *cli, const char *query, gint64 limit, gint64 cursor, GError **error)
{
	json_t *page = NULL;
	GString *path = g_string_new("/v1/audit?limit=");
	g_string_append_printf(path, "%" G_GINT64_FORMAT "%s", CLAMP(limit, 1, PAGE_MAX), query);
	if (cursor > 0)
		g_string_append_printf(path, "&cursor=%" G_GINT64_FORMAT, cursor);
	gboolean is_ok = vial_api_call(cli, "GET", path->str, NULL, &page, error);
	if (is_ok && !json_is_array(json_object_get(page, "items"))) {
		g_set_error(error, VIAL_HTTP_ERROR, VIAL_HTTP_FAILED, "%s answered without records: is it viald?", cli->url);
		is_ok = FALSE;
	}
	g_string_free(path, TRUE);
	if (!is_ok)
		g_clear_pointer(&page, json_decref);
	return page;
}

/* --- a record for people --- */

char *vial_audit_who(const json_t *record)
{
	const json_t *principal = json_object_get(record, "principal");
	const char *name = vial_api_string(principal, "name"), *id = vial_api_string(principal, "id"), *kind = vial_api_string(principal, "kind");
	if (name && *name)
		return g_strdup(name);
	return g_strdup(id && *id ? id : kind);
}

static char *join(const json_t *argv)
{
	GString *text = g_string_new(NULL);
	for (gsize i = 0; i < json_array_size(argv); i++) {
		const char *word = json_string_value(json_array_get(argv, i));
		g_string_append_printf(text, "%s%s", i ? " " : "", word ? word : "?");
	}
	return g_string_free(text, FALSE);
}

char *vial_audit_what(const json_t *record)
{
	static const char *const names[] = { "error_message", "code", "cmd", "argv", "path", "name", "key", "port", "language", "template" };
	const json_t *body = json_object_get(record, "body");
	g_autofree char *text = NULL;
	if (!json_is_object(body))
		return g_strdup(json_is_true(json_object_get(record, "damaged")) ? "(damaged)" : "(removed after its time)");
	/* Why it was not done comes before what it would have been. */
	for (gsize i = 0; i < G_N_ELEMENTS(names) && !text; i++)
		if (json_is_array(json_object_get(body, names[i])))
			text = join(json_object_get(body, names[i]));
		else if (json_object_get(body, names[i]))
			text = g_strchomp(vial_api_text(body, names[i]));
	if (!text)
		return g_strdup("");
	const char *to = vial_api_string(body, "to"), *failure = vial_api_string(record, "error");
	g_autofree char *status = vial_api_text(record, "exit_code");
	gboolean is_bad = failure || (*status && strcmp(status, "0") != 0);
	g_autofree char *ending = is_bad ? g_strconcat(" (", failure ? failure : "exit ", failure ? "" : status, ")", NULL) : g_strdup("");
	g_autofree char *whole = g_strconcat(text, to ? " -> " : "", to ? to : "", ending, NULL);
	return g_utf8_strlen(whole, -1) > WHAT_MAX ? g_utf8_substring(whole, 0, WHAT_MAX) : g_steal_pointer(&whole);
}

const char *vial_audit_outcome_style(const char *outcome)
{
	if (g_strcmp0(outcome, "done") == 0)
		return "32";
	if (g_strcmp0(outcome, "refused") == 0 || g_strcmp0(outcome, "failed") == 0)
		return "31";
	return "33";
}

/* --- the list --- */

static void add_row(VialTable *table, const json_t *record, gboolean shows_project)
{
	const char *outcome = vial_api_string(record, "outcome");
	vial_table_add_take(table, vial_api_text(record, "seq"));
	vial_table_add_take(table, vial_time_local(vial_api_string(record, "time")));
	vial_table_add_take(table, vial_audit_who(record));
	if (shows_project)
		vial_table_add(table, vial_api_string(record, "project"));
	vial_table_add(table, vial_api_string(record, "action"));
	vial_table_add(table, outcome);
	vial_table_style(table, vial_audit_outcome_style(outcome));
	vial_table_add(table, vial_api_string(record, "sandbox"));
	vial_table_add_take(table, vial_audit_what(record));
}

/* The last `count`, newest first, as one array. */
static json_t *collect(VialCli *cli, const char *query, gint64 count, GError **error)
{
	g_autoptr(json_t) all = json_array();
	gint64 cursor = 0;
	while ((gint64)json_array_size(all) < count) {
		g_autoptr(json_t) page = vial_audit_page(cli, query, count - (gint64)json_array_size(all), cursor, error);
		if (!page)
			return NULL;
		json_array_extend(all, json_object_get(page, "items"));
		gint64 next = vial_api_integer(page, "next", 0);
		if (next <= 0 || (cursor > 0 && next >= cursor)) /* a cursor that does not move would keep us here for ever */
			break;
		cursor = next;
	}
	return g_steal_pointer(&all);
}

static gboolean is_of_several(const json_t *records)
{
	const char *first = vial_api_string(json_array_get(records, 0), "project");
	for (gsize i = 1; i < json_array_size(records); i++)
		if (g_strcmp0(vial_api_string(json_array_get(records, i), "project"), first) != 0)
			return TRUE;
	return FALSE;
}

static int list_run(VialCli *cli, int argc, char **argv)
{
	GError *error = NULL;
	g_autofree char *query = vial_audit_query(cli, &error);
	g_autoptr(json_t) records = query ? collect(cli, query, vial_audit_count >= 0 ? vial_audit_count : USUAL_COUNT, &error) : NULL;
	if (!records)
		return vial_audit_fail(cli, error);
	if (cli->is_json) {
		vial_output_json(records);
		return VIAL_EXIT_OK;
	}
	gboolean is_several = is_of_several(records);
	g_autoptr(VialTable) table =
		vial_table_new(is_several ? ">SEQ TIME WHO PROJECT ACTION OUTCOME SANDBOX WHAT" : ">SEQ TIME WHO ACTION OUTCOME SANDBOX WHAT");
	/* The newest last, where the eye is. */
	for (gsize i = json_array_size(records); i > 0; i--) {
		g_autofree char *seq = vial_api_line(json_array_get(records, i - 1), "seq");
		if (cli->is_quiet)
			puts(seq);
		else
			add_row(table, json_array_get(records, i - 1), is_several);
	}
	if (!cli->is_quiet && json_array_size(records) == 0)
		vial_output_note(cli, "there is no such record");
	else if (!cli->is_quiet)
		vial_table_print(table, cli->has_color_out);
	return VIAL_EXIT_OK;
}

/* --- one --- */

/* Text of several lines, as it was: indented, and without what would drive the terminal. */
static void print_block(VialCli *cli, const char *label, const char *text)
{
	g_autofree char *clean_label = vial_sanitize_line(label);
	g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
	printf("\n%s%s%s\n", vial_output_style(cli, "2"), clean_label, vial_output_style(cli, "0"));
	for (int i = 0; lines[i]; i++) {
		g_autofree char *clean = vial_sanitize_line(lines[i]);
		if (lines[i + 1] || *clean)
			printf("  %s\n", clean);
	}
}

/* What fits on a line, on one; what does not, below. */
static void print_body(VialCli *cli, const json_t *body)
{
	const char *name;
	json_t *value;
	putchar('\n');
	for (int is_block = 0; is_block <= 1; is_block++)
		json_object_foreach ((json_t *)body, name, value) {
			g_autofree char *line = vial_output_json_text(value, JSON_COMPACT);
			const char *string = json_string_value(value);
			gboolean is_long = strlen(string ? string : line) > LINE_MAX_BYTES || (string && strchr(string, '\n'));
			g_autofree char *whole = string ? g_strdup(string) : vial_output_json_text(value, JSON_INDENT(2));
			if (strcmp(name, "salt") == 0 || is_long != is_block)
				continue;
			if (is_block)
				print_block(cli, name, whole);
			else
				vial_fields_line(cli, name, string ? string : line, NULL);
		}
}

static int show_run(VialCli *cli, int argc, char **argv)
{
	GError *error = NULL;
	g_autoptr(json_t) record = NULL;
	if (!g_ascii_string_to_signed(argv[0], 10, 1, G_MAXINT64, NULL, NULL))
		return vial_output_usage(cli, "\"%s\" is not the number of a record: `vial audit` shows them in its first column", argv[0]);
	g_autofree char *path = vial_api_path("/audit/%s", argv[0]);
	if (!vial_api_call(cli, "GET", path, NULL, &record, &error))
		return vial_output_fail(cli, error);
	if (cli->is_json) {
		vial_output_json(record);
		return VIAL_EXIT_OK;
	}
	const char *name;
	json_t *value;
	json_object_foreach (record, name, value) {
		g_autofree char *text = vial_fields_text(record, name);
		if (strcmp(name, "body") != 0)
			vial_fields_line(cli, name, text, strcmp(name, "outcome") == 0 ? vial_audit_outcome_style(text) : NULL);
	}
	const json_t *body = json_object_get(record, "body");
	if (json_is_object(body))
		print_body(cli, body);
	else
		vial_fields_line(cli, "body", "removed after its time; body_sha256 is what it was", NULL);
	return VIAL_EXIT_OK;
}

static const VialVerb verbs[] = {
	{ "", "[OPTION...]", "Show the last records, or those that are looked for", list_run, list_options, 0, 0, NULL, NULL },
	{ "tail", "[OPTION...]", "Show the last records a line each, and with -f those that come", vial_audit_tail_run, vial_audit_tail_options, 0, 0,
	  NULL, NULL },
	{ "show", "SEQ", "Show one record whole", show_run, NULL, 1, 1, NULL, NULL },
	{ "export", "FILE [OPTION...]", "Write records to a file (- is standard output) that can be verified anywhere", vial_audit_export_run,
	  vial_audit_export_options, 1, 1, "@file", NULL },
	{ "verify", "[FILE --key PUBLIC_KEY]", "Prove that the record is what was written: all of it by viald, or an export, offline",
	  vial_audit_verify_run, vial_audit_verify_options, 0, 1, "@file", NULL },
	{ NULL, NULL, NULL, NULL, NULL, 0, 0, NULL, NULL },
};

const VialSyntax vial_audit_syntax = {
	.arguments = "[OPTION...] | tail|show|export|verify [ARGUMENT...]",
	.description = "A viewer's key sees its project's records, an operator's all. With --json the records are as the API gives them, the newest "
		       "first.\n\n"
		       "  vial audit --sandbox ID --text read_csv\n"
		       "  vial audit tail -f\n"
		       "  vial audit export day.jsonl --from 2026-11-18\n"
		       "  vial audit verify day.jsonl --key audit.pub",
	.verbs = verbs,
};
