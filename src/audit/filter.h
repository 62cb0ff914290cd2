/* SPDX-License-Identifier: Apache-2.0 */
/* What is looked for in the audit. All is borrowed for the call, or NULL for "any". */
#pragma once

#include <glib.h>

typedef struct {
	const char *project;
	const char *from, *to; /* times as headers have them; `to` is not included */
	const char *principal; /* a key's or person's id, or its name */
	const char *agent, *session, *sandbox, *action, *trace_id;
	const char *text; /* words, all of which must be in the code */
	gint64 before;    /* seq: a page begins behind this one; 0: at the newest */
	guint limit;
} VialAuditFilter;
