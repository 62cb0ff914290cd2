/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is the record what was written? viald says so of all it has; of an export we say so ourselves, with nothing but the public key, line by line, so
 * that a million records need no more memory than one. ledger/check.h does the judging.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands/audit.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "ledger/check.h"
#include "ledger/lines.h"

enum { CHUNK_BYTES = 1024 * 1024, LINE_MAX_BYTES = 256 * 1024 * 1024, SMALL_FILE_MAX = 64 * 1024 * 1024 };

static GPtrArray *key_names, *head_files;

const VialOption vial_audit_verify_options[] = {
	{ 0, "key", VIAL_OPTION_LIST, &key_names, "FILE",
	  "with a FILE: the public key, keys/audit.pub of viald (also its 64 digits); repeated for former keys", "@file" },
	{ 0, "heads", VIAL_OPTION_LIST, &head_files, "FILE", "with a FILE: signed heads that were kept elsewhere, which the export must lead to",
	  "@file" },
	VIAL_AUDIT_END,
};

/* --- all of it, by viald --- */

static int verify_there(VialCli *cli)
{
	GError *error = NULL;
	g_autoptr(json_t) verdict = NULL;
	if (!vial_api_run(cli, "/v1/audit/verify", NULL, &verdict, &error))
		return vial_output_fail(cli, error);
	gboolean is_good = json_is_true(json_object_get(verdict, "ok"));
	g_autofree char *sentence = vial_api_line(verdict, "sentence"), *complaint = vial_api_line(verdict, "complaint");
	if (cli->is_json) {
		vial_output_json(verdict);
	} else {
		printf("%s%s:%s %s\n", vial_output_style(cli, is_good ? "32" : "1;31"), is_good ? "good" : "NOT GOOD", vial_output_style(cli, "0"),
		       sentence);
		if (*complaint)
			printf("when viald started: %s\n", complaint);
	}
	return is_good ? VIAL_EXIT_OK : VIAL_EXIT_ERROR;
}

/* --- an export, here --- */

typedef struct {
	GArray *keys;
	VialLedgerCheck *check; /* NULL until the title has come */
	VialLedgerTitle title;
	gint64 lines, records; /* given to the check */
	gint64 finding_line;   /* where it was found; 0: at the end */
	VialLedgerVerdict verdict;
	char *sentence; /* NULL: as the verdict has it */
} Verification;

static gboolean found(Verification *verification, VialLedgerFinding finding, gint64 seq, char *sentence)
{
	verification->verdict = *vial_ledger_check_verdict(verification->check);
	verification->verdict.finding = finding;
	verification->verdict.seq = verification->verdict.until = seq;
	verification->sentence = sentence;
	return FALSE;
}

static gint64 expected(const Verification *verification)
{
	return verification->title.first + verification->records;
}

static gboolean no_export(GError **error, const char *format, const char *name)
{
	g_autofree char *clean = vial_sanitize_line(name);
	g_set_error(error, VIAL_LEDGER_ERROR, 0, format, clean);
	return FALSE;
}

/* The check has said that something is wrong, or all is well so far. */
static gboolean judged(Verification *verification, gboolean is_good)
{
	verification->verdict = *vial_ledger_check_verdict(verification->check);
	return is_good;
}

/*
 * A line that is none: somebody has changed it. What stands before it is judged first, since the first thing that is wrong counts; that more was
 * signed than has come yet is not.
 */
static gboolean damaged(Verification *verification)
{
	gint64 seq = expected(verification);
	if (!vial_ledger_check_end(verification->check) && vial_ledger_check_verdict(verification->check)->finding != VIAL_LEDGER_CUT)
		return judged(verification, FALSE);
	return found(verification, VIAL_LEDGER_CHANGED, seq,
	             g_strdup_printf("line %" G_GINT64_FORMAT " is no line of an export: what stands where record %" G_GINT64_FORMAT
	                             " should be was changed",
	                             verification->lines, seq));
}

static gboolean give_heads(Verification *verification, const char *file, GError **error);

