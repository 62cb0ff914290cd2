/* SPDX-License-Identifier: Apache-2.0 */
/*
 * API keys. A key is a secret of the form vial_<40 letters and digits>; only its SHA-256 is kept. The key in
 * <data_dir>/keys/admin.key is the operator's: it is made at the first start, and whoever deletes the file and restarts
 * gets a new one while the old stops working. Main thread only.
 */
#pragma once

#include "auth/identity.h"
#include "auth/signing.h"
#include "store/store.h"

#define VIAL_KEY_PREFIX "vial_"
#define VIAL_KEY_SECRET_LENGTH 40
#define VIAL_DEFAULT_PROJECT "default"

typedef struct VialKeys VialKeys;

/* Loads the keys and sees to admin.key. Blocks; before the main loop runs. `store` is borrowed. */
VialKeys *vial_keys_open(VialStore *store, const char *data_dir, GError **error);
void vial_keys_free(VialKeys *keys); /* accepts NULL */

const char *vial_keys_admin_file(const VialKeys *keys);
gboolean vial_keys_admin_file_is_new(const VialKeys *keys); /* made by this start */

/* The installation's secret beside them. */
const VialSigning *vial_keys_signing(const VialKeys *keys);

/* A new reference, or NULL when nobody has this key. */
VialIdentity *vial_keys_lookup(VialKeys *keys, const char *key);

/*
 * Whether this is who runs the installation, and may see what concerns all projects: an admin of the default project, which
 * is what admin.key stands for. An admin of another project rules only that.
 */
gboolean vial_keys_is_operator(const VialIdentity *identity);

/* The secret, to be shown once. Works at once; `done` (may be NULL) says when it is stored. */
char *vial_keys_add(VialKeys *keys, const char *project, VialRole role, const char *label, VialStoreDone done, gpointer data);
/* FALSE when there is no such key. Requests already admitted go on. */
gboolean vial_keys_revoke(VialKeys *keys, const char *key_id, VialStoreDone done, gpointer data);
