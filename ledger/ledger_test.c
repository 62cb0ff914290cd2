/* SPDX-License-Identifier: Apache-2.0 */
/* A history of ten records, and everything that can be done to it: each must be found, and named. */
#include <string.h>

#include "ledger/check.h"
#include "ledger/lines.h"

#define CHAIN "abcdefghij0123456789"
#define RECORDS 10
#define SIGNED_AT 8 /* and at the end */

typedef struct {
	VialLedgerSigner *signer;
	VialLedgerKey key;
	GPtrArray *headers, *bodies; /* texts, by index */
	GArray *seqs;                /* gint64: where each stands */
	GArray *hashes;              /* VialLedgerHash */
	GArray *heads;               /* VialLedgerHead */
} History;

static char *make_header(gint64 seq, const char *body, const char *what)
{
	GString *header = g_string_new(NULL);
	VialLedgerHash hash;

	vial_ledger_hash(body, strlen(body), &hash);
	vial_ledger_header_begin(header, CHAIN, seq);
	g_string_append_printf(header, ",\"action\":\"%s\",\"braces\":\"}{\\\"\"", what);
	vial_ledger_header_end(header, &hash);
	return g_string_free(header, FALSE);
}

static void add(History *history, gint64 seq, const char *what)
{
	char *body = g_strdup_printf("{\"salt\":\"%d\",\"code\":\"print({%d})\"}", (int)seq * 7, (int)seq);
	char *header = make_header(seq, body, what);
	VialLedgerHash previous, hash;

	if (history->hashes->len > 0)
		previous = g_array_index(history->hashes, VialLedgerHash, history->hashes->len - 1);
	else
		vial_ledger_begin(CHAIN, &previous);
	vial_ledger_hash(header, strlen(header), &hash);
	vial_ledger_link(&previous, &hash, &hash);
	g_ptr_array_add(history->headers, header);
	g_ptr_array_add(history->bodies, body);
	g_array_append_val(history->seqs, seq);
	g_array_append_val(history->hashes, hash);
}

static void sign(History *history, gint64 seq)
{
	VialLedgerHead head = { .seq = seq, .hash = g_array_index(history->hashes, VialLedgerHash, seq - 1), .time_ms = 1700000000000 + seq };

	g_strlcpy(head.chain, CHAIN, sizeof(head.chain));
	g_assert_true(vial_ledger_sign(history->signer, &head, NULL));
	g_array_append_val(history->heads, head);
}

static History *history_new(void)
{
	History *history = g_new0(History, 1);

	history->signer = vial_ledger_signer_new(NULL);
	vial_ledger_signer_key(history->signer, &history->key);
	history->headers = g_ptr_array_new_with_free_func(g_free);
	history->bodies = g_ptr_array_new_with_free_func(g_free);
	history->seqs = g_array_new(FALSE, FALSE, sizeof(gint64));
	history->hashes = g_array_new(FALSE, FALSE, sizeof(VialLedgerHash));
	history->heads = g_array_new(FALSE, FALSE, sizeof(VialLedgerHead));
	for (gint64 seq = 1; seq <= RECORDS; seq++)
		add(history, seq, "run");
	sign(history, SIGNED_AT);
	sign(history, RECORDS);
	return history;
}

static void history_free(History *history)
{
	vial_ledger_signer_free(history->signer);
	g_ptr_array_unref(history->headers);
	g_ptr_array_unref(history->bodies);
	g_array_unref(history->seqs);
	g_array_unref(history->hashes);
	g_array_unref(history->heads);
	g_free(history);
}
G_DEFINE_AUTOPTR_CLEANUP_FUNC(History, history_free)

static VialLedgerRecord record_at(const History *history, guint i)
{
	const char *header = history->headers->pdata[i], *body = history->bodies->pdata[i];

	return (VialLedgerRecord){ .seq = g_array_index(history->seqs, gint64, i),
		                   .header = header,
		                   .header_size = strlen(header),
		                   .body = body,
		                   .body_size = body ? strlen(body) : 0,
		                   .hash = g_array_index(history->hashes, VialLedgerHash, i) };
}

