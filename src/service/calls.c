/* SPDX-License-Identifier: Apache-2.0 */
#include "service/calls.h"

#include <string.h>

#include "util/time.h"

/* Of a command or code in the journal; the whole is in the record. */
#define MAX_SHOWN_BYTES 160

struct VialCall {
	char *id;
	const char *kind;
	gint64 started_at;
	VialJournalWriter writer;
};

char *vial_call_describe(const json_t *detail)
{
	const json_t *argv = json_object_get(detail, "argv"), *word;
	const char *text = json_string_value(json_object_get(detail, "cmd"));
	g_autoptr(GString) shown = g_string_new(NULL);
	gsize index, length;

	if (!text)
		text = json_string_value(json_object_get(detail, "code"));
	json_array_foreach (argv, index, word)
		g_string_append_printf(shown, "%s%s", index ? " " : "", json_string_value(word));
	if (text)
		g_string_assign(shown, text);
	length = strcspn(shown->str, "\n");
	if (length == shown->len && length <= MAX_SHOWN_BYTES)
		return g_string_free(g_steal_pointer(&shown), FALSE);
	g_string_truncate(shown, MIN(length, MAX_SHOWN_BYTES));
	g_string_append(shown, " ...");
	return g_string_free(g_steal_pointer(&shown), FALSE);
}

static void tell_begin(VialCall *call, const json_t *detail)
{
	g_autofree char *shown = vial_call_describe(detail);

	vial_journal_add_event(call->writer.journal, "%s %s began: %s", call->kind, call->id, shown);
}

static void tell_end(VialCall *call, const char *status, const json_t *outcome)
{
	VialJournal *journal = vial_journal_ref(call->writer.journal);
	const json_t *exit_code = json_object_get(outcome, "exit_code");
	gint64 duration_ms = vial_time_now_ms() - call->started_at;

	vial_journal_writer_clear(&call->writer);
	if (json_is_integer(exit_code))
		vial_journal_add_event(journal, "%s %s %s: exit_code %d after %" G_GINT64_FORMAT " ms", call->kind, call->id, status,
		                       (int)json_integer_value(exit_code), duration_ms);
	else
		vial_journal_add_event(journal, "%s %s %s after %" G_GINT64_FORMAT " ms", call->kind, call->id, status, duration_ms);
	vial_journal_unref(journal);
}

VialCall *vial_call_begin(VialSandbox *sandbox, const char *id, const char *kind, const json_t *detail)
{
	VialCall *call = g_new0(VialCall, 1);

	call->id = g_strdup(id);
	call->kind = kind;
	call->started_at = vial_time_now_ms();
	vial_journal_writer_init(&call->writer, vial_sandbox_journal(sandbox));
	tell_begin(call, detail);
	return call;
}

const char *vial_call_id(const VialCall *call)
{
	return call->id;
}

void vial_call_output(VialCall *call, VialJournalStream stream, const void *bytes, gsize size)
{
	if (call)
		vial_journal_writer_add(&call->writer, stream, bytes, size);
}

void vial_call_end(VialCall *call, const char *status, const json_t *outcome)
{
	tell_end(call, status, outcome);
	g_free(call->id);
	g_free(call);
}
