/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a PandaStack client wants otherwise on the paths that it shares with the native API (vial_surface_is_pandastack()), and the shapes that both
 * those handlers and its own (src/surfaces/pandastack/) answer with. Facts of that client: it turns a 5xx, or a stream's "error", whose text has
 * "timeout" into its SandboxTimeout, and takes every value of a result as text.
 */
#pragma once

#include "http/request.h"

/* What ended because its time was over. A new error. */
GError *vial_pandastack_timeout(void);
/* Results of a run with every value as text: what is JSON in them becomes JSON text. A new list. */
json_t *vial_pandastack_results(const json_t *results);
/* A sandbox as a client may look for its tree in it: in its metadata. Takes `sandbox`, and returns it. */
json_t *vial_pandastack_sandbox(json_t *sandbox);
/* How long a child of explore() shall live that nobody promotes: what its metadata says, or VIAL_UNSAID. */
gint64 vial_pandastack_trial_seconds(const json_t *metadata);
/* A build, of what the native API says of one. A new document. */
json_t *vial_pandastack_build(const json_t *build);
/* The same of many. A new list. */
json_t *vial_pandastack_builds(const json_t *builds);
/*
 * A line of a build's log, which is JSON, as events of plain text, and their end. It is not ASCII, as other streams are: nobody would decode an
 * escape. Its reader ends lines wherever Unicode does, and what is not the first line of an event is lost: so each becomes an event of its own. Gives
 * what vial_request_sse_send_text() does.
 */
gsize vial_pandastack_send_log(VialRequest *request, const char *line, gsize size);
void vial_pandastack_send_log_end(VialRequest *request);
