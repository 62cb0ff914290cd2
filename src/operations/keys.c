/* SPDX-License-Identifier: Apache-2.0 */
#include "operations/keys.h"

#include <string.h>

#include "operations/entry.h"
#include "operations/limits.h"
#include "operations/validate.h"
#include "service/app.h"
#include "service/project.h"
#include "util/json.h"
#include "util/time.h"

#define DEFAULT_OVERLAP_SECONDS 3600

typedef struct {
	VialEntry *entry;
	json_t *document; /* NULL: none */
	VialDocumentDone done;
	gpointer data;
} Change;

static void on_stored(const GError *error, gpointer data)
{
	g_autofree Change *change = data;
	g_autoptr(json_t) document = change->document;
	g_autoptr(GError) unrecorded = NULL;

	error = vial_entry_settle(change->entry, error, &unrecorded);
	change->done(error ? NULL : document, error, change->data);
}

static Change *change_new(VialEntry *entry, VialDocumentDone done, gpointer data)
{
	Change *change = g_new0(Change, 1);

	*change = (Change){ .entry = entry, .done = done, .data = data };
	return change;
}

/* The key as everybody may see it, and its secret, once. */
static json_t *with_secret(const VialKey *key, char *secret)
{
	json_t *document = vial_key_json(key);

	json_object_set_new(document, "key", json_string(secret));
	explicit_bzero(secret, strlen(secret));
	g_free(secret);
	return document;
}

/* Finding */

static VialKey *find(const VialCaller *caller, VialVerb verb, const char *id, GError **error)
{
	VialKey *key;

	if (!vial_operation_admit(caller, verb, NULL, 0, NULL, error))
		return NULL;
	key = vial_keys_find(caller->app->keys, id);
	if (key && (vial_identity_is_operator(caller->principal) || strcmp(vial_key_identity(key)->project, caller->principal->project) == 0))
		return key;
	vial_fail(error, VIAL_ERROR_NOT_FOUND, "there is no key %.40s", id);
	return NULL;
}

/* One that may be changed: not the file's, and not one that stands above who asks. */
static VialKey *find_own(const VialCaller *caller, VialVerb verb, const char *id, GError **error)
{
	VialKey *key = find(caller, verb, id, error);
	g_autoptr(GError) refusal = NULL;

	if (!key)
		return NULL;
	if (vial_key_is_file(key))
		vial_fail(&refusal, VIAL_ERROR_CONFLICT, "this is the key in keys/admin.key: to replace it, delete that file and restart viald");
	else if (vial_key_identity(key)->role > caller->principal->role)
		vial_fail(&refusal, VIAL_ERROR_FORBIDDEN, "this key has the role %s, and only such a one may change it",
		          vial_role_name(vial_key_identity(key)->role));
	else
		return key;
	vial_entry_refuse(caller, verb, NULL, NULL, refusal);
	g_propagate_error(error, g_steal_pointer(&refusal));
	return NULL;
}

/* Nobody gives more than he has: what he is narrowed to, his keys are too, and his end is theirs. A token's end is the session's, not the person's.
 */
static gboolean is_within(const VialIdentity *giver, const VialAllow *allow, const VialQuotas *limits, gint64 expires_at_ms, GError **error)
{
	const char *field;

	if (!vial_allow_is_within(allow, giver->allow, &field))
		return vial_fail(error, VIAL_ERROR_FORBIDDEN,
		                 "this key is narrowed itself (allow.%s) and can only give keys that are narrowed to the same or less", field);
	if (!vial_quotas_are_within(limits, giver->limits, &field))
		return vial_fail(error, VIAL_ERROR_FORBIDDEN,
		                 "this key is limited itself (%s in its limits) and can only give keys with the same limit or a lower one", field);
	if (giver->kind == VIAL_PRINCIPAL_KEY && giver->expires_at_ms > 0 && (expires_at_ms == 0 || expires_at_ms > giver->expires_at_ms))
		return vial_fail(error, VIAL_ERROR_FORBIDDEN,
		                 "this key has an end itself (expires_at) and can only give keys that end no later than it does");
	return TRUE;
}

