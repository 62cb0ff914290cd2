/* SPDX-License-Identifier: Apache-2.0 */
/* Text from the guest (file names, command lines) that may not be UTF-8, for JSON, which must be. */
#pragma once

#include <jansson.h>

/* A JSON string in which what is not UTF-8 has become U+FFFD. */
json_t *vial_json_text(const char *text);
