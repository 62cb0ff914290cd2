/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Base64url (RFC 4648, section 5) as JOSE writes it: without padding, and strict, so that a value has exactly one text. What is laxer lets one token
 * have many spellings. Any thread.
 */
#pragma once

#include <glib.h>

/* The bytes, with a NUL behind them, to be freed; NULL unless `text` is the one text of at least one byte. */
guint8 *vial_base64url_decode(const char *text, gsize length, gsize *out_size);
