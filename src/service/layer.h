/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layers: what a custom template has on top of its base. A layer is an EROFS image that vial-agent packs in the guest (agent/layer.c) and sends as
 * a stream of bytes; the host writes them to a file, hands that file to guests and never looks inside. Its name is the SHA-256 of its content, so
 * two equal ones are one file. They live in `layers/` of the data directory; records name them, never their paths. docs/layers.md.
 *
 * Main thread, except where it says so.
 */
#pragma once

#include "service/app.h"

/* The most that one on top of the other may be; and what a layer without a limit of its own may take. */
#define VIAL_LAYERS_MAX 16
#define VIAL_LAYER_MAX_BYTES (G_GINT64_CONSTANT(64) << 30)

/* Whether templates can have layers here; with an error, a sentence that says what is missing. */
gboolean vial_layers_supported(VialApp *app, GError **error);

/* The folder of all layers, which is made when it is missing; a layer's file there. */
char *vial_layers_dir(VialApp *app);
char *vial_layer_path(VialApp *app, const char *name);
/* 64 hexadecimal digits: what may become part of a path. */
gboolean vial_layer_is_name(const char *name);

/* The files of these (may be NULL) as a NULL-terminated list, or NULL for none. FALSE when one is gone, or when there can be none here. */
gboolean vial_layers_resolve(VialApp *app, const char *const *names, char ***out_paths, GError **error);
/* Whether a sandbox, a snapshot or a template in the list (template.h) has it. What else may need it, its owner knows. */
gboolean vial_layer_is_used(VialApp *app, const char *name);
/* At start: removes what was being taken when viald ended. Blocks. */
void vial_layers_sweep(VialApp *app);

/* `hash` is the layer's name. Borrowed, all of it. */
typedef void (*VialLayerDone)(const char *hash, gint64 size_bytes, const GError *error, gpointer data);
/*
 * Ends everything that runs in the guest but its agent, packs what differs from the layers below and writes it to `dir` as HASH.erofs; one that is
 * there already is the same. The guest is of no other use afterwards: the caller stops it. It must have been booted with `is_layered` (boot.h).
 * Not in it: /proc, /sys, /dev, /opt/vial, what is in /tmp, /var/tmp and /run, and the agent's own files; so what must not be in a template, a
 * build's secrets say, belongs below /run or /tmp.
 * More than max_bytes (0: VIAL_LAYER_MAX_BYTES), a full disk and a guest that ends each are an error; nothing is left of it then.
 */
void vial_layer_take(VialApp *app, VialInstance *instance, const char *dir, gint64 max_bytes, VialLayerDone done, gpointer data);
