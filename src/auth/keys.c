/* SPDX-License-Identifier: Apache-2.0 */
#include "auth/keys_private.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "util/error.h"
#include "util/fd.h"
#include "util/id.h"
#include "util/log.h"
#include "util/time.h"

#define ADMIN_FILE "admin.key"
#define ADMIN_NAME "admin"
#define MAX_FILE_BYTES 256
/* A key is far shorter; what is longer need not be hashed. */
#define MAX_SECRET_BYTES 256
/* How many digits of a secret its hint has, behind the prefix. */
#define HINT_DIGITS 4
/* How often it is written down when keys were last used, where any was. */
#define USES_SECONDS 60
/* A clock may be set: never look later than this whether a key has expired. */
#define MAX_EXPIRY_TICK_MS (60 * 1000)

static const char *const prefixes[VIAL_N_KEY_FORMS] = {
	[VIAL_KEY_FORM_VIAL] = "vial_", [VIAL_KEY_FORM_E2B] = "e2b_", [VIAL_KEY_FORM_PDS] = "pds_",
	[VIAL_KEY_FORM_PF] = "pf_",     [VIAL_KEY_FORM_SK] = "sk-",
};

const char *const vial_key_forms[VIAL_N_KEY_FORMS + 1] = {
	[VIAL_KEY_FORM_VIAL] = "vial", [VIAL_KEY_FORM_E2B] = "e2b", [VIAL_KEY_FORM_PDS] = "pds", [VIAL_KEY_FORM_PF] = "pf", [VIAL_KEY_FORM_SK] = "sk",
};

struct VialKeys {
	VialStore *store;
	GHashTable *by_id;     /* VialKey, owned */
	GHashTable *by_secret; /* digest, in the key -> VialKey */
	char *admin_path;
	VialSigning *signing;
	gboolean is_new;
	guint uses_timer, expiry_timer;
	VialKeysEnded ended;
	gpointer ended_data;
};

/* The digest is uniform; its first bytes are as good as any hash of it. */
static guint hash_digest(gconstpointer digest)
{
	guint value;

	memcpy(&value, digest, sizeof(value));
	return value;
}

static gboolean digests_are_equal(gconstpointer a, gconstpointer b)
{
	return vial_constant_time_equal(a, b, VIAL_SHA256_BYTES);
}

static void add_secrets(VialKeys *keys, VialKey *key)
{
	g_hash_table_replace(keys->by_secret, key->hash, key);
	if (!key->has_previous)
		return;
	g_hash_table_replace(keys->by_secret, key->previous, key);
	if (!key->previous_identity)
		key->previous_identity = vial_identity_copy(key->identity);
}

static void add_key(VialKeys *keys, VialKey *key)
{
	g_hash_table_insert(keys->by_id, key->identity->id, key);
	add_secrets(keys, key);
}

/* With all that it took the place of. */
static void end_identity(VialKeys *keys, VialIdentity *identity)
{
	gboolean has_any = FALSE;

	for (; identity; identity = identity->predecessor) {
		has_any |= !identity->has_ended;
		identity->has_ended = TRUE;
	}
	if (has_any && keys->ended)
		keys->ended(keys->ended_data);
}

/* What was opened with the old secret ends with it. */
static void forget_previous(VialKeys *keys, VialKey *key)
{
	if (key->has_previous)
		g_hash_table_remove(keys->by_secret, key->previous);
	key->has_previous = FALSE;
	end_identity(keys, key->previous_identity);
	g_clear_pointer(&key->previous_identity, vial_identity_unref);
}

static void end_key(VialKeys *keys, VialKey *key)
{
	end_identity(keys, key->identity);
	end_identity(keys, key->previous_identity);
}

/* Expiry */

static gboolean on_expiry(gpointer data);