static gboolean begin(Verification *verification, const char *name, const VialLedgerTitle *title, GError **error)
{
	const VialLedgerKey *keys = (const VialLedgerKey *)(gpointer)verification->keys->data;
	verification->title = *title;
	/* From the first record on, hash(0) follows from the chain's name, whatever the title says. */
	verification->check =
		vial_ledger_check_new(title->chain, title->first, title->first > 1 ? &title->previous : NULL, keys, verification->keys->len);
	for (guint i = 0; head_files && i < head_files->len; i++)
		if (!give_heads(verification, head_files->pdata[i], error))
			return FALSE;
	return TRUE;
}

/* FALSE when it is over: with *error (it is no export), or with a finding. */
static gboolean take_line(Verification *verification, const char *name, const char *text, gsize size, GError **error)
{
	VialLedgerLine line;
	VialLedgerLineKind kind = vial_ledger_read_line(text, size, &line);
	verification->lines++;
	if (!verification->check) {
		if (kind != VIAL_LEDGER_LINE_TITLE)
			return no_export(error, "%s is no export of the audit: its first line is not the title of one", name);
		return begin(verification, name, &line.title, error);
	}
	switch (kind) {
	case VIAL_LEDGER_LINE_RECORD:
		if (!judged(verification, vial_ledger_check_record(verification->check, &line.record)))
			return FALSE;
		verification->records++;
		return TRUE;
	case VIAL_LEDGER_LINE_HEAD:
		return judged(verification, vial_ledger_check_head(verification->check, &line.head));
	case VIAL_LEDGER_LINE_TITLE:
	case VIAL_LEDGER_LINE_NONE:
		break;
	}
	return damaged(verification);
}

/* An export ends with a head that covers it: without one, the end is missing, or nothing of it is proven. */
static gboolean end(Verification *verification, const char *name, GError **error)
{
	if (!verification->check)
		return no_export(error, "%s is empty: it is no export of the audit", name);
	if (!judged(verification, vial_ledger_check_end(verification->check)))
		return FALSE;
	gint64 last = expected(verification) - 1, through = verification->verdict.signed_through;
	if (verification->records == 0)
		return no_export(error, "%s has no record in it, so there is nothing to verify: was its end cut off?", name);
	if (through >= last)
		return TRUE;
	return found(verification, VIAL_LEDGER_CUT, last + 1,
	             through < verification->title.first ? g_strdup_printf("the end was cut off behind record %" G_GINT64_FORMAT
	                                                                   ": no signed head is left, so nothing of it is proven",
	                                                                   last)
	                                                 : g_strdup_printf("the end was cut off behind record %" G_GINT64_FORMAT
	                                                                   ": the last signed head is at record %" G_GINT64_FORMAT,
	                                                                   last, through));
}

/* The last line has no end: it was cut within, unless all of it is there. */
static gboolean take_rest(Verification *verification, const char *name, const char *text, gsize size, GError **error)
{
	VialLedgerLine line;
	if (!verification->check || vial_ledger_read_line(text, size, &line) != VIAL_LEDGER_LINE_NONE)
		return take_line(verification, name, text, size, error);
	gint64 seq = expected(verification);
	if (!vial_ledger_check_end(verification->check) && vial_ledger_check_verdict(verification->check)->finding != VIAL_LEDGER_CUT)
		return judged(verification, FALSE);
	return found(verification, VIAL_LEDGER_CUT, seq,
	             g_strdup_printf("the end was cut off: line %" G_GINT64_FORMAT " breaks off, where record %" G_GINT64_FORMAT " should be",
	                             verification->lines + 1, seq));
}

/* --- reading --- */

static gboolean fail_read(GError **error, const char *name)
{
	int problem = errno;
	g_autofree char *clean = vial_sanitize_line(name);
	g_set_error(error, VIAL_LEDGER_ERROR, 0, "%s cannot be read: %s", clean, g_strerror(problem));
	return FALSE;
}

/* All whole lines of `buffer`; what is left over moves to its front. FALSE when it is over. */
static gboolean take_lines(Verification *verification, const char *name, GByteArray *buffer, gsize looked_at, GError **error)
{
	const char *start = (const char *)buffer->data, *at = start, *limit = start + buffer->len, *from = start + looked_at;
	for (const char *newline; (newline = memchr(from, '\n', (gsize)(limit - from))); at = from = newline + 1)
		if (!take_line(verification, name, at, (gsize)(newline - at), error))
			return FALSE;
	if (at > start)
		g_byte_array_remove_range(buffer, 0, (guint)(at - start));
	return TRUE;
}

