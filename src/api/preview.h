/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may look at a preview host, {port}-{id}.DOMAIN. Browsers cannot send our key, so besides it a preview takes a token
 * that viald signed for exactly this sandbox and port until a certain time: first in the query (?vial_token=...), then in a
 * cookie of that host. There is no way in without one of them.
 */
#pragma once

#include "auth/signing.h"
#include "http/request.h"
#include "service/sandbox.h"

#define VIAL_PREVIEW_PARAMETER "vial_token"
#define VIAL_PREVIEW_COOKIE "vial_preview"
#define VIAL_PREVIEW_DEFAULT_TTL_SECONDS 3600
#define VIAL_PREVIEW_MAX_TTL_SECONDS (7 * 24 * 3600)

char *vial_preview_token_new(const VialSigning *signing, const char *sandbox_id, unsigned port, gint64 expires_at_ms);
/* *out_expires_at_ms (may be NULL) when it is good. */
gboolean vial_preview_token_check(const VialSigning *signing, const char *token, const char *sandbox_id, unsigned port,
                                  gint64 now_ms, gint64 *out_expires_at_ms);

/* The value of ?vial_token= in a raw query, or NULL; *out_rest is the query without any. */
char *vial_preview_split_query(const char *query, char **out_rest);

/* "name=value" of a Cookie header: is it ours? The program behind the preview must not see it. */
gboolean vial_preview_is_cookie(const char *pair);
/* Whether the Origin header names the host that is asked; FALSE without one. */
gboolean vial_preview_is_same_origin(const VialRequest *request);

/*
 * The sandbox behind a preview host when the request may see it, and the query to pass on. NULL when the request has been
 * answered: refused, or sent back to the same address with a cookie in place of the token.
 */
VialSandbox *vial_preview_admit(VialRequest *request, unsigned port, gboolean is_upgrade, char **out_query);