/* The timer goes off when the first of them is due, or sooner, for the clock may be set. */
static void wait_for_expiry(VialKeys *keys)
{
	gint64 next_ms = G_MAXINT64, now_ms = vial_time_now_ms();
	GHashTableIter iter;
	gpointer value;

	g_hash_table_iter_init(&iter, keys->by_id);
	while (g_hash_table_iter_next(&iter, NULL, &value)) {
		const VialKey *key = value;

		if (key->has_previous)
			next_ms = MIN(next_ms, key->previous_until_ms);
		if (key->identity->expires_at_ms > 0 && !key->identity->has_ended)
			next_ms = MIN(next_ms, key->identity->expires_at_ms);
	}
	g_clear_handle_id(&keys->expiry_timer, g_source_remove);
	if (next_ms < G_MAXINT64)
		keys->expiry_timer = g_timeout_add((guint)CLAMP(next_ms - now_ms, 1, MAX_EXPIRY_TICK_MS), on_expiry, keys);
}

/* Expired is expired: a clock that is set back revives nothing. */
static gboolean on_expiry(gpointer data)
{
	VialKeys *keys = data;
	gint64 now_ms = vial_time_now_ms();
	GHashTableIter iter;
	gpointer value;

	keys->expiry_timer = 0;
	g_hash_table_iter_init(&iter, keys->by_id);
	while (g_hash_table_iter_next(&iter, NULL, &value)) {
		VialKey *key = value;

		if (key->has_previous && key->previous_until_ms <= now_ms) {
			forget_previous(keys, key);
			vial_key_store(key, keys->store, NULL, NULL);
		}
		if (key->identity->expires_at_ms > 0 && key->identity->expires_at_ms <= now_ms)
			end_key(keys, key);
	}
	wait_for_expiry(keys);
	return G_SOURCE_REMOVE;
}

/* Last uses: written now and then, and never waited for. */

static void store_uses(VialKeys *keys)
{
	GHashTableIter iter;
	gpointer value;

	g_hash_table_iter_init(&iter, keys->by_id);
	while (g_hash_table_iter_next(&iter, NULL, &value)) {
		VialKey *key = value;

		if (key->last_used_ms == key->stored_use_ms)
			continue;
		key->stored_use_ms = key->last_used_ms;
		vial_store_put_key_use(keys->store, &(VialKeyUseRecord){ .id = key->identity->id, .last_used_at = key->last_used_ms });
	}
}

static gboolean on_uses(gpointer data)
{
	VialKeys *keys = data;

	keys->uses_timer = 0;
	store_uses(keys);
	return G_SOURCE_REMOVE;
}

VialIdentity *vial_keys_lookup(VialKeys *keys, const char *secret)
{
	guint8 hash[VIAL_SHA256_BYTES];
	gsize length = strnlen(secret, MAX_SECRET_BYTES + 1);
	gint64 now_ms = vial_time_now_ms();
	gboolean is_previous;
	VialKey *key;

	if (length > MAX_SECRET_BYTES)
		return NULL;
	vial_sha256(secret, length, hash);
	key = g_hash_table_lookup(keys->by_secret, hash);
	if (!key || key->identity->has_ended)
		return NULL;
	/* The timer may be late, or the clock was set. */
	if (key->identity->expires_at_ms > 0 && key->identity->expires_at_ms <= now_ms) {
		end_key(keys, key);
		return NULL;
	}
	is_previous = key->has_previous && digests_are_equal(hash, key->previous);
	if (is_previous && key->previous_until_ms <= now_ms)
		return NULL;
	key->last_used_ms = now_ms;
	if (!keys->uses_timer)
		keys->uses_timer = g_timeout_add_seconds(USES_SECONDS, on_uses, keys);
	return vial_identity_ref(is_previous ? key->previous_identity : key->identity);
}

/* Secrets */

static gboolean is_well_formed(const char *secret)
{
	gsize length = strlen(prefixes[VIAL_KEY_FORM_VIAL]);

	/* Keys of older versions have letters besides hexadecimal digits. */
	if (!g_str_has_prefix(secret, prefixes[VIAL_KEY_FORM_VIAL]) || strlen(secret) != length + VIAL_KEY_SECRET_DIGITS)
		return FALSE;
	for (const char *c = secret + length; *c; c++)
		if (!g_ascii_isalnum(*c))
			return FALSE;
	return TRUE;
}

gboolean vial_key_has_form(const char *text)
{
	for (gsize i = 0; i < G_N_ELEMENTS(prefixes); i++) {
		const char *digits = g_str_has_prefix(text, prefixes[i]) ? text + strlen(prefixes[i]) : NULL;

		if (digits && strlen(digits) == VIAL_KEY_SECRET_DIGITS && strspn(digits, "0123456789abcdef") == VIAL_KEY_SECRET_DIGITS)
			return TRUE;
	}
	return is_well_formed(text);
}

