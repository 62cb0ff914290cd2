/* SPDX-License-Identifier: Apache-2.0 */
/* Base64 (RFC 4648, section 4) that strangers send: with its padding and without anything else. GLib's decoder skips what is none. Any thread. */
#pragma once

#include <glib.h>

gboolean vial_base64_is_valid(const char *text);
/* The bytes, none of them for an empty text; NULL when it is not valid. */
GBytes *vial_base64_decode(const char *text);
