/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A result as a kernel sends it, {MIME type: value}, held against what the host and its clients may expect of one. A representation that breaks a
 * rule is left out, and a line in text/plain says so; the others stay.
 */
#pragma once

#include <stdbool.h>

#include <jansson.h>

#define VIAL_BUNDLE_MAX_TYPES 64u
#define VIAL_BUNDLE_MIME_BYTES 255u
/* Of one object inside a value, and of each of its names. */
#define VIAL_BUNDLE_MAX_KEYS 65536u
#define VIAL_BUNDLE_KEY_BYTES 4096u

/* A new reference to a bundle that keeps the rules: `data` itself when it does. *out_is_cut: something was left out. NULL: out of memory. */
json_t *vial_bundle_check(json_t *data, bool *out_is_cut);
/* What stands for a result that is not there, because of `problem`. */
json_t *vial_bundle_note(const char *problem);
/* type/subtype, perhaps with parameters; printable ASCII only. */
bool vial_bundle_is_mime(const char *text);
