/* SPDX-License-Identifier: Apache-2.0 */
/* Between keys.c, which has the rules, and key_record.c, which has the forms in which a key is shown and kept. */
#pragma once

#include "auth/keys.h"
#include "util/hash.h"

struct VialKey {
	VialIdentity *identity;          /* of who comes with the secret */
	VialIdentity *previous_identity; /* of who comes with the one that was rotated out, while it works; the same rights, but another end */
	guint8 hash[VIAL_SHA256_BYTES];
	gboolean has_previous; /* rotated out, still working */
	guint8 previous[VIAL_SHA256_BYTES];
	gint64 previous_until_ms;
	VialKeyForm form;
	char *hint; /* how the secret begins, to tell keys apart */
	char *created_by;
	gint64 created_at_ms;
	gint64 last_used_ms; /* 0: never */
	gint64 stored_use_ms;
	gboolean is_file;
};

/* NULL when the record is damaged. */
VialKey *vial_key_from_record(const VialKeyRecord *record);
void vial_key_store(const VialKey *key, VialStore *store, VialStoreDone done, gpointer data);
void vial_key_free(VialKey *key);
