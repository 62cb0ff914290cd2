/* SPDX-License-Identifier: Apache-2.0 */
/*
 * API keys. A key is a secret, of which only the SHA-256 is kept, and what it stands for: a role in a project, perhaps narrowed, perhaps until some
 * time. The secret is shown once, when it is made or rotated. The key in <data_dir>/keys/admin.key is the operator's: it is made at the first start,
 * and whoever deletes the file and restarts gets a new one while the old stops working. Main thread only.
 *
 * What is changed works at once; `done` says when it is on the disk. A key that ends (revoked, changed to less, expired) ends its identity, and
 * whoever listens (vial_keys_on_ended) is told, to cut what is open.
 */
#pragma once

#include "auth/identity.h"
#include "auth/signing.h"
#include "store/store.h"

#define VIAL_KEY_SECRET_DIGITS 40
#define VIAL_KEY_NAME_MAX_BYTES 128
#define VIAL_KEY_MAX_OVERLAP_SECONDS (30 * 24 * 3600)

/* The shapes that other people's SDKs insist on; all are `prefix` and VIAL_KEY_SECRET_DIGITS hexadecimal digits. */
typedef enum {
	VIAL_KEY_FORM_VIAL, /* vial_ */
	VIAL_KEY_FORM_E2B,  /* e2b_ */
	VIAL_KEY_FORM_PDS,  /* pds_ */
	VIAL_KEY_FORM_PF,   /* pf_ */
	VIAL_KEY_FORM_SK,   /* sk- */
	VIAL_N_KEY_FORMS,
} VialKeyForm;
/* "vial", "e2b", "pds", "pf", "sk": NULL-terminated, by VialKeyForm. */
extern const char *const vial_key_forms[VIAL_N_KEY_FORMS + 1];

/* Whether it looks like one of ours, whoever's it is. */
gboolean vial_key_has_form(const char *text);

typedef struct VialKeys VialKeys;
typedef struct VialKey VialKey;

/* Loads the keys and sees to admin.key. Blocks; before the main loop runs. `store` is borrowed. */
VialKeys *vial_keys_open(VialStore *store, const char *data_dir, GError **error);
void vial_keys_free(VialKeys *keys); /* accepts NULL; remembers when keys were last used */

const char *vial_keys_admin_file(const VialKeys *keys);
gboolean vial_keys_admin_file_is_new(const VialKeys *keys); /* made by this start */
/* The installation's secret beside them. */
const VialSigning *vial_keys_signing(const VialKeys *keys);

/* Whenever an identity has ended. */
typedef void (*VialKeysEnded)(gpointer data);
void vial_keys_on_ended(VialKeys *keys, VialKeysEnded ended, gpointer data);

/* A new reference, or NULL when nobody has this key, or it has ended. Notes the use. */
VialIdentity *vial_keys_lookup(VialKeys *keys, const char *secret);

/* By id; NULL when there is none. Borrowed, as long as the key is not revoked. */
VialKey *vial_keys_find(const VialKeys *keys, const char *id);
/* Those of a project (NULL: of all), oldest first; elements are borrowed. */
GPtrArray *vial_keys_list(const VialKeys *keys, const char *project);

/* A place in that list, which stays one when its key has gone: between those before it and those behind it. */
char *vial_key_cursor(const VialKey *key);
gboolean vial_key_cursor_is_valid(const char *cursor);
gboolean vial_key_is_behind(const VialKey *key, const char *cursor);

const VialIdentity *vial_key_identity(const VialKey *key);
/* It is the one in admin.key, which only the file can change. */
gboolean vial_key_is_file(const VialKey *key);
/* All but the secret. */
json_t *vial_key_json(const VialKey *key);

/* Texts are copied, allow and limits taken over. */
typedef struct {
	const char *name, *project, *created_by;
	VialRole role;
	VialKeyForm form;
	gint64 expires_at_ms; /* 0: never */
	VialAllow *allow;
	VialQuotas *limits;
} VialKeySpec;

VialKey *vial_keys_create(VialKeys *keys, VialKeySpec *spec, char **out_secret, VialStoreDone done, gpointer data);
/* The key's new name, role, end and narrowing; project, form and secret stay. What it loses, open streams lose too. */
void vial_keys_change(VialKeys *keys, VialKey *key, VialKeySpec *spec, VialStoreDone done, gpointer data);
/* A new secret; the old one works for so long, and what it has open lives as long. One that was rotated out before stops working now. */
char *vial_keys_rotate(VialKeys *keys, VialKey *key, gint64 overlap_seconds, VialStoreDone done, gpointer data);
void vial_keys_revoke(VialKeys *keys, VialKey *key, VialStoreDone done, gpointer data);
/* All keys of a project; `done` once, when all are gone from the disk too. */
void vial_keys_revoke_project(VialKeys *keys, const char *project, VialStoreDone done, gpointer data);