/* FALSE with *error, or with a finding. */
static gboolean read_all(Verification *verification, const char *name, int fd, VialProgress *progress, GError **error)
{
	g_autoptr(GByteArray) buffer = g_byte_array_new();
	for (;;) {
		guint old = buffer->len;
		if (old > LINE_MAX_BYTES)
			return no_export(error, "%s is no export of the audit: a line of it never ends", name);
		g_byte_array_set_size(buffer, old + CHUNK_BYTES);
		ssize_t got = read(fd, buffer->data + old, CHUNK_BYTES);
		g_byte_array_set_size(buffer, old + (guint)MAX(got, 0));
		if (vial_interrupt_pending()) {
			g_set_error_literal(error, VIAL_HTTP_ERROR, VIAL_HTTP_INTERRUPTED, "interrupted");
			return FALSE;
		}
		if (got < 0 && errno != EINTR)
			return fail_read(error, name);
		if (got == 0)
			break;
		vial_progress_add(progress, (gsize)MAX(got, 0));
		if (got > 0 && !take_lines(verification, name, buffer, old, error))
			return FALSE;
	}
	return (buffer->len == 0 || take_rest(verification, name, (const char *)buffer->data, buffer->len, error)) && end(verification, name, error);
}

/* The lines of audit/heads.jsonl, or of wherever audit_heads_to sent them: a head each, alone or as an export has it. */
static gboolean give_heads(Verification *verification, const char *file, GError **error)
{
	g_autofree char *text = NULL;
	gsize size = 0;
	if (!g_file_get_contents(file, &text, &size, error))
		return FALSE;
	g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
	gint64 heads = 0;
	for (int i = 0; lines[i]; i++) {
		VialLedgerLine line;
		gsize length = strlen(g_strstrip(lines[i]));
		if (length == 0)
			continue;
		if (!vial_ledger_head_read(lines[i], length, &line.head) && vial_ledger_read_line(lines[i], length, &line) != VIAL_LEDGER_LINE_HEAD)
			return no_export(error, "%s has a line that is no signed head", file);
		heads++;
		/* Those before its first record say nothing of this export. */
		if (line.head.seq >= verification->title.first && !judged(verification, vial_ledger_check_head(verification->check, &line.head)))
			return FALSE;
	}
	return heads > 0 || no_export(error, "%s has no signed head in it", file);
}

/* --- keys --- */

/* A file may hold one in PEM, or a key of 64 digits on each line (keys/audit.former). */
static gboolean read_key_file(GArray *keys, const char *name, GError **error)
{
	g_autofree char *text = NULL;
	gsize size = 0;
	VialLedgerKey key;
	if (!g_file_get_contents(name, &text, &size, error))
		return FALSE;
	if (vial_ledger_key_read(text, size, &key, NULL)) {
		g_array_append_val(keys, key);
		return TRUE;
	}
	g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
	guint before = keys->len;
	for (int i = 0; lines[i]; i++)
		if (*g_strstrip(lines[i]) && vial_ledger_key_read(lines[i], strlen(lines[i]), &key, NULL))
			g_array_append_val(keys, key);
	return keys->len > before ||
	       no_export(error, "%s holds no public key for Ed25519, neither PEM nor 64 hexadecimal digits: keys/audit.pub of viald does", name);
}

static gboolean read_keys(GArray *keys, GError **error)
{
	for (guint i = 0; i < key_names->len; i++) {
		VialLedgerKey key;
		const char *name = key_names->pdata[i];
		if (strlen(name) == 2 * VIAL_LEDGER_KEY_BYTES && vial_ledger_key_read(name, strlen(name), &key, NULL))
			g_array_append_val(keys, key);
		else if (!read_key_file(keys, name, error))
			return FALSE;
	}
	return TRUE;
}

static gboolean is_given(const Verification *verification)
{
	for (guint i = 0; i < verification->keys->len; i++)
		if (memcmp(&g_array_index(verification->keys, VialLedgerKey, i), &verification->title.key, sizeof(VialLedgerKey)) == 0)
			return TRUE;
	return FALSE;
}

/* --- saying it --- */