static VialLedgerVerdict check_with(const History *history, const VialLedgerKey *key)
{
	VialLedgerCheck *check = vial_ledger_check_new(CHAIN, 1, NULL, key, key != NULL);
	VialLedgerVerdict verdict;
	gboolean is_good = TRUE;

	for (guint i = 0; i < history->heads->len; i++)
		is_good = is_good && vial_ledger_check_head(check, &g_array_index(history->heads, VialLedgerHead, i));
	for (guint i = 0; i < history->headers->len && is_good; i++) {
		VialLedgerRecord record = record_at(history, i);

		is_good = vial_ledger_check_record(check, &record);
	}
	is_good = is_good && vial_ledger_check_end(check);
	verdict = *vial_ledger_check_verdict(check);
	g_assert_cmpint(is_good, ==, verdict.finding == VIAL_LEDGER_GOOD);
	g_assert_false(vial_ledger_check_end(check) && verdict.finding != VIAL_LEDGER_GOOD);
	vial_ledger_check_free(check);
	return verdict;
}

static void expect(const History *history, VialLedgerFinding finding, gint64 seq)
{
	VialLedgerVerdict verdict = check_with(history, &history->key);
	g_autofree char *text = vial_ledger_verdict_text(&verdict);

	g_test_message("%s", text);
	g_assert_cmpstr(vial_ledger_finding_name(verdict.finding), ==, vial_ledger_finding_name(finding));
	g_assert_cmpint(verdict.seq, ==, seq);
	g_assert_nonnull(text);
}

static void test_an_honest_history(void)
{
	g_autoptr(History) history = history_new();
	VialLedgerVerdict verdict = check_with(history, &history->key);

	expect(history, VIAL_LEDGER_GOOD, 0);
	g_assert_cmpint(verdict.records, ==, RECORDS);
	g_assert_cmpint(verdict.bodies, ==, RECORDS);
	g_assert_cmpint(verdict.heads, ==, 2);
	g_assert_cmpint(verdict.signed_through, ==, RECORDS);
	/* A body that retention removed */
	g_clear_pointer(&history->bodies->pdata[2], g_free);
	expect(history, VIAL_LEDGER_GOOD, 0);
	verdict = check_with(history, NULL);
	g_assert_cmpint(verdict.finding, ==, VIAL_LEDGER_GOOD);
	g_assert_cmpint(verdict.signed_through, ==, 0);
}

static void test_every_byte_counts(void)
{
	for (guint i = 0; i < RECORDS; i += 3) {
		g_autoptr(History) original = history_new();
		gsize size = strlen(original->headers->pdata[i]);

		for (gsize at = 0; at < size; at++) {
			char *header = original->headers->pdata[i], old = header[at];
			VialLedgerVerdict verdict;

			header[at] = old == '3' ? '4' : '3';
			verdict = check_with(original, &original->key);
			g_assert_cmpint(verdict.finding, !=, VIAL_LEDGER_GOOD);
			g_assert_cmpint(verdict.seq, ==, i + 1);
			header[at] = old;
		}
		size = strlen(original->bodies->pdata[i]);
		for (gsize at = 0; at < size; at++) {
			char *body = original->bodies->pdata[i], old = body[at];

			body[at] ^= 1;
			expect(original, VIAL_LEDGER_BODY_CHANGED, i + 1);
			body[at] = old;
		}
		g_array_index(original->hashes, VialLedgerHash, i).bytes[31] ^= 1;
		expect(original, VIAL_LEDGER_CHANGED, i + 1);
	}
}

static void remove_at(History *history, guint i)
{
	g_ptr_array_remove_index(history->headers, i);
	g_ptr_array_remove_index(history->bodies, i);
	g_array_remove_index(history->seqs, i);
	g_array_remove_index(history->hashes, i);
}

static void number_anew(History *history)
{
	for (guint i = 0; i < history->seqs->len; i++)
		g_array_index(history->seqs, gint64, i) = i + 1;
}