static char *make_secret(VialKeyForm form)
{
	return vial_secret_new(prefixes[form], VIAL_KEY_SECRET_DIGITS);
}

static void set_secret(VialKey *key, const char *secret)
{
	vial_sha256(secret, strlen(secret), key->hash);
	g_free(key->hint);
	key->hint = g_strndup(secret, strlen(prefixes[key->form]) + HINT_DIGITS);
}

/* Changing */

static VialIdentity *make_identity(const char *id, const char *project, VialKeySpec *spec)
{
	VialIdentity *identity = vial_identity_new(VIAL_PRINCIPAL_KEY, id, project, spec->role, spec->name);

	identity->expires_at_ms = spec->expires_at_ms;
	identity->allow = g_steal_pointer(&spec->allow);
	identity->limits = g_steal_pointer(&spec->limits);
	return identity;
}

VialKey *vial_keys_create(VialKeys *keys, VialKeySpec *spec, char **out_secret, VialStoreDone done, gpointer data)
{
	g_autofree char *id = vial_id_new();
	VialKey *key = g_new0(VialKey, 1);

	key->identity = make_identity(id, spec->project, spec);
	key->form = spec->form;
	key->created_by = g_strdup(spec->created_by);
	key->created_at_ms = vial_time_now_ms();
	*out_secret = make_secret(spec->form);
	set_secret(key, *out_secret);
	add_key(keys, key);
	vial_key_store(key, keys->store, done, data);
	wait_for_expiry(keys);
	return key;
}

/* Returns the old one. The table's key is the identity's. */
static VialIdentity *replace_identity(VialKeys *keys, VialKey *key, VialIdentity *identity)
{
	VialIdentity *old = key->identity;

	g_hash_table_steal(keys->by_id, old->id);
	key->identity = identity;
	g_hash_table_insert(keys->by_id, identity->id, key);
	return old;
}

void vial_keys_change(VialKeys *keys, VialKey *key, VialKeySpec *spec, VialStoreDone done, gpointer data)
{
	/* A longer or shorter list is not compared: whoever narrows means it now, and whoever widens loses a stream. */
	gboolean loses = spec->role < key->identity->role || spec->allow || key->identity->allow;
	VialIdentity *old = replace_identity(keys, key, make_identity(key->identity->id, key->identity->project, spec));
	VialIdentity *old_previous = g_steal_pointer(&key->previous_identity);

	if (loses) {
		end_identity(keys, old);
		end_identity(keys, old_previous);
	}
	/* What is open goes on, and ends when the key does. */
	vial_identity_succeed(key->identity, old);
	if (old_previous) {
		key->previous_identity = vial_identity_copy(key->identity);
		vial_identity_succeed(key->previous_identity, old_previous);
	}
	vial_key_store(key, keys->store, done, data);
	on_expiry(keys); /* its end may be in the past now */
}

char *vial_keys_rotate(VialKeys *keys, VialKey *key, gint64 overlap_seconds, VialStoreDone done, gpointer data)
{
	char *secret = make_secret(key->form);
	VialIdentity *old = replace_identity(keys, key, vial_identity_copy(key->identity));

	forget_previous(keys, key);
	g_hash_table_remove(keys->by_secret, key->hash);
	key->has_previous = overlap_seconds > 0;
	if (key->has_previous) {
		key->previous_identity = old;
	} else {
		end_identity(keys, old);
		vial_identity_unref(old);
	}
	key->previous_until_ms = vial_time_now_ms() + overlap_seconds * 1000;
	memcpy(key->previous, key->hash, sizeof(key->hash));
	set_secret(key, secret);
	add_secrets(keys, key);
	vial_key_store(key, keys->store, done, data);
	wait_for_expiry(keys);
	return secret;
}

void vial_keys_revoke(VialKeys *keys, VialKey *key, VialStoreDone done, gpointer data)
{
	VialStore *store = keys->store;

	vial_store_delete_key_use(store, key->identity->id);
	vial_store_delete_key(store, key->identity->id, done, data);
	forget_previous(keys, key);
	g_hash_table_remove(keys->by_secret, key->hash);
	end_key(keys, key);
	g_hash_table_remove(keys->by_id, key->identity->id);
}

