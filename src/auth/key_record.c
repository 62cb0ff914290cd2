/* SPDX-License-Identifier: Apache-2.0 */
#include "auth/keys_private.h"

#include <string.h>

#include "util/json.h"
#include "util/time.h"

#define SOURCE_FILE "file"
#define SOURCE_API "api"

void vial_key_free(VialKey *key)
{
	if (!key)
		return;
	vial_identity_unref(key->identity);
	vial_identity_unref(key->previous_identity);
	g_free(key->hint);
	g_free(key->created_by);
	g_free(key);
}

static void set_time(json_t *json, const char *name, gint64 time_ms)
{
	char text[VIAL_TIME_TEXT_SIZE];

	if (time_ms <= 0)
		return;
	vial_time_fill(text, time_ms);
	json_object_set_new(json, name, json_string(text));
}

json_t *vial_key_json(const VialKey *key)
{
	const VialIdentity *identity = key->identity;
	json_t *json =
		json_pack("{s:s, s:s, s:s, s:s, s:s, s:s*, s:s*}", "id", identity->id, "name", identity->name, "project", identity->project, "role",
	                  vial_role_name(identity->role), "form", vial_key_forms[key->form], "hint", key->hint, "created_by", key->created_by);

	set_time(json, "created_at", key->created_at_ms);
	set_time(json, "expires_at", identity->expires_at_ms);
	set_time(json, "last_used_at", key->last_used_ms);
	if (key->has_previous)
		set_time(json, "previous_works_until", key->previous_until_ms);
	if (identity->allow)
		json_object_set_new(json, "allow", vial_allow_json(identity->allow));
	if (identity->limits)
		json_object_set_new(json, "limits", vial_quotas_json(identity->limits));
	if (key->is_file)
		json_object_set_new(json, "is_file", json_true());
	return json;
}

/* What the columns do not say. */
static json_t *make_document(const VialKey *key)
{
	json_t *document = json_pack("{s:i, s:s*, s:s*}", "form", (int)key->form, "hint", key->hint, "created_by", key->created_by);

	if (key->identity->allow)
		json_object_set_new(document, "allow", vial_allow_json(key->identity->allow));
	if (key->identity->limits)
		json_object_set_new(document, "limits", vial_quotas_json(key->identity->limits));
	if (key->has_previous) {
		g_autofree char *hex = vial_hex_encode(key->previous, sizeof(key->previous));

		json_object_set_new(document, "previous", json_string(hex));
		json_object_set_new(document, "previous_until", json_integer(key->previous_until_ms));
	}
	return document;
}

static gboolean read_document(VialKey *key, const char *text)
{
	g_autoptr(json_t) document = *text ? vial_json_parse_object(text, strlen(text), NULL) : json_object();
	const char *previous = json_string_value(json_object_get(document, "previous"));
	const json_t *limits = json_object_get(document, "limits");
	json_int_t form = json_integer_value(json_object_get(document, "form"));

	if (!document || form < 0 || form >= VIAL_N_KEY_FORMS || !vial_allow_read(json_object_get(document, "allow"), &key->identity->allow, NULL))
		return FALSE;
	key->form = (VialKeyForm)form;
	key->hint = g_strdup(json_string_value(json_object_get(document, "hint")));
	key->created_by = g_strdup(json_string_value(json_object_get(document, "created_by")));
	key->previous_until_ms = json_integer_value(json_object_get(document, "previous_until"));
	key->has_previous = previous && vial_hex_decode(previous, key->previous, sizeof(key->previous));
	if (!limits)
		return TRUE;
	/* Narrowing that cannot be read must not become none. */
	key->identity->limits = vial_quotas_new();
	return json_is_object(limits) && vial_quotas_read(key->identity->limits, limits, FALSE, NULL);
}

VialKey *vial_key_from_record(const VialKeyRecord *record)
{
	VialKey *key = g_new0(VialKey, 1);
	VialRole role;

	if (vial_hex_decode(record->hash, key->hash, sizeof(key->hash)) && vial_role_parse(record->role, &role)) {
		key->identity = vial_identity_new(VIAL_PRINCIPAL_KEY, record->id, record->project, role, record->label);
		key->identity->expires_at_ms = record->expires_at;
		key->created_at_ms = record->created_at;
		key->is_file = strcmp(record->source, SOURCE_FILE) == 0;
		if (read_document(key, record->document))
			return key;
	}
	vial_key_free(key);
	return NULL;
}

void vial_key_store(const VialKey *key, VialStore *store, VialStoreDone done, gpointer data)
{
	const VialIdentity *identity = key->identity;
	g_autofree char *hex = vial_hex_encode(key->hash, sizeof(key->hash));
	g_autoptr(json_t) document = make_document(key);
	g_autofree char *text = vial_json_dump(document);
	VialKeyRecord record = {
		.id = identity->id,
		.project = identity->project,
		.role = (char *)vial_role_name(identity->role),
		.label = identity->name,
		.hash = hex,
		.source = (char *)(key->is_file ? SOURCE_FILE : SOURCE_API),
		.document = text,
		.created_at = key->created_at_ms,
		.expires_at = identity->expires_at_ms,
	};

	vial_store_put_key(store, &record, done, data);
}

/* "<when it was made, in milliseconds>-<id>": what lists are sorted by. */

char *vial_key_cursor(const VialKey *key)
{
	return g_strdup_printf("%" G_GINT64_FORMAT "-%s", key->created_at_ms, key->identity->id);
}

static gboolean parse_cursor(const char *cursor, gint64 *out_ms, const char **out_id)
{
	const char *dash = strchr(cursor, '-');
	g_autofree char *digits = dash ? g_strndup(cursor, (gsize)(dash - cursor)) : NULL;

	if (!digits || !g_ascii_string_to_signed(digits, 10, 0, G_MAXINT64, out_ms, NULL))
		return FALSE;
	*out_id = dash + 1;
	return TRUE;
}

gboolean vial_key_cursor_is_valid(const char *cursor)
{
	const char *id;
	gint64 time_ms;

	return parse_cursor(cursor, &time_ms, &id);
}

gboolean vial_key_is_behind(const VialKey *key, const char *cursor)
{
	const char *id;
	gint64 time_ms;

	return parse_cursor(cursor, &time_ms, &id) &&
	       (key->created_at_ms != time_ms ? key->created_at_ms > time_ms : strcmp(key->identity->id, id) > 0);
}
