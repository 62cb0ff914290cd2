/* SPDX-License-Identifier: Apache-2.0 */
#include "service/manifest.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "service/filemac.h"
#include "util/error.h"
#include "util/fault.h"
#include "util/fd.h"
#include "util/hash.h"
#include "util/json.h"

#define MANIFEST_VERSION 3
#define MANIFEST_NAME "manifest.json"
#define MAX_MANIFEST_BYTES (1024 * 1024)
#define KEY_BYTES 32
/* Files up to this size are checked before anything is loaded; only memory pages are larger. */
#define QUICK_BYTES (16LL * 1024 * 1024)

struct VialManifests {
	guint8 key[KEY_BYTES];
	char *shared_dir; /* folders in it are sealed with shared_key instead; NULL: there is none */
	guint8 shared_key[KEY_BYTES];
	char *engine;
	char *engine_version;
	char *cpu;
	GMutex lock;
	GHashTable *verified; /* folder -> identity of its files when they were last found good */
};

static char *host_cpu_features(void)
{
	g_autofree char *text = NULL;
	const char *start, *colon;

	if (!g_file_get_contents("/proc/cpuinfo", &text, NULL, NULL) || !(start = strstr(text, "\nflags")) || !(colon = strchr(start, ':')))
		return g_strdup("");
	return g_strstrip(g_strndup(colon + 1, strcspn(colon + 1, "\n")));
}

static gboolean load_key(const char *folder, guint8 key[KEY_BYTES], GError **error)
{
	vial_autofd int dir_fd = vial_dir_open(folder, 0700, error);
	g_autofree char *content = NULL;
	gsize size = 0;

	if (dir_fd < 0)
		return FALSE;
	/* The key of shared images: of two vialds that start beside each other only one may make it. */
	if (TEMP_FAILURE_RETRY(flock(dir_fd, LOCK_EX)) < 0)
		return vial_fail(error, VIAL_ERROR_INTERNAL, "%s cannot be locked: %s", folder, g_strerror(errno));
	content = vial_file_read_at(dir_fd, "snapshot.key", 1024, &size, NULL);
	if (content && size == KEY_BYTES) {
		memcpy(key, content, KEY_BYTES);
		return TRUE;
	}
	if (content)
		return vial_fail(error, VIAL_ERROR_INTERNAL, "%s/snapshot.key is damaged; without it no snapshot can be trusted", folder);
	if (getrandom(key, KEY_BYTES, 0) != KEY_BYTES)
		g_error("getrandom failed");
	return vial_file_write_at(dir_fd, "snapshot.key", key, KEY_BYTES, 0600, error);
}

VialManifests *vial_manifests_open(const char *data_dir, const char *engine, const char *engine_version, GError **error)
{
	VialManifests *manifests = g_new0(VialManifests, 1);
	g_autofree char *folder = g_build_filename(data_dir, "keys", NULL);

	g_mutex_init(&manifests->lock);
	manifests->engine = g_strdup(engine);
	manifests->engine_version = g_strdup(engine_version);
	manifests->cpu = host_cpu_features();
	manifests->verified = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
	if (load_key(folder, manifests->key, error))
		return manifests;
	vial_manifests_free(manifests);
	return NULL;
}

void vial_manifests_free(VialManifests *manifests)
{
	if (!manifests)
		return;
	explicit_bzero(manifests->key, KEY_BYTES);
	explicit_bzero(manifests->shared_key, KEY_BYTES);
	g_free(manifests->shared_dir);
	g_hash_table_unref(manifests->verified);
	g_mutex_clear(&manifests->lock);
	g_free(manifests->engine);
	g_free(manifests->engine_version);
	g_free(manifests->cpu);
	g_free(manifests);
}

gboolean vial_manifests_share(VialManifests *manifests, const char *dir, GError **error)
{
	g_autofree char *folder = g_build_filename(dir, "keys", NULL);

	if (!load_key(folder, manifests->shared_key, error))
		return FALSE;
	manifests->shared_dir = g_canonicalize_filename(dir, NULL);
	return TRUE;
}

static const guint8 *key_of(const VialManifests *manifests, const char *dir)
{
	g_autofree char *parent = NULL;

	if (!manifests->shared_dir)
		return manifests->key;
	parent = g_path_get_dirname(dir);
	return strcmp(parent, manifests->shared_dir) == 0 ? manifests->shared_key : manifests->key;
}

/* Sums of files */

