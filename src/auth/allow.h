/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a key is narrowed to, beyond its role: {agents, templates, network_modes, source_cidrs}, each a list, each left out for "all". Immutable. Main
 * thread.
 */
#pragma once

#include <glib.h>
#include <jansson.h>

typedef struct VialAllow VialAllow;

/* NULL with an error that names the field. An object without any of the fields narrows nothing; so does NULL or null, which gives NULL without an
 * error. */
gboolean vial_allow_read(const json_t *json, VialAllow **out, GError **error);
VialAllow *vial_allow_copy(const VialAllow *allow); /* of NULL it is NULL */
void vial_allow_free(VialAllow *allow);             /* accepts NULL */
json_t *vial_allow_json(const VialAllow *allow);

/* Whether everything that `inner` lets through, `outer` does too; else *out_field is the list that is wider. Both may be NULL. */
gboolean vial_allow_is_within(const VialAllow *inner, const VialAllow *outer, const char **out_field);

/* Each TRUE for an allow of NULL. */
gboolean vial_allow_has_template(const VialAllow *allow, const char *name);
gboolean vial_allow_has_network_mode(const VialAllow *allow, const char *mode);
/* `agent` NULL: a sandbox that was made without one, which a key for certain agents may not touch. */
gboolean vial_allow_has_agent(const VialAllow *allow, const char *agent);
/* An address in numbers; NULL: a unix socket, which counts as 127.0.0.1. */
gboolean vial_allow_has_source(const VialAllow *allow, const char *address);
