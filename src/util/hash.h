/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256, HMAC-SHA-256 and comparison that takes the same time wherever the difference lies. Any thread. */
#pragma once

#include <glib.h>

#define VIAL_SHA256_BYTES 32

/* By GnuTLS, which uses the processor's own instructions: a request's key and a record cost a microsecond, a gigabyte half a second. */
void vial_sha256(const void *data, gsize size, guint8 out[VIAL_SHA256_BYTES]);
void vial_hmac_sha256(const void *key, gsize key_size, const void *data, gsize size, guint8 out[VIAL_SHA256_BYTES]);
gboolean vial_constant_time_equal(const void *a, const void *b, gsize size);

/* What comes in pieces. */
typedef struct VialSha256 VialSha256;
VialSha256 *vial_sha256_new(void);
void vial_sha256_add(VialSha256 *sum, const void *data, gsize size);
/* The digest in hexadecimal, to be freed; of what came so far, and more may come. */
char *vial_sha256_text(const VialSha256 *sum);
void vial_sha256_free(VialSha256 *sum); /* accepts NULL */

/* Lower-case hexadecimal, and back (FALSE unless `text` is exactly 2 * size hexadecimal digits). */
char *vial_hex_encode(const void *data, gsize size);
gboolean vial_hex_decode(const char *text, void *out, gsize size);