/* TRUE, or the refusal on record. */
static gboolean stays_within(const VialCaller *caller, VialVerb verb, const VialAllow *allow, const VialQuotas *limits, gint64 expires_at_ms,
                             GError **error)
{
	g_autoptr(GError) refusal = NULL;

	if (is_within(caller->principal, allow, limits, expires_at_ms, &refusal))
		return TRUE;
	vial_entry_refuse(caller, verb, NULL, NULL, refusal);
	g_propagate_error(error, g_steal_pointer(&refusal));
	return FALSE;
}

json_t *vial_op_key_list(const VialCaller *caller, const char *project, const char *cursor, gint64 limit, char **out_next, GError **error)
{
	gboolean is_all = project && strcmp(project, "*") == 0 && vial_identity_is_operator(caller->principal);
	g_autoptr(GPtrArray) list = NULL;
	const char *found = NULL;
	json_t *answer;
	guint i = 0;

	*out_next = NULL;
	if (!vial_operation_admit(caller, VIAL_VERB_KEY_READ, NULL, 0, NULL, error) ||
	    (!is_all && !(found = vial_operation_project(caller, VIAL_VERB_KEY_READ, project, error))) ||
	    !vial_check_int("limit", limit, 1, VIAL_PAGE_MAX, error))
		return NULL;
	if (cursor && !vial_key_cursor_is_valid(cursor))
		return vial_fail(error, VIAL_ERROR_INVALID, "field \"cursor\" must be the \"next\" of the page before"), NULL;
	list = vial_keys_list(caller->app->keys, found);
	answer = json_array();
	while (cursor && i < list->len && !vial_key_is_behind(list->pdata[i], cursor))
		i++;
	for (; i < list->len; i++) {
		if (limit != VIAL_UNSAID && (gint64)json_array_size(answer) == limit) {
			*out_next = vial_key_cursor(list->pdata[i - 1]);
			break;
		}
		json_array_append_new(answer, vial_key_json(list->pdata[i]));
	}
	return answer;
}

json_t *vial_op_key_get(const VialCaller *caller, const char *id, GError **error)
{
	const VialKey *key = find(caller, VIAL_VERB_KEY_READ, id, error);

	return key ? vial_key_json(key) : NULL;
}

/* Values */

static gboolean read_role(const VialCaller *caller, const char *text, const char *project, VialRole *out, GError **error)
{
	if (!vial_role_parse(text, out))
		return vial_fail(error, VIAL_ERROR_INVALID, "field \"role\" must be viewer, runner, developer, admin or operator");
	if (*out > caller->principal->role)
		return vial_fail(error, VIAL_ERROR_FORBIDDEN, "a key with the role %s can be given by such a one only", vial_role_name(*out));
	if (*out == VIAL_ROLE_OPERATOR && strcmp(project, VIAL_DEFAULT_PROJECT) != 0)
		return vial_fail(error, VIAL_ERROR_INVALID, "operators are of the project " VIAL_DEFAULT_PROJECT);
	return TRUE;
}

static gboolean read_expiry(const char *text, gint64 *out_ms, GError **error)
{
	gint64 time_ms;

	if (!text)
		return TRUE;
	if (!vial_time_parse(text, &time_ms))
		return vial_fail(error, VIAL_ERROR_INVALID, "field \"expires_at\" must be a time as 2026-01-31T12:00:00Z");
	if (time_ms <= vial_time_now_ms())
		return vial_fail(error, VIAL_ERROR_INVALID, "field \"expires_at\" is in the past");
	*out_ms = time_ms;
	return TRUE;
}

static gboolean read_limits(const json_t *json, VialQuotas **out, GError **error)
{
	*out = NULL;
	if (!json || json_is_null(json))
		return TRUE;
	if (!json_is_object(json))
		return vial_fail(error, VIAL_ERROR_INVALID, "field \"limits\" must be an object");
	*out = vial_quotas_new();
	if (vial_quotas_read(*out, json, TRUE, error))
		return TRUE;
	g_clear_pointer(out, vial_quotas_free);
	return FALSE;
}

static gboolean read_narrowing(const json_t *allow, const json_t *limits, VialKeySpec *spec, GError **error)
{
	if (!vial_allow_read(allow, &spec->allow, error))
		return FALSE;
	if (read_limits(limits, &spec->limits, error))
		return TRUE;
	g_clear_pointer(&spec->allow, vial_allow_free);
	return FALSE;
}

/* Creating */

