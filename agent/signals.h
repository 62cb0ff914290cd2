/* SPDX-License-Identifier: Apache-2.0 */
/* Signals by name: "TERM", "SIGTERM", 15 and "15" all mean the same. */
#pragma once

#include <jansson.h>

/* 0 when it is none. */
int vial_signal_from_json(json_t *value);
/* Without the SIG; never NULL. */
const char *vial_signal_name(int signal);
