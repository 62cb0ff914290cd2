/* SPDX-License-Identifier: Apache-2.0 */
/* A sandbox's network: show and replace its policy, ask what it would say, and see what happened. */
#pragma once

#include "operations/operation.h"

/* Borrowed; NULL with an error. */
json_t *vial_op_network_get(const VialCaller *caller, const char *sandbox_id, GError **error);
/* `policy` is the policy object of docs/network.md; `done` has it as it is kept, once it is on the disk. */
gboolean vial_op_network_put(const VialCaller *caller, const char *sandbox_id, json_t *policy, VialDocumentDone done, gpointer data, GError **error);
/* New references; NULL with an error. `port` and `limit` may be VIAL_UNSAID. */
json_t *vial_op_network_check(const VialCaller *caller, const char *sandbox_id, const char *host, gint64 port, GError **error);
json_t *vial_op_network_events(const VialCaller *caller, const char *sandbox_id, guint64 after, gint64 limit, GError **error);