typedef struct {
	guint pending;
	GError *error;
	VialStoreDone done;
	gpointer data;
} Revocations;

static void on_revoked(const GError *error, gpointer data)
{
	Revocations *revocations = data;

	if (error && !revocations->error)
		revocations->error = g_error_copy(error);
	if (--revocations->pending > 0)
		return;
	revocations->done(revocations->error, revocations->data);
	g_clear_error(&revocations->error);
	g_free(revocations);
}

void vial_keys_revoke_project(VialKeys *keys, const char *project, VialStoreDone done, gpointer data)
{
	g_autoptr(GPtrArray) list = vial_keys_list(keys, project);
	Revocations *revocations = g_new0(Revocations, 1);

	*revocations = (Revocations){ .pending = list->len + 1, .done = done, .data = data };
	for (guint i = 0; i < list->len; i++)
		vial_keys_revoke(keys, list->pdata[i], on_revoked, revocations);
	on_revoked(NULL, revocations);
}

/* Finding */

VialKey *vial_keys_find(const VialKeys *keys, const char *id)
{
	return g_hash_table_lookup(keys->by_id, id);
}

static int oldest_first(gconstpointer a, gconstpointer b)
{
	const VialKey *left = *(VialKey *const *)a, *right = *(VialKey *const *)b;

	if (left->created_at_ms != right->created_at_ms)
		return left->created_at_ms < right->created_at_ms ? -1 : 1;
	return strcmp(left->identity->id, right->identity->id);
}

GPtrArray *vial_keys_list(const VialKeys *keys, const char *project)
{
	GPtrArray *list = g_ptr_array_new();
	GHashTableIter iter;
	gpointer value;

	g_hash_table_iter_init(&iter, keys->by_id);
	while (g_hash_table_iter_next(&iter, NULL, &value))
		if (!project || strcmp(((VialKey *)value)->identity->project, project) == 0)
			g_ptr_array_add(list, value);
	g_ptr_array_sort(list, oldest_first);
	return list;
}

const VialIdentity *vial_key_identity(const VialKey *key)
{
	return key->identity;
}

gboolean vial_key_is_file(const VialKey *key)
{
	return key->is_file;
}

/* Opening */

/* The key in admin.key, which is made if it is not there. */
static char *read_or_make_admin_key(VialKeys *keys, int dir_fd, GError **error)
{
	g_autoptr(GError) problem = NULL;
	g_autofree char *text = vial_file_read_at(dir_fd, ADMIN_FILE, MAX_FILE_BYTES, NULL, &problem);
	struct stat status;

	if (text) {
		g_strstrip(text);
		if (!is_well_formed(text)) {
			vial_fail(error, VIAL_ERROR_INVALID, "%s does not hold a key: delete it, and the next start makes a new one",
			          keys->admin_path);
			return NULL;
		}
		if (fstatat(dir_fd, ADMIN_FILE, &status, AT_SYMLINK_NOFOLLOW) == 0 && (status.st_mode & 077)) {
			vial_log_warning("auth", "others could read the admin key; its mode is now 0600", "file", keys->admin_path);
			(void)!fchmodat(dir_fd, ADMIN_FILE, 0600, 0);
		}
		return g_steal_pointer(&text);
	}
	if (!g_error_matches(problem, VIAL_ERROR, VIAL_ERROR_NOT_FOUND)) {
		g_propagate_error(error, g_steal_pointer(&problem));
		return NULL;
	}
	text = make_secret(VIAL_KEY_FORM_VIAL);
	g_autofree char *line = g_strdup_printf("%s\n", text);
	if (!vial_file_write_at(dir_fd, ADMIN_FILE, line, strlen(line), 0600, error))
		return NULL;
	keys->is_new = TRUE;
	return g_steal_pointer(&text);
}