static char *good_sentence(const Verification *verification)
{
	const VialLedgerVerdict *verdict = &verification->verdict;
	gint64 hidden = verification->records - verdict->bodies;
	return g_strdup_printf("records %" G_GINT64_FORMAT " to %" G_GINT64_FORMAT " (%" G_GINT64_FORMAT " with their bodies, %" G_GINT64_FORMAT
	                       " without): nothing was changed, removed, inserted or reordered; %" G_GINT64_FORMAT
	                       " signed heads hold, the last at record %" G_GINT64_FORMAT,
	                       verification->title.first, expected(verification) - 1, verdict->bodies, hidden, verdict->heads,
	                       verdict->signed_through);
}

static void print_verdict(VialCli *cli, const Verification *verification)
{
	const VialLedgerVerdict *verdict = &verification->verdict;
	gboolean is_good = verdict->finding == VIAL_LEDGER_GOOD;
	g_autofree char *sentence = is_good                  ? good_sentence(verification)
	                            : verification->sentence ? g_strdup(verification->sentence)
	                                                     : vial_ledger_verdict_text(verdict);
	if (!cli->is_json) {
		printf("%s%s:%s %s\n", vial_output_style(cli, is_good ? "32" : "1;31"), is_good ? "good" : "NOT GOOD", vial_output_style(cli, "0"),
		       sentence);
		if (verdict->finding == VIAL_LEDGER_FORGED && !is_given(verification)) {
			char named[2 * VIAL_LEDGER_KEY_BYTES + 1];
			vial_ledger_key_write(&verification->title.key, named);
			vial_output_note(
				cli,
				"the export itself names another public key, %s: is --key the right one? The export's word for it proves nothing",
				named);
		}
		return;
	}
	g_autoptr(json_t) json =
		json_pack("{s:b, s:s, s:s, s:I, s:I, s:I, s:I, s:I}", "ok", is_good, "finding", vial_ledger_finding_name(verdict->finding),
	                  "sentence", sentence, "first", (json_int_t)verification->title.first, "records", (json_int_t)verdict->records, "bodies",
	                  (json_int_t)verdict->bodies, "heads", (json_int_t)verdict->heads, "signed_through", (json_int_t)verdict->signed_through);
	if (!is_good) {
		json_object_set_new(json, "seq", json_integer(verdict->seq));
		json_object_set_new(json, "until", json_integer(verdict->until));
	}
	vial_output_json(json);
}

static int verify_here(VialCli *cli, const char *name)
{
	g_autoptr(GError) error = NULL;
	g_autoptr(GArray) keys = g_array_new(FALSE, FALSE, sizeof(VialLedgerKey));
	g_autoptr(VialProgress) progress = vial_progress_new(cli);
	Verification verification = { .keys = keys };
	gboolean is_stdin = strcmp(name, "-") == 0;
	if (!read_keys(keys, &error))
		return vial_output_fail(cli, g_steal_pointer(&error));
	int fd = is_stdin ? STDIN_FILENO : open(name, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		fail_read(&error, name);
		return vial_output_fail(cli, g_steal_pointer(&error));
	}
	vial_progress_begin(progress, is_stdin ? "records" : name, is_stdin ? -1 : (gint64)lseek(fd, 0, SEEK_END));
	if (!is_stdin)
		lseek(fd, 0, SEEK_SET);
	gboolean is_good = read_all(&verification, is_stdin ? "standard input" : name, fd, progress, &error);
	vial_progress_hide(progress);
	if (!is_stdin)
		close(fd);
	if (!error)
		print_verdict(cli, &verification);
	vial_ledger_check_free(verification.check);
	g_free(verification.sentence);
	if (error)
		return vial_output_fail(cli, g_steal_pointer(&error));
	return is_good ? VIAL_EXIT_OK : VIAL_EXIT_ERROR;
}

int vial_audit_verify_run(VialCli *cli, int argc, char **argv)
{
	if (argc == 0 && (key_names || head_files))
		return vial_output_usage(cli, "%s is for an export: name the FILE%s", key_names ? "--key" : "--heads",
		                         key_names ? "; an API key stands before the command, vial --key KEY audit verify" : "");
	if (argc == 0)
		return verify_there(cli);
	if (!key_names)
		return vial_output_usage(
			cli, "give the public key with --key: the file keys/audit.pub of viald's data directory, kept where nobody can exchange it");
	return verify_here(cli, argv[0]);
}
