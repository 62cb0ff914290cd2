/* SPDX-License-Identifier: Apache-2.0 */
#include "auth/keys.h"

#include <glib/gstdio.h>
#include <string.h>
#include <sys/stat.h>

#include "util/error.h"
#include "util/json.h"
#include "util/log.h"
#include "util/time.h"
#include "util/tree.h"

typedef struct {
	char *dir, *path;
	VialStore *store;
	VialKeys *keys;
	int n_ended;
} Fixture;

static void on_ended(gpointer data)
{
	((Fixture *)data)->n_ended++;
}

static void open_keys(Fixture *f)
{
	f->store = vial_store_open(f->path, NULL);
	f->keys = vial_keys_open(f->store, f->dir, NULL);
	g_assert_nonnull(f->keys);
	vial_keys_on_ended(f->keys, on_ended, f);
}

static void close_keys(Fixture *f)
{
	g_clear_pointer(&f->keys, vial_keys_free);
	g_clear_pointer(&f->store, vial_store_close);
}

static void reopen(Fixture *f)
{
	close_keys(f);
	open_keys(f);
}

static void set_up(Fixture *f, gconstpointer unused)
{
	f->dir = g_dir_make_tmp("vial-test-XXXXXX", NULL);
	f->path = g_build_filename(f->dir, "db.sqlite", NULL);
	open_keys(f);
}

static void tear_down(Fixture *f, gconstpointer unused)
{
	close_keys(f);
	while (g_main_context_iteration(NULL, FALSE))
		;
	vial_tree_remove(f->dir);
	g_free(f->dir);
	g_free(f->path);
}

static char *read_admin_key(Fixture *f)
{
	g_autofree char *path = g_build_filename(f->dir, "keys", "admin.key", NULL);
	char *text = NULL;
	struct stat status;

	g_assert_true(g_file_get_contents(path, &text, NULL, NULL));
	g_assert_cmpint(stat(path, &status), ==, 0);
	g_assert_cmpint(status.st_mode & 0777, ==, 0600);
	return g_strchomp(text);
}

static gboolean works(Fixture *f, const char *key)
{
	g_autoptr(VialIdentity) identity = vial_keys_lookup(f->keys, key);

	return identity != NULL;
}

static VialKey *create(Fixture *f, VialRole role, VialKeyForm form, char **out_secret)
{
	return vial_keys_create(f->keys, &(VialKeySpec){ .name = "ci", .project = "other", .role = role, .form = form }, out_secret, NULL, NULL);
}

static void test_the_admin_key_is_made_once_and_replaced_when_deleted(Fixture *f, gconstpointer unused)
{
	g_autofree char *first = read_admin_key(f), *path = g_strdup(vial_keys_admin_file(f->keys)), *second = NULL;
	g_autoptr(VialIdentity) identity = vial_keys_lookup(f->keys, first);

	g_assert_cmpint(identity->role, ==, VIAL_ROLE_OPERATOR);
	g_assert_cmpstr(identity->project, ==, VIAL_DEFAULT_PROJECT);
	g_assert_true(vial_keys_admin_file_is_new(f->keys));
	g_assert_false(works(f, "vial_wrong"));
	g_assert_false(works(f, ""));
	reopen(f);
	second = read_admin_key(f);
	g_assert_cmpstr(first, ==, second);
	g_assert_false(vial_keys_admin_file_is_new(f->keys));
	g_assert_true(works(f, first));
	g_unlink(path);
	for (int start = 0; start < 2; start++) {
		reopen(f);
		g_autofree char *third = read_admin_key(f);
		g_assert_cmpstr(third, !=, first);
		g_assert_true(works(f, third));
		g_assert_false(works(f, first));
	}
}

static void test_keys_are_added_and_revoked_and_never_stored(Fixture *f, gconstpointer unused)
{
	g_autofree char *secret = NULL, *id = NULL;
	VialKey *key = create(f, VIAL_ROLE_RUNNER, VIAL_KEY_FORM_VIAL, &secret);

	id = g_strdup(vial_key_identity(key)->id);
	g_assert_true(works(f, secret));
	reopen(f);
	key = vial_keys_find(f->keys, id);
	g_assert_cmpstr(vial_key_identity(key)->project, ==, "other");
	g_assert_cmpint(vial_key_identity(key)->role, ==, VIAL_ROLE_RUNNER);
	g_autoptr(VialIdentity) identity = vial_keys_lookup(f->keys, secret);
	vial_keys_revoke(f->keys, key, NULL, NULL);
	g_assert_true(identity->has_ended);
	g_assert_cmpint(f->n_ended, ==, 1);
	g_assert_false(works(f, secret));
	g_assert_null(vial_keys_find(f->keys, id));
	reopen(f);
	g_assert_false(works(f, secret));
	close_keys(f);
	g_autoptr(GDir) dir = g_dir_open(f->dir, 0, NULL);
	for (const char *name; (name = g_dir_read_name(dir));) {
		g_autofree char *path = g_build_filename(f->dir, name, NULL), *content = NULL;
		gsize size = 0;

		if (g_file_get_contents(path, &content, &size, NULL))
			g_assert_null(memmem(content, size, secret, strlen(secret)));
	}
}

