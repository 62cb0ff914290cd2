/* SPDX-License-Identifier: Apache-2.0 */
/* The environment a process starts with: defaults, then the sandbox's (HELLO), then the request's; later ones win. */
#pragma once

#include <jansson.h>

#include "users.h"

/* Remembers "env" and "sandbox_id" of a HELLO. 0, or -EINVAL when "env" cannot be one. */
int vial_env_set_sandbox(json_t *hello);
/*
 * A NULL-ended vector for vial_spawn, to be freed with vial_env_free(). `extra` (may be NULL) is an object of strings.
 * -EINVAL when a name or value is not usable, -ENOMEM.
 */
int vial_env_build(const struct vial_user *user, json_t *extra, bool is_tty, char ***out_env);
void vial_env_free(char **env);