static void test_removed(void)
{
	for (guint i = 0; i < RECORDS - 1; i++) {
		g_autoptr(History) history = history_new();

		remove_at(history, i);
		expect(history, VIAL_LEDGER_REMOVED, i + 1);
		number_anew(history);
		expect(history, VIAL_LEDGER_REMOVED, i + 1);
	}
	g_autoptr(History) history = history_new();
	remove_at(history, 3);
	remove_at(history, 3);
	g_assert_cmpint(check_with(history, &history->key).until, ==, 5);
}

static void insert_at(History *history, guint i, gint64 seq)
{
	char *body = g_strdup("{\"salt\":\"x\"}"), *header = make_header(seq, body, "never");
	VialLedgerHash previous, hash;

	if (i > 0)
		previous = g_array_index(history->hashes, VialLedgerHash, i - 1);
	else
		vial_ledger_begin(CHAIN, &previous);
	vial_ledger_hash(header, strlen(header), &hash);
	vial_ledger_link(&previous, &hash, &hash);
	hash.bytes[0] ^= 1; /* whoever links it right is found at the next one, or at the signature */
	g_ptr_array_insert(history->headers, (int)i, header);
	g_ptr_array_insert(history->bodies, (int)i, body);
	g_array_insert_val(history->seqs, i, seq);
	g_array_insert_val(history->hashes, i, hash);
}

static void test_inserted(void)
{
	for (guint i = 0; i < RECORDS; i++) {
		g_autoptr(History) history = history_new();

		insert_at(history, i, i + 1);
		expect(history, VIAL_LEDGER_INSERTED, i + 1);
		number_anew(history);
		expect(history, VIAL_LEDGER_INSERTED, i + 1);
	}
}

static void swap(History *history, guint i, guint j, gboolean with_numbers)
{
	gpointer header = history->headers->pdata[i], body = history->bodies->pdata[i];
	VialLedgerHash hash = g_array_index(history->hashes, VialLedgerHash, i);
	gint64 seq = g_array_index(history->seqs, gint64, i);

	history->headers->pdata[i] = history->headers->pdata[j];
	history->headers->pdata[j] = header;
	history->bodies->pdata[i] = history->bodies->pdata[j];
	history->bodies->pdata[j] = body;
	g_array_index(history->hashes, VialLedgerHash, i) = g_array_index(history->hashes, VialLedgerHash, j);
	g_array_index(history->hashes, VialLedgerHash, j) = hash;
	if (with_numbers) {
		g_array_index(history->seqs, gint64, i) = g_array_index(history->seqs, gint64, j);
		g_array_index(history->seqs, gint64, j) = seq;
	}
}

static void test_reordered(void)
{
	for (int with_numbers = 0; with_numbers < 2; with_numbers++) {
		for (guint i = 0; i < RECORDS - 1; i++) {
			g_autoptr(History) history = history_new();

			swap(history, i, i + 1, with_numbers);
			expect(history, VIAL_LEDGER_REORDERED, i + 1);
		}
		for (guint i = 0; i < RECORDS - 3; i++) {
			g_autoptr(History) history = history_new();

			swap(history, i, i + 3, with_numbers);
			expect(history, VIAL_LEDGER_REORDERED, i + 1);
		}
	}
}

static void test_cut(void)
{
	for (guint left = 0; left < RECORDS; left++) {
		g_autoptr(History) history = history_new();

		while (history->headers->len > left)
			remove_at(history, left);
		expect(history, VIAL_LEDGER_CUT, left + 1);
	}
}

/* Somebody with the disk and a program, but without the key. */
static void test_rewritten(void)
{
	for (gint64 from = 1; from <= RECORDS; from++) {
		g_autoptr(History) history = history_new();

		while (history->headers->len >= (guint)from)
			remove_at(history, history->headers->len - 1);
		for (gint64 seq = from; seq <= RECORDS; seq++)
			add(history, seq, seq == from ? "nothing" : "run");
		expect(history, VIAL_LEDGER_REWRITTEN, from <= SIGNED_AT ? 1 : SIGNED_AT + 1);
		/* and signs with a key of his own */
		VialLedgerSigner *mine = vial_ledger_signer_new(NULL);
		VialLedgerHead *head = &g_array_index(history->heads, VialLedgerHead, 1);
		head->hash = g_array_index(history->hashes, VialLedgerHash, RECORDS - 1);
		g_assert_true(vial_ledger_sign(mine, head, NULL));
		expect(history, VIAL_LEDGER_FORGED, RECORDS);
		vial_ledger_signer_free(mine);
	}
}

