/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drives src/auth/oidc.h from outside: settings as viald takes them, then on standard input one question per line, `TOKEN`, a tab and a project, or
 * none. Each answer is a line of JSON with the question's number `n`, in the order in which they come:
 *
 *   {"n": 1, "identity": {"id", "name", "project", "role", "kind", "expires_at_ms"}, "object": "0x...", "us": 103.2}
 *   {"n": 2, "error": {"status", "type", "message"}, "us": 3.1}
 *   {"ended": [1]}                       identities that have ended, by the question that they first answered
 *
 * `us` is what the call took, where it was answered before it returned. `!many N TOKEN` asks N times and tells what one took, `!looks TEXT` whether
 * that looks like a token; `!quit` stops although questions are open.
 */
#include <gio/gio.h>
#include <gio/gunixinputstream.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "auth/oidc.h"
#include "util/error.h"
#include "util/json.h"
#include "util/log.h"
#include "util/worker.h"

typedef struct {
	VialIdentity *identity;
	guint n;
	gboolean is_told;
} Held;

static GMainLoop *loop;
static VialOidc *oidc;
static GPtrArray *held; /* Held */
static gboolean is_at_end;
static guint n_asked, n_open;

typedef struct {
	guint n;
	gint64 began_us;
	gboolean has_returned, is_answered;
} Question;

static void say(json_t *line)
{
	g_autofree char *text = vial_json_dump(line);

	printf("%s\n", text);
	fflush(stdout);
	json_decref(line);
}

static void hold(VialIdentity *identity, guint n)
{
	Held *one;

	for (guint i = 0; i < held->len; i++)
		if (((Held *)held->pdata[i])->identity == identity)
			return;
	one = g_new0(Held, 1);
	*one = (Held){ .identity = vial_identity_ref(identity), .n = n };
	g_ptr_array_add(held, one);
}

static void drop_all(void)
{
	for (guint i = 0; i < held->len; i++)
		vial_identity_unref(((Held *)held->pdata[i])->identity);
	g_ptr_array_set_size(held, 0);
}

static void on_ended(gpointer data)
{
	json_t *list = json_array();

	for (guint i = 0; i < held->len; i++) {
		Held *one = held->pdata[i];

		if (one->identity->has_ended && !one->is_told)
			json_array_append_new(list, json_integer(one->n));
		one->is_told = one->identity->has_ended;
	}
	say(json_pack("{s:o}", "ended", list));
}

static json_t *describe(const VialIdentity *identity)
{
	return json_pack("{s:s, s:s, s:s, s:s, s:s, s:I}", "id", identity->id, "name", identity->name, "project", identity->project, "role",
	                 vial_role_name(identity->role), "kind", vial_principal_kind_name(identity->kind), "expires_at_ms",
	                 (json_int_t)identity->expires_at_ms);
}

static void on_done(VialIdentity *identity, const GError *error, gpointer data)
{
	Question *question = data;
	double us = (double)(g_get_monotonic_time() - question->began_us);
	json_t *line = json_pack("{s:i}", "n", question->n);

	g_assert(!question->is_answered && !identity != !error);
	question->is_answered = TRUE;
	if (identity) {
		g_autofree char *object = g_strdup_printf("%p", (void *)identity);

		g_assert(!identity->has_ended);
		json_object_set_new(line, "identity", describe(identity));
		json_object_set_new(line, "object", json_string(object));
		hold(identity, question->n);
	} else {
		json_object_set_new(line, "error",
		                    json_pack("{s:i, s:s, s:s}", "status", (int)vial_error_http_status(error), "type", vial_error_type(error),
		                              "message", error->message));
	}
	json_object_set_new(line, question->has_returned ? "later_us" : "us", json_real(us));
	say(line);
	n_open--;
	if (question->has_returned)
		g_free(question);
	if (is_at_end && n_open == 0)
		g_main_loop_quit(loop);
}

static void ask(const char *token, const char *project)
{
	Question *question = g_new0(Question, 1);

	question->n = ++n_asked;
	n_open++;
	question->began_us = g_get_monotonic_time();
	vial_oidc_authenticate(oidc, token, project, on_done, question);
	question->has_returned = TRUE;
	if (question->is_answered)
		g_free(question);
}

static void count(VialIdentity *identity, const GError *error, gpointer data)
{
	*(guint *)data += identity != NULL;
}

static void ask_many(const char *text)
{
	char *rest = NULL;
	guint64 times = g_ascii_strtoull(text, &rest, 10);
	guint good = 0;
	clock_t began = clock();

	for (guint64 i = 0; i < times; i++)
		vial_oidc_authenticate(oidc, rest + 1, NULL, count, &good);
	/* The work, which a busy machine does not make more. */
	say(json_pack("{s:i, s:f}", "good", good, "us", (double)(clock() - began) * 1e6 / CLOCKS_PER_SEC / (double)times));
}

static void take_line(char *line)
{
	char *tab = strchr(line, '\t');

	if (g_str_has_prefix(line, "!many ")) {
		ask_many(line + strlen("!many "));
	} else if (strcmp(line, "!quit") == 0) {
		g_main_loop_quit(loop);
	} else if (g_str_has_prefix(line, "!looks ")) {
		say(json_pack("{s:b}", "looks_like_token", vial_oidc_looks_like_token(line + strlen("!looks "))));
	} else {
		if (tab)
			*tab++ = '\0';
		ask(line, tab);
	}
}

static void on_line(GObject *source, GAsyncResult *result, gpointer data)
{
	GDataInputStream *input = G_DATA_INPUT_STREAM(source);
	g_autofree char *line = g_data_input_stream_read_line_finish(input, result, NULL, NULL);

	if (!line) {
		is_at_end = TRUE;
		if (n_open == 0)
			g_main_loop_quit(loop);
		return;
	}
	take_line(line);
	g_data_input_stream_read_line_async(input, G_PRIORITY_DEFAULT, NULL, on_line, NULL);
}

int main(int argc, char **argv)
{
	g_autoptr(GError) error = NULL;
	g_autoptr(VialConfig) config = vial_config_load(&argc, &argv, NULL, &error);
	g_autoptr(GInputStream) raw = g_unix_input_stream_new(STDIN_FILENO, FALSE);
	g_autoptr(GDataInputStream) input = g_data_input_stream_new(raw);

	vial_log_setup(VIAL_LOG_DEBUG, VIAL_LOG_TEXT);
	if (config)
		oidc = vial_oidc_new(config, &error);
	if (error) {
		fprintf(stderr, "%s\n", error->message);
		return 1;
	}
	if (!oidc) {
		fprintf(stderr, "no issuer\n");
		return 2;
	}
	held = g_ptr_array_new_with_free_func(g_free);
	vial_oidc_on_ended(oidc, on_ended, NULL);
	loop = g_main_loop_new(NULL, FALSE);
	say(json_pack("{s:b}", "ready", TRUE));
	g_data_input_stream_read_line_async(input, G_PRIORITY_DEFAULT, NULL, on_line, NULL);
	g_main_loop_run(loop);
	vial_oidc_free(oidc);
	drop_all();
	g_ptr_array_unref(held);
	vial_worker_shutdown();
	g_main_loop_unref(loop);
	return 0;
}
