/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A checkpoint folder's manifest: what it is, what it needs, and proof that this installation wrote exactly these bytes.
 *
 * manifest.json holds the facts (engine and its version, CPU features, template, sizes), a SHA-256 of each file, and an HMAC
 * of all that with a key that never leaves data_dir/keys. A folder is restored only if everything agrees. Since hashing a
 * large memory takes about as long as loading it, the check has two halves: quick (everything but the memory pages, before
 * anything is loaded) and deep (the pages, beside the load and before the guest may be used). A folder found good is not
 * hashed again while its files keep inode, size and change time. Blocking; on worker threads.
 */
#pragma once

#include <jansson.h>

#include "service/app.h"

/* Loads or makes the installation's key. */
VialManifests *vial_manifests_open(const char *data_dir, const char *engine, const char *engine_version, GError **error);
void vial_manifests_free(VialManifests *manifests);

/*
 * Folders directly in `dir` are sealed with a key that is kept there, not with the installation's: templates' checkpoints lie
 * beside the images they were made from and are as trustworthy as those, so installations that share images share them too.
 */
gboolean vial_manifests_share(VialManifests *manifests, const char *dir, GError **error);

/* Seals a folder: hashes and flushes its files, writes the manifest. `facts` is borrowed and copied. */
gboolean vial_manifest_seal(VialManifests *manifests, const char *dir, json_t *facts, GError **error);

/* A sealed folder was renamed: what is known of it stays known. */
void vial_manifest_moved(VialManifests *manifests, const char *from, const char *to);

/* *out_needs_deep says whether the pages must be hashed too; *out_facts (may be NULL) is new. */
gboolean vial_manifest_check(VialManifests *manifests, const char *dir, gboolean *out_needs_deep, json_t **out_facts, GError **error);
gboolean vial_manifest_check_deep(VialManifests *manifests, const char *dir, GError **error);

/* The host's CPU features as the kernel lists them. */
const char *vial_manifests_cpu(const VialManifests *manifests);
