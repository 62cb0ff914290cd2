/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/message.h"

#include <string.h>

#include "util/json.h"

/* A parsed value costs some hundred bytes whatever its text: this many are plenty for a plot or a listing, and bounded for the host. */
#define MAX_VALUES 1000000
#define MAX_CONFIRMED 16

const char *vial_message_state(const json_t *message, GError **error)
{
	static const char *const states[] = { "new", "created", "running", "paused", "exited", "busy", NULL };
	static const char *const events[] = { "state", NULL };
	int event, state;

	if (!vial_json_get_choice(message, "event", VIAL_JSON_REQUIRED, events, &event, error) ||
	    !vial_json_get_choice(message, "state", VIAL_JSON_REQUIRED, states, &state, error))
		return NULL;
	return states[state];
}

char *vial_message_text(const json_t *value, const char *fallback)
{
	const char *text = json_string_value(value), *end;
	GString *line;

	if (!text || !*text)
		return g_strdup(fallback);
	line = g_string_new(NULL);
	for (const char *next = text; *next && line->len < VIAL_MESSAGE_TEXT_BYTES; next = end) {
		gunichar character = g_utf8_get_char(next);

		end = g_utf8_next_char(next);
		if (line->len + (gsize)(end - next) > VIAL_MESSAGE_TEXT_BYTES)
			break;
		if (g_unichar_iscntrl(character))
			g_string_append_c(line, ' ');
		else
			g_string_append_len(line, next, end - next);
	}
	return g_string_free(line, FALSE);
}

static GError *refusal_of(const json_t *message)
{
	static const struct {
		const char *name;
		VialErrorCode code;
	} codes[] = {
		{ "invalid", VIAL_ERROR_INVALID },  { "not_found", VIAL_ERROR_NOT_FOUND },     { "conflict", VIAL_ERROR_CONFLICT },
		{ "denied", VIAL_ERROR_FORBIDDEN }, { "no_space", VIAL_ERROR_NO_SPACE },       { "limit", VIAL_ERROR_QUOTA },
		{ "timeout", VIAL_ERROR_TIMEOUT },  { "unavailable", VIAL_ERROR_UNAVAILABLE }, { "not_ready", VIAL_ERROR_UNAVAILABLE },
	};
	const char *name = json_string_value(json_object_get(message, "code"));
	g_autofree char *text = vial_message_text(json_object_get(message, "error"), "it gave no reason");
	VialErrorCode code = VIAL_ERROR_INTERNAL;

	for (gsize i = 0; name && i < G_N_ELEMENTS(codes); i++)
		if (strcmp(codes[i].name, name) == 0)
			code = codes[i].code;
	return g_error_new_literal(VIAL_ERROR, code, text);
}

gboolean vial_message_agent_answer(const json_t *message, GError **out_refusal, GError **error)
{
	gboolean is_ok;

	if (!vial_json_get_bool(message, "ok", VIAL_JSON_REQUIRED, &is_ok, error))
		return FALSE;
	*out_refusal = is_ok ? NULL : refusal_of(message);
	return TRUE;
}

gboolean vial_message_host_answer(const json_t *message, guint last_tag, guint *out_tag, GError **out_refusal, GError **error)
{
	gint64 tag;

	/* 0 is what a viald asked for that is gone; host processes of older builds say that, too. Nobody waits for it. */
	if (!vial_json_get_int(message, "tag", VIAL_JSON_REQUIRED, 0, last_tag, &tag, error) ||
	    !vial_message_agent_answer(message, out_refusal, error))
		return FALSE;
	*out_tag = (guint)tag;
	return TRUE;
}

static gboolean read_clock(const json_t *message, gint64 *out_us, GError **error)
{
	const char *text = NULL;
	guint64 ns;

	if (!vial_json_get_string(message, "wall_clock_ns", 0, 20, &text, error))
		return FALSE;
	if (text && !g_ascii_string_to_unsigned(text, 10, 1000, G_MAXINT64, &ns, NULL))
		return vial_fail(error, VIAL_ERROR_INVALID, "field \"wall_clock_ns\" must be a time");
	*out_us = text ? (gint64)(ns / 1000) : 0;
	return TRUE;
}

static gboolean has_all(json_t *confirmed)
{
	static const char *const needed[] = { "entropy", "clock", "hostname", "kernels" };
	guint found = 0;
	size_t index;
	json_t *item;

	json_array_foreach (confirmed, index, item)
		for (guint i = 0; i < G_N_ELEMENTS(needed); i++)
			if (strcmp(json_string_value(item), needed[i]) == 0)
				found |= 1u << i;
	return found == (1u << G_N_ELEMENTS(needed)) - 1;
}

gboolean vial_message_hello(const json_t *message, VialAgentHello *out_hello, GError **error)
{
	json_t *refusal = json_object_get(message, "error"), *confirmed = NULL;
	const char *generation = NULL;
	VialAgentHello hello = { 0 };

	if (refusal) {
		hello.refusal = vial_message_text(refusal, "it gave no reason");
		*out_hello = hello;
		return TRUE;
	}
	if (!vial_json_get_int(message, "version", VIAL_JSON_REQUIRED, 1, G_MAXINT32, &hello.version, error) ||
	    !vial_json_get_string(message, "generation", VIAL_JSON_REQUIRED, VIAL_MESSAGE_GENERATION_BYTES, &generation, error) ||
	    !vial_json_get_string_array(message, "confirmed", VIAL_JSON_REQUIRED, MAX_CONFIRMED, VIAL_MESSAGE_GENERATION_BYTES, &confirmed, error) ||
	    !read_clock(message, &hello.wall_clock_us, error))
		return FALSE;
	g_strlcpy(hello.generation, generation, sizeof hello.generation);
	hello.has_all = has_all(confirmed);
	*out_hello = hello;
	return TRUE;
}

void vial_agent_hello_clear(VialAgentHello *hello)
{
	g_clear_pointer(&hello->refusal, g_free);
}

gboolean vial_message_is_bounded(const char *text, gsize size)
{
	gboolean in_string = FALSE;
	gsize values = 1;

	/* Every value but the first stands behind a bracket, a comma or a colon. */
	for (gsize i = 0; i < size; i++) {
		char c = text[i];

		if (in_string && c == '\\')
			i++;
		else if (c == '"')
			in_string = !in_string;
		else if (!in_string && (c == ',' || c == ':' || c == '[' || c == '{') && ++values > MAX_VALUES)
			return FALSE;
	}
	return TRUE;
}