static void add_admin_key(VialKeys *keys, const char *secret)
{
	g_autofree char *id = vial_id_new();
	VialKey *key = g_new0(VialKey, 1);

	key->identity = vial_identity_new(VIAL_PRINCIPAL_KEY, id, VIAL_DEFAULT_PROJECT, VIAL_ROLE_OPERATOR, ADMIN_NAME);
	key->is_file = TRUE;
	key->created_at_ms = vial_time_now_ms();
	set_secret(key, secret);
	add_key(keys, key);
	vial_key_store(key, keys->store, NULL, NULL);
}

/* Takes the stored keys in, except keys of the file other than the one that is in it now: those are revoked. */
static gboolean load_keys(VialKeys *keys, const char *admin_key, GError **error)
{
	g_autoptr(GPtrArray) records = vial_store_load_keys(keys->store, error);
	guint8 admin_hash[VIAL_SHA256_BYTES];

	if (!records)
		return FALSE;
	vial_sha256(admin_key, strlen(admin_key), admin_hash);
	for (guint i = 0; i < records->len; i++) {
		const VialKeyRecord *record = records->pdata[i];
		VialKey *key = vial_key_from_record(record);

		if (!key) {
			vial_log_error("auth", "a stored key is damaged and does not work", "key_id", record->id);
		} else if (key->is_file && !digests_are_equal(key->hash, admin_hash)) {
			vial_log_info("auth", "a former admin key is revoked", "key_id", record->id);
			vial_store_delete_key(keys->store, record->id, NULL, NULL);
			vial_key_free(key);
		} else {
			add_key(keys, key);
		}
	}
	if (!g_hash_table_contains(keys->by_secret, admin_hash))
		add_admin_key(keys, admin_key);
	return TRUE;
}

static gboolean load_uses(VialKeys *keys, GError **error)
{
	g_autoptr(GPtrArray) records = vial_store_load_key_uses(keys->store, error);

	for (guint i = 0; records && i < records->len; i++) {
		const VialKeyUseRecord *record = records->pdata[i];
		VialKey *key = g_hash_table_lookup(keys->by_id, record->id);

		if (key)
			key->last_used_ms = key->stored_use_ms = record->last_used_at;
	}
	return records != NULL;
}

VialKeys *vial_keys_open(VialStore *store, const char *data_dir, GError **error)
{
	g_autofree char *dir = g_build_filename(data_dir, "keys", NULL);
	vial_autofd int dir_fd = vial_dir_open(dir, 0700, error);
	VialKeys *keys;

	if (dir_fd < 0)
		return NULL;
	fchmod(dir_fd, 0700); /* whoever made the directory before us */
	keys = g_new0(VialKeys, 1);
	keys->store = store;
	keys->by_id = g_hash_table_new_full(g_str_hash, g_str_equal, NULL, (GDestroyNotify)vial_key_free);
	keys->by_secret = g_hash_table_new(hash_digest, digests_are_equal);
	keys->admin_path = g_build_filename(dir, ADMIN_FILE, NULL);
	g_autofree char *admin_key = read_or_make_admin_key(keys, dir_fd, error);
	keys->signing = admin_key ? vial_signing_open(dir_fd, error) : NULL;
	gboolean is_loaded = keys->signing && load_keys(keys, admin_key, error) && load_uses(keys, error);
	if (admin_key)
		explicit_bzero(admin_key, strlen(admin_key));
	if (is_loaded)
		wait_for_expiry(keys);
	else
		g_clear_pointer(&keys, vial_keys_free);
	return keys;
}

void vial_keys_free(VialKeys *keys)
{
	if (!keys)
		return;
	g_clear_handle_id(&keys->expiry_timer, g_source_remove);
	if (keys->uses_timer)
		store_uses(keys);
	g_clear_handle_id(&keys->uses_timer, g_source_remove);
	g_hash_table_unref(keys->by_secret);
	g_hash_table_unref(keys->by_id);
	vial_signing_free(keys->signing);
	g_free(keys->admin_path);
	g_free(keys);
}

void vial_keys_on_ended(VialKeys *keys, VialKeysEnded ended, gpointer data)
{
	keys->ended = ended;
	keys->ended_data = data;
}

const char *vial_keys_admin_file(const VialKeys *keys)
{
	return keys->admin_path;
}

gboolean vial_keys_admin_file_is_new(const VialKeys *keys)
{
	return keys->is_new;
}

const VialSigning *vial_keys_signing(const VialKeys *keys)
{
	return keys->signing;
}
