/* SPDX-License-Identifier: Apache-2.0 */
/* The environment a process starts with: defaults, then the sandbox's (HELLO), then the request's; later ones win. */
#pragma once

#include <jansson.h>

#include "stream.h"
#include "users.h"

/*
 * The rule for "env" wherever it comes in, and its sentence, which the host has too: an object; a name is not empty and has no "=" (no NUL either,
 * but JSON strings with one are refused long before); a value is a string, a number, true, false, or null, which removes the variable. NULL is no
 * "env". False after closing the stream.
 */
bool vial_env_check(struct vial_stream *stream, json_t *env);
/* A checked "env" with every value as text or null. NULL for none, or without memory. */
json_t *vial_env_texts(json_t *env);

/* Remembers "env" and "sandbox_id" of a HELLO. 0, or -EINVAL when "env" cannot be one. */
int vial_env_set_sandbox(json_t *hello);
/*
 * A NULL-ended vector for vial_spawn, to be freed with vial_env_free(). `extra` (may be NULL) is an object of strings.
 * -EINVAL when a name or value is not usable, -ENOMEM.
 */
int vial_env_build(const struct vial_user *user, json_t *extra, bool is_tty, char ***out_env);
void vial_env_free(char **env);
/* The same as an object of strings; what is no UTF-8 is left out. */
json_t *vial_env_object(char **env);
