/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A TCP connection to a program that listens in a sandbox, and the right to one without a key: a preview's token, which viald signed for exactly
 * one sandbox and port until a certain time.
 */
#pragma once

#include "operations/operation.h"

typedef struct {
	void (*begun)(VialOperation *operation, gpointer data); /* asked for; writing may begin. May come before vial_op_tunnel() has returned */
	void (*connected)(gpointer data);
	/* Counted: give credit back with vial_operation_taken() or vial_operation_drained(). */
	void (*data)(GBytes *bytes, gpointer data);
	void (*eof)(gpointer data); /* the program has closed its side */
	void (*writable)(gpointer data);
	void (*end)(const GError *error, gpointer data);
} VialTunnelSink;

VialOperation *vial_op_tunnel(const VialCaller *caller, const char *sandbox_id, gint64 port, const VialTunnelSink *sink, gpointer data,
                              GError **error);

/* Previews */

/* A token for the sandbox's port; free it. */
char *vial_op_preview_create(const VialCaller *caller, const char *sandbox_id, gint64 port, gint64 ttl_seconds, gint64 *out_expires_at_ms,
                             GError **error);
typedef struct {
	gint64 expires_at_ms;
	const VialIdentity *principal; /* the key that made it, borrowed; NULL: a person did */
} VialPreviewGrant;
/* Whether the token is good for it now, and the key behind it still is; a caller with `granted_sandbox` and that principal then may tunnel. */
gboolean vial_op_preview_check(VialApp *app, const char *token, const char *sandbox_id, unsigned port, VialPreviewGrant *out);
