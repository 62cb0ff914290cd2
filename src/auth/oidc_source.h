/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the provider's keys come from: fetched from it, at start, every hour and for a key that is not known, at most every ten seconds; or read from
 * a file, which is looked at again. What cannot be had again stays, but not longer than a day. Main thread only; blocks for the file alone.
 */
#pragma once

#include "auth/oidc_fetch.h"

typedef struct VialOidcSource VialOidcSource;

typedef struct {
	void (*changed)(gpointer data); /* the keys are others now, or none */
	void (*fetched)(gpointer data); /* a fetch is over, however it went; after `changed` */
	gpointer data;
} VialOidcListener;

/*
 * `file` NULL: they are fetched, and that begins. NULL with an error when the file cannot be read. The listener hears nothing before this returns.
 * What is needed of `provider` is copied.
 */
VialOidcSource *vial_oidc_source_new(const VialOidcProvider *provider, const char *file, const VialOidcListener *listener, GError **error);
void vial_oidc_source_free(VialOidcSource *source); /* accepts NULL; a fetch that is under way is forgotten */

/* Those known, borrowed until the main loop runs or the next look; NULL: none. */
const VialOidcKeys *vial_oidc_source_keys(const VialOidcSource *source);
/* Looks at the file, at most once a second, and at the keys' age. Cheap enough for every request. May call `changed`. */
void vial_oidc_source_look(VialOidcSource *source);
/* A key is not known. TRUE: a fetch is under way or was begun, and `fetched` will tell; FALSE: there is nothing to wait for. */
gboolean vial_oidc_source_ask(VialOidcSource *source);
/* Whether what is not among the keys is therefore not published: FALSE without keys, and when the provider could not be reached last. */
gboolean vial_oidc_source_is_sure(const VialOidcSource *source);
