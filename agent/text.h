/* SPDX-License-Identifier: Apache-2.0 */
/* Text from the guest (file names, command lines) that may not be UTF-8, for JSON, which must be. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

/* A JSON string in which what is not UTF-8 has become U+FFFD. */
json_t *vial_json_text(const char *text);
/* The first `limit` bytes of a text that is UTF-8 and longer, up to a whole character, and a line that says how long it is. */
json_t *vial_json_text_cut(const char *text, size_t size_bytes, size_t limit);
/* A text that is UTF-8 as a name on one line: at most `limit` bytes, control characters replaced by U+FFFD. */
json_t *vial_json_name(const char *text, size_t limit);
/* No control characters, C1's among them: nothing that a terminal would take for a command. */
bool vial_text_is_printable(const char *text);
