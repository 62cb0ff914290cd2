/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target: what reaches the CLI from a sandbox or a broken server. The same bytes are given whole and cut into pieces;
 * event parser and terminal filter must not care, and what the filter lets through is harmless.
 *   clang -g -O1 -fsanitize=fuzzer,address,undefined -D_GNU_SOURCE -DVIAL_VERSION='"fuzz"' -I. tests/cli/fuzz_cli.c \
 *     cli/{api,completeness,http,http_error,interrupt,options,output,progress,sanitize,sse,table,terminal,transfer}.c \
 *     -o fuzz-cli $(pkg-config --cflags --libs gio-unix-2.0 libcurl jansson) && ./fuzz-cli -max_total_time=60 tests/cli/corpus
 */
#undef NDEBUG
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "cli/completeness.h"
#include "cli/http.h"
#include "cli/sanitize.h"
#include "cli/sse.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static gboolean on_event(const char *event, const char *data, gsize size, gpointer user, GError **error)
{
	g_string_append_printf(user, "%s %" G_GSIZE_FORMAT ";", event, size);
	g_string_append_len(user, data, (gssize)size);
	assert(data[size] == '\0');
	return TRUE;
}

static void feed(const char *bytes, gsize size, gsize step, GString *events, GString *clean)
{
	VialSanitizer sanitizer = { 0 };
	g_autoptr(VialSse) sse = vial_sse_new(on_event, events);
	for (gsize at = 0; at < size; at += step) {
		gsize piece = MIN(step, size - at);
		vial_sse_feed(sse, bytes + at, piece, NULL);
		vial_sanitize(&sanitizer, bytes + at, piece, clean);
	}
	vial_sanitize_end(&sanitizer, clean);
}

/* Only text, newline, tab, return, backspace, and ESC [ digits m. */
static void check_harmless(const GString *clean)
{
	assert(g_utf8_validate_len(clean->str, clean->len, NULL));
	for (const char *at = clean->str; *at; at = g_utf8_next_char(at)) {
		gunichar c = g_utf8_get_char(at);
		assert(c >= 0x20 ? c < 0x7f || c > 0x9f : c == '\n' || c == '\t' || c == '\r' || c == '\b' || c == 0x1b);
		if (c != 0x1b)
			continue;
		assert(at[1] == '[');
		gsize parameters = strspn(at + 2, "0123456789;:");
		assert(at[2 + parameters] == 'm' && parameters < VIAL_SANITIZE_SEQUENCE_MAX);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	static const gsize steps[] = { 1, 3, 7 };
	g_autoptr(GString) events = g_string_new(NULL), clean = g_string_new(NULL);
	feed((const char *)bytes, size, size ? size : 1, events, clean);
	check_harmless(clean);
	for (gsize i = 0; i < G_N_ELEMENTS(steps); i++) {
		g_autoptr(GString) events_again = g_string_new(NULL), clean_again = g_string_new(NULL);
		feed((const char *)bytes, size, steps[i], events_again, clean_again);
		assert(g_string_equal(events, events_again) && g_string_equal(clean, clean_again));
	}

	g_autofree char *text = g_strndup((const char *)bytes, size);
	static const char *const languages[] = { "python", "javascript", "bash" };
	for (gsize i = 0; i < G_N_ELEMENTS(languages); i++) {
		vial_is_complete(languages[i], text);
		g_free(vial_next_indent(languages[i], text));
	}
	g_autofree char *line = vial_sanitize_line(text);
	assert(!strpbrk(line, "\033\n\r\t\b"));
	return 0;
}
