/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may look at a preview host, {port}-{id}.DOMAIN. Browsers cannot send our key, so besides it a preview takes a token
 * that viald signed for exactly this sandbox and port until a certain time: first in the query (?vial_token=...), then in a
 * cookie of that host. There is no way in without one of them.
 */
#pragma once

#include "surfaces/shared/surface.h"

#define VIAL_PREVIEW_PARAMETER "vial_token"
#define VIAL_PREVIEW_COOKIE "vial_preview"

/* The value of ?vial_token= in a raw query, or NULL; *out_rest is the query without any. */
char *vial_preview_split_query(const char *query, char **out_rest);

/* "name=value" of a Cookie header: is it ours? The program behind the preview must not see it. */
gboolean vial_preview_is_cookie(const char *pair);
/* Whether the Origin header names the host that is asked; FALSE without one. */
gboolean vial_preview_is_same_origin(const VialRequest *request);

/* Who looks: by a key, or by a token. */
typedef struct {
	VialIdentity *identity; /* the key's, or that of who made the preview; NULL: a person made it */
	VialCaller caller;
	char *query; /* to pass on */
} VialPreview;

/* FALSE when the request has been answered: refused, or sent back to the same address with a cookie in place of the token. */
gboolean vial_preview_admit(VialRequest *request, unsigned port, gboolean is_upgrade, VialPreview *out);
void vial_preview_clear(VialPreview *preview);