static void test_a_head_is_signed_as_a_whole(void)
{
	g_autoptr(History) history = history_new();
	VialLedgerHead head = g_array_index(history->heads, VialLedgerHead, 0), other = head;

	g_assert_true(vial_ledger_head_is_signed(&head, &history->key));
	other.seq++;
	g_assert_false(vial_ledger_head_is_signed(&other, &history->key));
	other = head;
	other.time_ms++;
	g_assert_false(vial_ledger_head_is_signed(&other, &history->key));
	other = head;
	other.hash.bytes[5] ^= 1;
	g_assert_false(vial_ledger_head_is_signed(&other, &history->key));
	other = head;
	other.chain[0]++;
	g_assert_false(vial_ledger_head_is_signed(&other, &history->key));
	other = head;
	other.signature[63] ^= 1;
	g_assert_false(vial_ledger_head_is_signed(&other, &history->key));
}

static void test_keys_as_text(void)
{
	VialLedgerSigner *signer = vial_ledger_signer_new(NULL);
	g_autofree char *secret = vial_ledger_signer_pem(signer, NULL);
	VialLedgerSigner *again = vial_ledger_signer_read(secret, strlen(secret), NULL);
	VialLedgerKey key, other;
	char hex[2 * VIAL_LEDGER_KEY_BYTES + 1];

	g_assert_nonnull(again);
	vial_ledger_signer_key(signer, &key);
	vial_ledger_signer_key(again, &other);
	g_assert_cmpmem(&key, sizeof(key), &other, sizeof(other));
	g_autofree char *pem = vial_ledger_key_pem(&key);
	g_assert_true(vial_ledger_key_read(pem, strlen(pem), &other, NULL));
	g_assert_cmpmem(&key, sizeof(key), &other, sizeof(other));
	vial_ledger_key_write(&key, hex);
	g_assert_true(vial_ledger_key_read(hex, strlen(hex), &other, NULL));
	g_assert_cmpmem(&key, sizeof(key), &other, sizeof(other));
	for (const char *const *text = (const char *const[]){ "", "abc", "-----BEGIN PUBLIC KEY-----\n", NULL }; *text; text++) {
		g_autoptr(GError) error = NULL;

		g_assert_false(vial_ledger_key_read(*text, strlen(*text), &other, &error));
		g_assert_nonnull(error);
		g_clear_error(&error);
		g_assert_null(vial_ledger_signer_read(*text, strlen(*text), &error));
		g_assert_nonnull(error);
	}
	vial_ledger_signer_free(signer);
	vial_ledger_signer_free(again);
}

/* Lines */

static char *export(const History *history, guint hidden)
{
	GString *out = g_string_new(NULL);
	VialLedgerTitle title = { .first = 1, .key = history->key };

	g_strlcpy(title.chain, CHAIN, sizeof(title.chain));
	vial_ledger_begin(CHAIN, &title.previous);
	vial_ledger_write_title(out, &title);
	for (guint i = 0; i < history->headers->len; i++) {
		VialLedgerRecord record = record_at(history, i);

		if (i + 1 == hidden) {
			vial_ledger_hash(record.header, record.header_size, &record.header_hash);
			record.header = record.body = NULL;
		}
		vial_ledger_write_record(out, &record);
		for (guint h = 0; h < history->heads->len; h++)
			if (g_array_index(history->heads, VialLedgerHead, h).seq == (gint64)i + 1)
				vial_ledger_write_head(out, &g_array_index(history->heads, VialLedgerHead, h));
	}
	return g_string_free(out, FALSE);
}