static void test_the_forms_that_other_sdks_insist_on(Fixture *f, gconstpointer unused)
{
	static const char *const patterns[VIAL_N_KEY_FORMS] = { "^vial_[0-9a-f]{40}$", "^e2b_[0-9a-f]{40}$", "^pds_[0-9a-f]{40}$",
		                                                "^pf_[0-9a-f]{40}$", "^sk-[0-9a-f]{40}$" };

	for (int form = 0; form < VIAL_N_KEY_FORMS; form++) {
		g_autofree char *secret = NULL;
		VialKey *key = create(f, VIAL_ROLE_RUNNER, (VialKeyForm)form, &secret);
		g_autoptr(json_t) json = vial_key_json(key);

		g_assert_true(g_regex_match_simple(patterns[form], secret, 0, 0));
		g_assert_true(works(f, secret));
		g_assert_true(vial_key_has_form(secret));
		g_assert_cmpstr(json_string_value(json_object_get(json, "form")), ==, vial_key_forms[form]);
		g_assert_true(g_str_has_prefix(secret, json_string_value(json_object_get(json, "hint"))));
		g_assert_null(json_object_get(json, "key"));
	}
	g_assert_false(vial_key_has_form("sk-short"));
	g_assert_false(vial_key_has_form(""));
}

static void test_rotation_overlaps(Fixture *f, gconstpointer unused)
{
	g_autofree char *first = NULL, *second = NULL, *third = NULL, *id = NULL;
	VialKey *key = create(f, VIAL_ROLE_RUNNER, VIAL_KEY_FORM_E2B, &first);
	g_autoptr(VialIdentity) with_first = vial_keys_lookup(f->keys, first);

	id = g_strdup(vial_key_identity(key)->id);
	second = vial_keys_rotate(f->keys, key, 3600, NULL, NULL);
	g_assert_true(g_str_has_prefix(second, "e2b_"));
	g_assert_true(works(f, first) && works(f, second));
	g_assert_false(with_first->has_ended);
	g_assert_cmpint(f->n_ended, ==, 0);
	reopen(f);
	g_assert_true(works(f, first) && works(f, second));
	/* The one before the last stops at once, with what it has open; nothing else does. */
	g_autoptr(VialIdentity) with_old = vial_keys_lookup(f->keys, first), with_new = vial_keys_lookup(f->keys, second);
	third = vial_keys_rotate(f->keys, vial_keys_find(f->keys, id), 3600, NULL, NULL);
	g_assert_false(works(f, first));
	g_assert_true(works(f, second) && works(f, third));
	g_assert_true(with_old->has_ended);
	g_assert_false(with_new->has_ended);
	g_autofree char *fourth = vial_keys_rotate(f->keys, vial_keys_find(f->keys, id), 0, NULL, NULL);
	g_assert_false(works(f, second) || works(f, third));
	g_assert_true(works(f, fourth));
	g_assert_true(with_new->has_ended);
	reopen(f);
	g_assert_false(works(f, first) || works(f, second) || works(f, third));
	g_assert_true(works(f, fourth));
}

static void wait_ms(int ms)
{
	gint64 until = g_get_monotonic_time() + ms * 1000;

	while (g_get_monotonic_time() < until) {
		g_main_context_iteration(NULL, FALSE);
		g_usleep(2000);
	}
}

static void test_keys_and_rotated_secrets_expire(Fixture *f, gconstpointer unused)
{
	g_autofree char *secret = NULL, *other = NULL, *rotated = NULL;
	VialKeySpec spec = { .name = "short", .project = "other", .role = VIAL_ROLE_RUNNER, .expires_at_ms = vial_time_now_ms() + 300 };
	VialKey *key;

	vial_keys_create(f->keys, &spec, &secret, NULL, NULL);
	key = create(f, VIAL_ROLE_RUNNER, VIAL_KEY_FORM_VIAL, &other);
	rotated = vial_keys_rotate(f->keys, key, 1, NULL, NULL);
	g_autoptr(VialIdentity) identity = vial_keys_lookup(f->keys, secret);
	g_assert_nonnull(identity);
	wait_ms(600);
	g_assert_true(identity->has_ended);
	g_assert_cmpint(f->n_ended, ==, 1);
	g_assert_false(works(f, secret));
	wait_ms(900);
	g_assert_false(works(f, other));
	g_assert_true(works(f, rotated));
	reopen(f);
	g_assert_false(works(f, secret) || works(f, other));
	g_assert_true(works(f, rotated));
}