static json_t *key_record(const VialKeySpec *spec, const char *id)
{
	char expires[VIAL_TIME_TEXT_SIZE] = "";
	json_t *body;

	if (spec->expires_at_ms > 0)
		vial_time_fill(expires, spec->expires_at_ms);
	body = json_pack("{s:s*, s:s*, s:s, s:s*, s:s*}", "key", id, "name", spec->name, "role", vial_role_name(spec->role), "project", spec->project,
	                 "expires_at", *expires ? expires : NULL);
	if (spec->allow)
		json_object_set_new(body, "allow", vial_allow_json(spec->allow));
	if (spec->limits)
		json_object_set_new(body, "limits", vial_quotas_json(spec->limits));
	return body;
}

static void spec_clear(VialKeySpec *spec)
{
	g_clear_pointer(&spec->allow, vial_allow_free);
	g_clear_pointer(&spec->limits, vial_quotas_free);
}

/* As whoever gives it. */
static gboolean copy_giver(const VialIdentity *giver, VialKeySpec *spec, GError **error)
{
	g_autoptr(json_t) allow = vial_allow_json(giver->allow), limits = giver->limits ? vial_quotas_json(giver->limits) : NULL;

	spec->role = MIN(giver->role, VIAL_ROLE_ADMIN);
	if (spec->expires_at_ms == 0 && giver->kind == VIAL_PRINCIPAL_KEY)
		spec->expires_at_ms = giver->expires_at_ms;
	return read_narrowing(allow, limits, spec, error);
}

static gboolean read_new(const VialCaller *caller, const VialKeyRequest *request, VialKeySpec *out, GError **error)
{
	int form = VIAL_KEY_FORM_VIAL;

	*out = (VialKeySpec){ .name = request->name ? request->name : "", .created_by = caller->principal->id };
	if (!(out->project = vial_operation_project(caller, VIAL_VERB_KEY_CREATE, request->project, error)) ||
	    !vial_check_label("name", request->name, VIAL_KEY_NAME_MAX_BYTES, error) ||
	    (!request->is_as_giver && (!vial_check_required("role", request->role, VIAL_NAME_MAX_BYTES, error) ||
	                               !read_role(caller, request->role, out->project, &out->role, error))) ||
	    !read_expiry(request->expires_at, &out->expires_at_ms, error) || !vial_check_choice("form", request->form, vial_key_forms, &form, error))
		return FALSE;
	out->form = form < 0 ? VIAL_KEY_FORM_VIAL : (VialKeyForm)form;
	if (request->is_as_giver)
		return copy_giver(caller->principal, out, error);
	return read_narrowing(request->allow, request->limits, out, error);
}

gboolean vial_op_key_create(const VialCaller *caller, const VialKeyRequest *request, VialDocumentDone done, gpointer data, GError **error)
{
	g_autoptr(GError) refusal = NULL;
	VialKeySpec spec;
	VialEntry *entry;
	Change *change;
	VialKey *key;
	char *secret;

	if (!vial_operation_admit(caller, VIAL_VERB_KEY_CREATE, NULL, 0, NULL, error))
		return FALSE;
	if (!read_new(caller, request, &spec, &refusal)) {
		if (refusal->code == VIAL_ERROR_FORBIDDEN)
			vial_entry_refuse(caller, VIAL_VERB_KEY_CREATE, NULL, NULL, refusal);
		g_propagate_error(error, g_steal_pointer(&refusal));
		return FALSE;
	}
	if (!stays_within(caller, VIAL_VERB_KEY_CREATE, spec.allow, spec.limits, spec.expires_at_ms, error)) {
		spec_clear(&spec);
		return FALSE;
	}
	if (!(entry = vial_entry_begin_in(caller, VIAL_VERB_KEY_CREATE, spec.project, key_record(&spec, NULL), error))) {
		spec_clear(&spec);
		return FALSE;
	}
	change = change_new(entry, done, data);
	key = vial_keys_create(caller->app->keys, &spec, &secret, on_stored, change);
	json_object_set_new(vial_entry_body(entry), "key", json_string(vial_key_identity(key)->id));
	change->document = with_secret(key, secret);
	return TRUE;
}

/* Changing */