static VialLedgerVerdict check_lines(char **lines, const VialLedgerKey *key)
{
	VialLedgerCheck *check = NULL;
	VialLedgerVerdict verdict;
	gboolean is_good = TRUE;

	for (; *lines && is_good; lines++) {
		VialLedgerLine line;
		VialLedgerRecord unreadable = { .header = "" };

		if (!**lines)
			continue;
		switch (vial_ledger_read_line(*lines, strlen(*lines), &line)) {
		case VIAL_LEDGER_LINE_TITLE:
			check = vial_ledger_check_new(line.title.chain, line.title.first, &line.title.previous, key, 1);
			break;
		case VIAL_LEDGER_LINE_RECORD:
			is_good = vial_ledger_check_record(check, &line.record);
			break;
		case VIAL_LEDGER_LINE_HEAD:
			is_good = vial_ledger_check_head(check, &line.head);
			break;
		case VIAL_LEDGER_LINE_NONE:
			is_good = vial_ledger_check_record(check, &unreadable);
			break;
		}
	}
	vial_ledger_check_end(check);
	verdict = *vial_ledger_check_verdict(check);
	vial_ledger_check_free(check);
	return verdict;
}

static void test_an_export(void)
{
	g_autoptr(History) history = history_new();

	for (guint hidden = 0; hidden <= RECORDS; hidden++) {
		g_autofree char *text = export(history, hidden);
		g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
		VialLedgerVerdict verdict = check_lines(lines, &history->key);

		g_assert_cmpstr(vial_ledger_finding_name(verdict.finding), ==, "good");
		g_assert_cmpint(verdict.records, ==, RECORDS);
		g_assert_cmpint(verdict.bodies, ==, RECORDS - (hidden > 0));
		g_assert_cmpint(verdict.signed_through, ==, RECORDS);
	}
}

static void test_every_byte_of_an_export_counts(void)
{
	g_autoptr(History) history = history_new();
	g_autofree char *text = export(history, 4);
	g_auto(GStrv) lines = g_strsplit(text, "\n", -1);

	for (guint i = 1; lines[i] && *lines[i]; i++) {
		gboolean is_head = g_str_has_prefix(lines[i], "{\"head\"");

		for (gsize at = 0; lines[i][at]; at++) {
			char old = lines[i][at];

			lines[i][at] = old == '5' ? '6' : '5';
			/* A head that cannot be read any more signs nothing; it does not make the records wrong. */
			g_assert_true(is_head || check_lines(lines, &history->key).finding != VIAL_LEDGER_GOOD);
			lines[i][at] = old;
		}
	}
}

static void test_lines_of_an_export_moved_about(void)
{
	for (guint i = 1; i < 7; i++) {
		g_autoptr(History) history = history_new();
		g_autofree char *text = export(history, 0);
		g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
		char *line = lines[i], *next = lines[i + 1];
		VialLedgerVerdict verdict;

		lines[i] = next;
		lines[i + 1] = line;
		verdict = check_lines(lines, &history->key);
		g_assert_cmpstr(vial_ledger_finding_name(verdict.finding), ==, "reordered");
		g_assert_cmpint(verdict.seq, ==, i);
		lines[i] = line;
		lines[i + 1] = next;
		char empty[] = "";
		lines[i] = empty;
		verdict = check_lines(lines, &history->key);
		lines[i] = line;
		g_assert_cmpstr(vial_ledger_finding_name(verdict.finding), ==, "removed");
		g_assert_cmpint(verdict.seq, ==, i);
	}
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/ledger/honest", test_an_honest_history);
	g_test_add_func("/ledger/every-byte", test_every_byte_counts);
	g_test_add_func("/ledger/removed", test_removed);
	g_test_add_func("/ledger/inserted", test_inserted);
	g_test_add_func("/ledger/reordered", test_reordered);
	g_test_add_func("/ledger/cut", test_cut);
	g_test_add_func("/ledger/rewritten", test_rewritten);
	g_test_add_func("/ledger/head", test_a_head_is_signed_as_a_whole);
	g_test_add_func("/ledger/keys", test_keys_as_text);
	g_test_add_func("/ledger/lines/export", test_an_export);
	g_test_add_func("/ledger/lines/every-byte", test_every_byte_of_an_export_counts);
	g_test_add_func("/ledger/lines/moved", test_lines_of_an_export_moved_about);
	return g_test_run();
}