static void test_a_change_keeps_the_secret_and_ends_what_is_lost(Fixture *f, gconstpointer unused)
{
	g_autofree char *secret = NULL;
	VialKey *key = create(f, VIAL_ROLE_ADMIN, VIAL_KEY_FORM_VIAL, &secret);
	g_autoptr(VialIdentity) before = vial_keys_lookup(f->keys, secret);
	g_autoptr(json_t) allow = json_pack("{s:[s], s:[s]}", "templates", "minimal", "source_cidrs", "10.0.0.0/8");
	VialKeySpec spec = { .name = "renamed", .role = VIAL_ROLE_ADMIN };

	vial_keys_change(f->keys, key, &spec, NULL, NULL);
	g_assert_false(before->has_ended);
	spec.role = VIAL_ROLE_VIEWER;
	g_autoptr(VialIdentity) renamed = vial_keys_lookup(f->keys, secret);
	vial_keys_change(f->keys, key, &spec, NULL, NULL);
	/* What was opened before the other name, too. */
	g_assert_true(renamed->has_ended && before->has_ended);
	g_assert_true(vial_allow_read(allow, &spec.allow, NULL));
	vial_keys_change(f->keys, key, &spec, NULL, NULL);
	reopen(f);
	g_autoptr(VialIdentity) after = vial_keys_lookup(f->keys, secret);
	g_assert_cmpstr(after->name, ==, "renamed");
	g_assert_cmpint(after->role, ==, VIAL_ROLE_VIEWER);
	g_assert_true(vial_allow_has_template(after->allow, "minimal"));
	g_assert_false(vial_allow_has_template(after->allow, "base"));
	g_assert_true(vial_allow_has_source(after->allow, "10.1.2.3") && vial_allow_has_source(after->allow, "::ffff:10.1.2.3"));
	g_assert_false(vial_allow_has_source(after->allow, "11.1.2.3") || vial_allow_has_source(after->allow, NULL));
}

static void test_uses_are_remembered(Fixture *f, gconstpointer unused)
{
	g_autofree char *secret = NULL, *id = NULL;
	VialKey *key = create(f, VIAL_ROLE_RUNNER, VIAL_KEY_FORM_VIAL, &secret);
	g_autoptr(json_t) unused_json = vial_key_json(key), used = NULL;

	id = g_strdup(vial_key_identity(key)->id);
	g_assert_null(json_object_get(unused_json, "last_used_at"));
	g_assert_true(works(f, secret));
	reopen(f);
	used = vial_key_json(vial_keys_find(f->keys, id));
	g_assert_nonnull(json_object_get(used, "last_used_at"));
}

static void on_done(const GError *error, gpointer data)
{
	g_assert_no_error((GError *)error);
	*(int *)data += 1;
}

static void test_a_project_loses_all_its_keys(Fixture *f, gconstpointer unused)
{
	g_autofree char *admin = read_admin_key(f);
	g_autoptr(GPtrArray) secrets = g_ptr_array_new_with_free_func(g_free);
	int done = 0;

	for (int i = 0; i < 20; i++) {
		char *secret;

		create(f, VIAL_ROLE_RUNNER, VIAL_KEY_FORM_VIAL, &secret);
		g_ptr_array_add(secrets, secret);
	}
	vial_keys_revoke_project(f->keys, "other", on_done, &done);
	for (guint i = 0; i < secrets->len; i++)
		g_assert_false(works(f, secrets->pdata[i]));
	while (!done)
		g_main_context_iteration(NULL, TRUE);
	g_assert_cmpint(done, ==, 1);
	g_assert_true(works(f, admin));
	done = 0;
	vial_keys_revoke_project(f->keys, "nobody", on_done, &done);
	while (!done)
		g_main_context_iteration(NULL, TRUE);
}

static void test_a_damaged_admin_key_is_told(Fixture *f, gconstpointer unused)
{
	g_autofree char *path = g_strdup(vial_keys_admin_file(f->keys));
	g_autoptr(GError) error = NULL;

	g_clear_pointer(&f->keys, vial_keys_free);
	g_assert_true(g_file_set_contents(path, "hello", -1, NULL));
	vial_store_close(f->store);
	f->store = vial_store_open(f->path, NULL);
	g_assert_null(vial_keys_open(f->store, f->dir, &error));
	g_assert_nonnull(strstr(error->message, "delete it"));
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	vial_log_setup(VIAL_LOG_ERROR, VIAL_LOG_TEXT);
#define ADD(path, function) g_test_add(path, Fixture, NULL, set_up, function, tear_down)
	ADD("/keys/the-admin-key-is-made-once-and-replaced-when-deleted", test_the_admin_key_is_made_once_and_replaced_when_deleted);
	ADD("/keys/are-added-and-revoked-and-never-stored", test_keys_are_added_and_revoked_and_never_stored);
	ADD("/keys/the-forms-that-other-sdks-insist-on", test_the_forms_that_other_sdks_insist_on);
	ADD("/keys/rotation-overlaps", test_rotation_overlaps);
	ADD("/keys/keys-and-rotated-secrets-expire", test_keys_and_rotated_secrets_expire);
	ADD("/keys/a-change-keeps-the-secret-and-ends-what-is-lost", test_a_change_keeps_the_secret_and_ends_what_is_lost);
	ADD("/keys/uses-are-remembered", test_uses_are_remembered);
	ADD("/keys/a-project-loses-all-its-keys", test_a_project_loses_all_its_keys);
	ADD("/keys/a-damaged-admin-key-is-told", test_a_damaged_admin_key_is_told);
	return g_test_run();
}