static char *sum_file(const VialManifests *manifests, const char *dir, int dir_fd, const char *salt, const char *name, GError **error)
{
	g_autofree char *label = g_strdup_printf("vial snapshot file\n%s\n%s", salt, name);
	guint8 key[VIAL_SHA256_BYTES];

	G_STATIC_ASSERT(sizeof key >= VIAL_FILE_MAC_KEY_BYTES);
	vial_hmac_sha256(key_of(manifests, dir), KEY_BYTES, label, strlen(label), key);
	return vial_file_mac(dir_fd, name, key, error);
}

static gint compare_names(gconstpointer a, gconstpointer b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* What must stay the same for a folder to need no second hashing. By name: a folder that was listed and a manifest that was read have orders of their
 * own. */
static char *folder_identity(int dir_fd, json_t *files)
{
	g_autoptr(GPtrArray) names = g_ptr_array_new();
	GString *text = g_string_new(NULL);
	const char *name;
	json_t *file;

	json_object_foreach (files, name, file)
		g_ptr_array_add(names, (gpointer)name);
	g_ptr_array_sort(names, compare_names);
	for (guint i = 0; i < names->len; i++) {
		struct stat info = { 0 };

		name = names->pdata[i];
		fstatat(dir_fd, name, &info, AT_SYMLINK_NOFOLLOW);
		g_string_append_printf(text, "%s:%lu:%lu:%lld:%lld.%ld:%lld.%ld|", name, (unsigned long)info.st_dev, (unsigned long)info.st_ino,
		                       (long long)info.st_size, (long long)info.st_mtim.tv_sec, info.st_mtim.tv_nsec, (long long)info.st_ctim.tv_sec,
		                       info.st_ctim.tv_nsec);
	}
	return g_string_free(text, FALSE);
}

static void remember(VialManifests *manifests, const char *dir, char *identity)
{
	g_mutex_lock(&manifests->lock);
	g_hash_table_replace(manifests->verified, g_strdup(dir), identity);
	g_mutex_unlock(&manifests->lock);
}

void vial_manifest_moved(VialManifests *manifests, const char *from, const char *to)
{
	gpointer key, identity;

	g_mutex_lock(&manifests->lock);
	if (g_hash_table_steal_extended(manifests->verified, from, &key, &identity)) {
		g_free(key);
		g_hash_table_replace(manifests->verified, g_strdup(to), identity);
	}
	g_mutex_unlock(&manifests->lock);
}

const char *vial_manifests_cpu(const VialManifests *manifests)
{
	return manifests->cpu;
}

static gboolean is_remembered(VialManifests *manifests, int dir_fd, json_t *files, const char *dir)
{
	g_autofree char *identity = folder_identity(dir_fd, files);
	gboolean is_same;

	g_mutex_lock(&manifests->lock);
	is_same = g_strcmp0(g_hash_table_lookup(manifests->verified, dir), identity) == 0;
	g_mutex_unlock(&manifests->lock);
	return is_same;
}

static char *authenticate(VialManifests *manifests, const char *dir, json_t *body)
{
	char *text = json_dumps(body, JSON_COMPACT | JSON_SORT_KEYS);
	guint8 mac[VIAL_SHA256_BYTES];

	vial_hmac_sha256(key_of(manifests, dir), KEY_BYTES, text, strlen(text), mac);
	free(text);
	return vial_hex_encode(mac, sizeof mac);
}

/* Sealing */

typedef struct {
	const char *dir;
	int dir_fd;
	GError *error;
} Flush;

/* The disk's work, beside the hashing, which is the processor's. */
static gpointer flush_folder(gpointer data)
{
	Flush *flush = data;
	g_autoptr(GDir) listing = g_dir_open(flush->dir, 0, NULL);
	const char *name;

	while (!flush->error && listing && (name = g_dir_read_name(listing))) {
		vial_autofd int fd = openat(flush->dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

		if (fd < 0 || vial_fault("manifest.sync") || fdatasync(fd) < 0)
			vial_fail(&flush->error, errno == ENOSPC ? VIAL_ERROR_NO_SPACE : VIAL_ERROR_INTERNAL, "cannot flush %s of the snapshot: %s",
			          name, g_strerror(errno));
	}
	return NULL;
}

static json_t *sum_folder(const VialManifests *manifests, const char *dir, int dir_fd, const char *salt, GError **error)
{
	g_autoptr(GDir) listing = g_dir_open(dir, 0, NULL);
	g_autoptr(json_t) files = json_object();
	const char *name;

	while (listing && (name = g_dir_read_name(listing))) {
		g_autofree char *sum = sum_file(manifests, dir, dir_fd, salt, name, error);
		struct stat info;

		if (!sum)
			return NULL;
		if (fstatat(dir_fd, name, &info, AT_SYMLINK_NOFOLLOW) < 0) {
			vial_fail(error, VIAL_ERROR_INTERNAL, "cannot read %s of the snapshot: %s", name, g_strerror(errno));
			return NULL;
		}
		json_object_set_new(files, name, json_pack("{s:I, s:s}", "size_bytes", (json_int_t)info.st_size, "mac", sum));
	}
	return g_steal_pointer(&files);
}

static json_t *flush_and_sum(const VialManifests *manifests, const char *dir, int dir_fd, const char *salt, GError **error)
{
	Flush flush = { .dir = dir, .dir_fd = dir_fd };
	GThread *flusher = g_thread_new("flush", flush_folder, &flush);
	json_t *files = sum_folder(manifests, dir, dir_fd, salt, error);

	g_thread_join(flusher);
	if (files && flush.error) {
		g_propagate_error(error, flush.error);
		g_clear_pointer(&files, json_decref);
		return NULL;
	}
	g_clear_error(&flush.error);
	return files;
}

static char *new_salt(void)
{
	guint8 bytes[16];

	if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
		g_error("getrandom failed");
	return vial_hex_encode(bytes, sizeof bytes);
}

gboolean vial_manifest_seal(VialManifests *manifests, const char *dir, json_t *facts, GError **error)
{
	vial_autofd int dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	g_autoptr(json_t) body = json_deep_copy(facts);
	g_autoptr(json_t) files = NULL, whole = NULL;
	g_autofree char *salt = NULL, *mac = NULL, *text = NULL;

	if (dir_fd < 0)
		return vial_fail(error, VIAL_ERROR_INTERNAL, "cannot open the snapshot's folder: %s", g_strerror(errno));
	salt = new_salt();
	while (vial_fault_measure("manifest.wait", 0))
		g_usleep(20 * 1000);
	files = flush_and_sum(manifests, dir, dir_fd, salt, error);
	if (!files)
		return FALSE;
	json_object_set_new(body, "version", json_integer(MANIFEST_VERSION));
	json_object_set_new(body, "engine", json_string(manifests->engine));
	json_object_set_new(body, "engine_version", json_string(manifests->engine_version));
	json_object_set_new(body, "cpu_features", json_string(manifests->cpu));
	json_object_set_new(body, "salt", json_string(salt));
	json_object_set(body, "files", files);
	mac = authenticate(manifests, dir, body);
	whole = json_pack("{s:O, s:s}", "snapshot", body, "hmac", mac);
	text = json_dumps(whole, JSON_INDENT(1) | JSON_SORT_KEYS);
	if (vial_fault("manifest.write"))
		return vial_fail(error, VIAL_ERROR_NO_SPACE, "cannot write the manifest: injected failure");
	if (!vial_file_write_at(dir_fd, MANIFEST_NAME, text, strlen(text), 0600, error))
		return FALSE;
	remember(manifests, dir, folder_identity(dir_fd, files));
	return TRUE;
}

/* Checking */

static gboolean host_has_features(VialManifests *manifests, const char *wanted, GError **error)
{
	g_auto(GStrv) ours = g_strsplit(manifests->cpu, " ", -1);
	g_auto(GStrv) theirs = g_strsplit(wanted, " ", -1);

	for (char **feature = theirs; *feature; feature++)
		if (**feature && !g_strv_contains((const char *const *)ours, *feature))
			return vial_fail(error, VIAL_ERROR_CONFLICT, "the snapshot was taken on a CPU with \"%s\", which this host lacks", *feature);
	return TRUE;
}

static gboolean is_restorable_here(VialManifests *manifests, json_t *body, GError **error)
{
	const char *engine = json_string_value(json_object_get(body, "engine"));
	const char *version = json_string_value(json_object_get(body, "engine_version"));
	const char *cpu = json_string_value(json_object_get(body, "cpu_features"));

	if (json_integer_value(json_object_get(body, "version")) != MANIFEST_VERSION)
		return vial_fail(error, VIAL_ERROR_CONFLICT, "the snapshot's manifest is of another version of Vial");
	if (g_strcmp0(engine, manifests->engine) != 0 || g_strcmp0(version, manifests->engine_version) != 0)
		return vial_fail(error, VIAL_ERROR_CONFLICT,
		                 "the snapshot was taken with %s %s, but this host runs %s %s; only the same one can restore it", engine, version,
		                 manifests->engine, manifests->engine_version);
	return host_has_features(manifests, cpu ? cpu : "", error);
}

static json_t *load_manifest(VialManifests *manifests, const char *dir, int dir_fd, GError **error)
{
	gsize size;
	g_autofree char *text = vial_file_read_at(dir_fd, MANIFEST_NAME, MAX_MANIFEST_BYTES, &size, NULL);
	g_autoptr(json_t) whole = text ? json_loadb(text, size, JSON_REJECT_DUPLICATES, NULL) : NULL;
	json_t *body = json_object_get(whole, "snapshot");
	const char *claimed = json_string_value(json_object_get(whole, "hmac"));
	g_autofree char *mac = NULL;

	if (!json_is_object(body) || !claimed) {
		vial_fail(error, VIAL_ERROR_CONFLICT, "the snapshot has no readable manifest and is not trusted");
		return NULL;
	}
	mac = authenticate(manifests, dir, body);
	if (strlen(claimed) != strlen(mac) || !vial_constant_time_equal(claimed, mac, strlen(mac))) {
		vial_fail(error, VIAL_ERROR_CONFLICT, "the snapshot's manifest was changed or comes from another installation, and is refused");
		return NULL;
	}
	return json_incref(body);
}

/* Checks the files on one side of QUICK_BYTES against the manifest. */
static gboolean check_files(const VialManifests *manifests, const char *dir, int dir_fd, json_t *body, gboolean large, GError **error)
{
	const char *salt = json_string_value(json_object_get(body, "salt"));
	json_t *files = json_object_get(body, "files"), *file;
	const char *name;

	if (!salt)
		return vial_fail(error, VIAL_ERROR_CONFLICT, "the snapshot's manifest is incomplete");
	json_object_foreach (files, name, file) {
		gint64 size = json_integer_value(json_object_get(file, "size_bytes"));
		const char *expected = json_string_value(json_object_get(file, "mac"));
		g_autofree char *sum = NULL;
		struct stat info;

		if (fstatat(dir_fd, name, &info, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(info.st_mode) || info.st_size != size)
			return vial_fail(error, VIAL_ERROR_CONFLICT, "the snapshot is damaged: %s is missing or has another size", name);
		if ((size > QUICK_BYTES) != large)
			continue;
		sum = sum_file(manifests, dir, dir_fd, salt, name, error);
		if (!sum)
			return FALSE;
		if (g_strcmp0(sum, expected) != 0)
			return vial_fail(error, VIAL_ERROR_CONFLICT, "the snapshot is damaged: the contents of %s were changed", name);
	}
	return TRUE;
}

gboolean vial_manifest_check(VialManifests *manifests, const char *dir, gboolean *out_needs_deep, json_t **out_facts, GError **error)
{
	vial_autofd int dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	g_autoptr(json_t) body = NULL;
	json_t *files;

	if (dir_fd < 0)
		return vial_fail(error, VIAL_ERROR_NOT_FOUND, "the snapshot's files are gone");
	body = load_manifest(manifests, dir, dir_fd, error);
	if (!body || !is_restorable_here(manifests, body, error))
		return FALSE;
	files = json_object_get(body, "files");
	*out_needs_deep = !is_remembered(manifests, dir_fd, files, dir);
	if (*out_needs_deep && !check_files(manifests, dir, dir_fd, body, FALSE, error))
		return FALSE;
	if (out_facts)
		*out_facts = g_steal_pointer(&body);
	return TRUE;
}

gboolean vial_manifest_check_deep(VialManifests *manifests, const char *dir, GError **error)
{
	vial_autofd int dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	g_autoptr(json_t) body = NULL;
	g_autofree char *identity = NULL;
	json_t *files;

	if (dir_fd < 0)
		return vial_fail(error, VIAL_ERROR_NOT_FOUND, "the snapshot's files are gone");
	body = load_manifest(manifests, dir, dir_fd, error);
	if (!body)
		return FALSE;
	files = json_object_get(body, "files");
	/* Taken before hashing: a change in between makes the next check hash again. */
	identity = folder_identity(dir_fd, files);
	if (!check_files(manifests, dir, dir_fd, body, TRUE, error))
		return FALSE;
	remember(manifests, dir, g_steal_pointer(&identity));
	return TRUE;
}