/* As it is, but for what is said. */
static gboolean read_change(const VialCaller *caller, const VialKey *key, const VialKeyRequest *request, VialKeySpec *out, GError **error)
{
	const VialIdentity *old = vial_key_identity(key);
	g_autoptr(json_t) allow = request->allow ? json_incref(request->allow) : vial_allow_json(old->allow);
	g_autoptr(json_t) limits = request->limits ? json_incref(request->limits) : old->limits ? vial_quotas_json(old->limits) : NULL;

	*out = (VialKeySpec){ .name = request->name ? request->name : old->name,
		              .role = old->role,
		              .project = old->project,
		              .expires_at_ms = request->clears_expiry ? 0 : old->expires_at_ms };
	return vial_check_label("name", request->name, VIAL_KEY_NAME_MAX_BYTES, error) &&
	       (!request->role || read_role(caller, request->role, old->project, &out->role, error)) &&
	       read_expiry(request->expires_at, &out->expires_at_ms, error) && read_narrowing(allow, limits, out, error);
}

gboolean vial_op_key_change(const VialCaller *caller, const char *id, const VialKeyRequest *request, VialDocumentDone done, gpointer data,
                            GError **error)
{
	VialKey *key = find_own(caller, VIAL_VERB_KEY_CHANGE, id, error);
	g_autofree char *name = NULL;
	VialKeySpec spec;
	VialEntry *entry;
	Change *change;

	if (!key || !read_change(caller, key, request, &spec, error))
		return FALSE;
	if (!stays_within(caller, VIAL_VERB_KEY_CHANGE, spec.allow, spec.limits, spec.expires_at_ms, error)) {
		spec_clear(&spec);
		return FALSE;
	}
	if (!(entry = vial_entry_begin_in(caller, VIAL_VERB_KEY_CHANGE, spec.project, key_record(&spec, id), error))) {
		spec_clear(&spec);
		return FALSE;
	}
	change = change_new(entry, done, data);
	spec.name = name = g_strdup(spec.name); /* it may be the old identity's */
	vial_keys_change(caller->app->keys, key, &spec, on_stored, change);
	change->document = vial_key_json(key);
	return TRUE;
}

gboolean vial_op_key_rotate(const VialCaller *caller, const char *id, gint64 overlap_seconds, VialDocumentDone done, gpointer data, GError **error)
{
	VialKey *key = find_own(caller, VIAL_VERB_KEY_ROTATE, id, error);
	const VialIdentity *identity = key ? vial_key_identity(key) : NULL;
	VialEntry *entry;
	Change *change;
	char *secret;

	if (!key || !vial_check_int("overlap_seconds", overlap_seconds, 0, VIAL_KEY_MAX_OVERLAP_SECONDS, error))
		return FALSE;
	/* Whoever rotates a key has its secret. */
	if (!stays_within(caller, VIAL_VERB_KEY_ROTATE, identity->allow, identity->limits, identity->expires_at_ms, error))
		return FALSE;
	if (overlap_seconds == VIAL_UNSAID)
		overlap_seconds = DEFAULT_OVERLAP_SECONDS;
	if (overlap_seconds == 0 && caller->principal->kind == VIAL_PRINCIPAL_KEY && strcmp(caller->principal->id, id) == 0)
		return vial_fail(error, VIAL_ERROR_INVALID,
		                 "field \"overlap_seconds\" must not be 0 for the key that asks: it would end before it is told its new secret");
	entry = vial_entry_begin_in(caller, VIAL_VERB_KEY_ROTATE, vial_key_identity(key)->project,
	                            json_pack("{s:s, s:I}", "key", id, "overlap_seconds", (json_int_t)overlap_seconds), error);
	if (!entry)
		return FALSE;
	change = change_new(entry, done, data);
	secret = vial_keys_rotate(caller->app->keys, key, overlap_seconds, on_stored, change);
	change->document = with_secret(key, secret);
	return TRUE;
}

gboolean vial_op_key_revoke(const VialCaller *caller, const char *id, VialDocumentDone done, gpointer data, GError **error)
{
	VialKey *key = find_own(caller, VIAL_VERB_KEY_REVOKE, id, error);
	VialEntry *entry;

	if (!key || !(entry = vial_entry_begin_in(caller, VIAL_VERB_KEY_REVOKE, vial_key_identity(key)->project,
	                                          json_pack("{s:s, s:s}", "key", id, "name", vial_key_identity(key)->name), error)))
		return FALSE;
	vial_keys_revoke(caller->app->keys, key, on_stored, change_new(entry, done, data));
	return TRUE;
}
