/* SPDX-License-Identifier: Apache-2.0 */
/* Keys: issued, changed, rotated, revoked. A secret is told once, by what creates or rotates. Documents are as spec/openapi.yaml shows them. */
#pragma once

#include "operations/operation.h"

typedef struct {
	const char *name;
	const char *role;       /* required when creating */
	gboolean is_as_giver;   /* creating: instead of role, allow and limits those of who asks, and his end; but it is never an operator's */
	const char *project;    /* NULL: the caller's own */
	const char *form;       /* NULL: vial */
	const char *expires_at; /* a time; NULL: never, or as it is */
	gboolean clears_expiry; /* changing: it shall not expire any more */
	json_t *allow;          /* an object; NULL: everything, or as it is; null: not narrowed any more */
	json_t *limits;         /* the same for quotas of its own */
} VialKeyRequest;

/* Oldest first. `project` NULL: the caller's own; "*": all, for operators. `limit` may be VIAL_UNSAID; *out_next is the cursor of the next page or
 * NULL, borrowed from the list. A new list; NULL with an error. */
json_t *vial_op_key_list(const VialCaller *caller, const char *project, const char *cursor, gint64 limit, char **out_next, GError **error);
json_t *vial_op_key_get(const VialCaller *caller, const char *id, GError **error);
/* The document has the `key`, this once. */
gboolean vial_op_key_create(const VialCaller *caller, const VialKeyRequest *request, VialDocumentDone done, gpointer data, GError **error);
gboolean vial_op_key_change(const VialCaller *caller, const char *id, const VialKeyRequest *request, VialDocumentDone done, gpointer data,
                            GError **error);
/* The document has the new `key`; the old one works for overlap_seconds more (VIAL_UNSAID: an hour). */
gboolean vial_op_key_rotate(const VialCaller *caller, const char *id, gint64 overlap_seconds, VialDocumentDone done, gpointer data, GError **error);
gboolean vial_op_key_revoke(const VialCaller *caller, const char *id, VialDocumentDone done, gpointer data, GError **error);
