/* SPDX-License-Identifier: Apache-2.0 */
#include "auth/keys.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "util/error.h"
#include "util/fd.h"
#include "util/hash.h"
#include "util/id.h"
#include "util/log.h"
#include "util/time.h"

#define ADMIN_FILE "admin.key"
#define MAX_FILE_BYTES 256
/* A key is far shorter; what is longer need not be hashed. */
#define MAX_KEY_BYTES 256

typedef struct {
	guint8 hash[VIAL_SHA256_BYTES]; /* first: the table's key */
	VialIdentity *identity;
} Entry;

struct VialKeys {
	VialStore *store;
	GHashTable *entries; /* hash -> Entry */
	char *admin_path;
	VialSigning *signing;
	gboolean is_new;
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

static void entry_free(gpointer pointer)
{
	Entry *entry = pointer;

	vial_identity_unref(entry->identity);
	g_free(entry);
}

static void add_entry(VialKeys *keys, const guint8 hash[VIAL_SHA256_BYTES], VialIdentity *identity)
{
	Entry *entry = g_new0(Entry, 1);

	memcpy(entry->hash, hash, VIAL_SHA256_BYTES);
	entry->identity = identity;
	g_hash_table_replace(keys->entries, entry->hash, entry);
}

static void register_key(VialKeys *keys, const char *secret, const char *project, VialRole role, const char *label, const char *source,
                         VialStoreDone done, gpointer data)
{
	guint8 hash[VIAL_SHA256_BYTES];
	char id[VIAL_ID_LENGTH + 1];

	vial_sha256(secret, strlen(secret), hash);
	vial_id_fill(id);
	add_entry(keys, hash, vial_identity_new(id, project, role, label));
	g_autofree char *hex = vial_hex_encode(hash, sizeof(hash));
	VialKeyRecord record = {
		.id = id,
		.project = (char *)project,
		.role = (char *)vial_role_name(role),
		.label = (char *)label,
		.hash = hex,
		.source = (char *)source,
		.created_at = vial_time_now_ms(),
	};
	vial_store_put_key(keys->store, &record, done, data);
}

static gboolean is_well_formed(const char *secret)
{
	gsize length = strlen(VIAL_KEY_PREFIX);

	if (strncmp(secret, VIAL_KEY_PREFIX, length) != 0 || strlen(secret) != length + VIAL_KEY_SECRET_LENGTH)
		return FALSE;
	for (const char *c = secret + length; *c; c++)
		if (!g_ascii_isalnum(*c))
			return FALSE;
	return TRUE;
}

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
	text = vial_secret_new(VIAL_KEY_PREFIX, VIAL_KEY_SECRET_LENGTH);
	g_autofree char *line = g_strdup_printf("%s\n", text);
	if (!vial_file_write_at(dir_fd, ADMIN_FILE, line, strlen(line), 0600, error))
		return NULL;
	keys->is_new = TRUE;
	return g_steal_pointer(&text);
}

/* Takes the stored keys in, except keys of the file other than the one that is in it now: those are revoked. */
static gboolean load_keys(VialKeys *keys, const char *admin_key, GError **error)
{
	g_autoptr(GPtrArray) records = vial_store_load_keys(keys->store, error);
	guint8 admin_hash[VIAL_SHA256_BYTES], hash[VIAL_SHA256_BYTES];

	if (!records)
		return FALSE;
	vial_sha256(admin_key, strlen(admin_key), admin_hash);
	for (guint i = 0; i < records->len; i++) {
		const VialKeyRecord *record = records->pdata[i];
		VialRole role;
		if (!vial_hex_decode(record->hash, hash, sizeof(hash)) || !vial_role_parse(record->role, &role)) {
			vial_log_error("auth", "a stored key is damaged and does not work", "key_id", record->id);
		} else if (strcmp(record->source, "file") == 0 && !digests_are_equal(hash, admin_hash)) {
			vial_log_info("auth", "a former admin key is revoked", "key_id", record->id);
			vial_store_delete_key(keys->store, record->id, NULL, NULL);
		} else {
			add_entry(keys, hash, vial_identity_new(record->id, record->project, role, record->label));
		}
	}
	if (!g_hash_table_contains(keys->entries, admin_hash))
		register_key(keys, admin_key, VIAL_DEFAULT_PROJECT, VIAL_ROLE_ADMIN, "admin", "file", NULL, NULL);
	return TRUE;
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
	keys->entries = g_hash_table_new_full(hash_digest, digests_are_equal, NULL, entry_free);
	keys->admin_path = g_build_filename(dir, ADMIN_FILE, NULL);
	g_autofree char *admin_key = read_or_make_admin_key(keys, dir_fd, error);
	keys->signing = admin_key ? vial_signing_open(dir_fd, error) : NULL;
	gboolean is_loaded = keys->signing && load_keys(keys, admin_key, error);
	if (admin_key)
		explicit_bzero(admin_key, strlen(admin_key));
	if (!is_loaded)
		g_clear_pointer(&keys, vial_keys_free);
	return keys;
}

void vial_keys_free(VialKeys *keys)
{
	if (!keys)
		return;
	g_hash_table_unref(keys->entries);
	vial_signing_free(keys->signing);
	g_free(keys->admin_path);
	g_free(keys);
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

gboolean vial_keys_is_operator(const VialIdentity *identity)
{
	return identity->role == VIAL_ROLE_ADMIN && strcmp(identity->project, VIAL_DEFAULT_PROJECT) == 0;
}

VialIdentity *vial_keys_lookup(VialKeys *keys, const char *key)
{
	guint8 hash[VIAL_SHA256_BYTES];
	gsize length = strnlen(key, MAX_KEY_BYTES + 1);

	if (length > MAX_KEY_BYTES)
		return NULL;
	vial_sha256(key, length, hash);
	Entry *entry = g_hash_table_lookup(keys->entries, hash);
	return entry ? vial_identity_ref(entry->identity) : NULL;
}

char *vial_keys_add(VialKeys *keys, const char *project, VialRole role, const char *label, VialStoreDone done, gpointer data)
{
	char *secret = vial_secret_new(VIAL_KEY_PREFIX, VIAL_KEY_SECRET_LENGTH);

	register_key(keys, secret, project, role, label, "api", done, data);
	return secret;
}

static gboolean has_id(gpointer hash, gpointer pointer, gpointer id)
{
	return strcmp(((Entry *)pointer)->identity->key_id, id) == 0;
}

gboolean vial_keys_revoke(VialKeys *keys, const char *key_id, VialStoreDone done, gpointer data)
{
	if (g_hash_table_foreach_remove(keys->entries, has_id, (gpointer)key_id) == 0)
		return FALSE;
	vial_store_delete_key(keys->store, key_id, done, data);
	return TRUE;
}
