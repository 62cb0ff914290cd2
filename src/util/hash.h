/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256, HMAC-SHA-256 and comparison that takes the same time wherever the difference lies. Any thread. */
#pragma once

#include <glib.h>

#define VIAL_SHA256_BYTES 32

void vial_sha256(const void *data, gsize size, guint8 out[VIAL_SHA256_BYTES]);
void vial_hmac_sha256(const void *key, gsize key_size, const void *data, gsize size, guint8 out[VIAL_SHA256_BYTES]);
gboolean vial_constant_time_equal(const void *a, const void *b, gsize size);

/* Lower-case hexadecimal, and back (FALSE unless `text` is exactly 2 * size hexadecimal digits). */
char *vial_hex_encode(const void *data, gsize size);
gboolean vial_hex_decode(const char *text, void *out, gsize size);
