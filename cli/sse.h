/* SPDX-License-Identifier: Apache-2.0 */
/* Server-sent events out of a byte stream. Does no input or output; hostile lengths are refused. */
#pragma once

#include <glib.h>

enum { VIAL_SSE_EVENT_MAX = 32 * 1024 * 1024 }; /* one event; figures arrive as base64 inside one */

typedef struct VialSse VialSse;
/* `data` is NUL-terminated. FALSE stops the feed; set *error. */
typedef gboolean (*VialSseFunc)(const char *event, const char *data, gsize size, gpointer user, GError **error);

VialSse *vial_sse_new(VialSseFunc func, gpointer user);
void vial_sse_free(VialSse *sse);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(VialSse, vial_sse_free)
gboolean vial_sse_feed(VialSse *sse, const void *bytes, gsize size, GError **error);
