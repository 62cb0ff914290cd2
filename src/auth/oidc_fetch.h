/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fetches the keys of an identity provider: its discovery document, then the JWK set which that names. The only place of src/auth that talks to the
 * network, and only with the provider of the configuration: no redirect is followed, whatever is too long or too slow is given up, nothing of a
 * caller's is ever an address.
 */
#pragma once

#include "auth/oidc_keys.h"

/* For both documents together: whoever waits for a key waits no longer. */
#ifndef VIAL_OIDC_FETCH_MS
#define VIAL_OIDC_FETCH_MS 5000
#endif

typedef struct {
	char *issuer;
	char *ca_file; /* "": the system's certificates */
	gboolean allow_http;
} VialOidcProvider;

/* Once, before any thread is started, for libcurl. */
void vial_oidc_fetch_setup(void);
/* An https address without user, query or fragment; http only of this machine, or where it is allowed. FALSE with an error that says which. */
gboolean vial_oidc_issuer_check(const VialOidcProvider *provider, GError **error);
/* Blocks up to VIAL_OIDC_FETCH_MS; for a worker thread. NULL with an error, which is for the log and names addresses. */
VialOidcKeys *vial_oidc_fetch(const VialOidcProvider *provider, GError **error);
