/* SPDX-License-Identifier: Apache-2.0 */
/* Sandboxes as a whole: made, listed, shown, deleted, their lifetimes, and their power. */
#pragma once

#include "operations/operation.h"

/* Numbers may be VIAL_UNSAID, everything else NULL. All is borrowed for the call. */
typedef struct {
	const char *template_name;
	const char *engine;
	const char *from_snapshot;
	const char *origin; /* instead of the two: the id or name of a snapshot, else the name of a template. NOT_FOUND if there is neither */
	const char *tier;   /* a size by name, instead of the numbers */
	double cpu;
	gint64 memory_mb;
	gint64 disk_gb;      /* that its template has to have at least; VIAL_UNSAID and 0: any */
	gint64 ttl_seconds;  /* 0: no end */
	gint64 idle_seconds; /* 0: no idle policy */
	const char *on_idle; /* delete, hibernate */
	gboolean persistent;
	gboolean rests_when_over, wakes_by_use; /* service/sandbox.h: vial_sandbox_rest() */
	json_t *metadata;                       /* objects of strings */
	json_t *env;
	json_t *network; /* docs/network.md */
} VialCreateRequest;

/* `done` has the sandbox, borrowed, or an error. */
gboolean vial_op_sandbox_create(const VialCaller *caller, const VialCreateRequest *request, VialSandboxDone done, gpointer data, GError **error);
/* Borrowed; NULL with an error. */
VialSandbox *vial_op_sandbox_get(const VialCaller *caller, const char *sandbox_id, GError **error);

typedef struct {
	const char *state;         /* NULL: any */
	unsigned states;           /* 1 << VialState each; 0: any */
	const char *template_name; /* NULL: any */
	gint64 since_ms;           /* made then or later; wall clock */
	json_t *metadata;          /* an object of strings that must all be there; NULL: any */
	const char *cursor;        /* the last one of the page before; NULL: from the front */
	gint64 limit;              /* VIAL_UNSAID: all */
	gboolean is_oldest_first;
} VialSandboxFilter;

/* The caller's, newest first unless it says otherwise, with references; *out_next is the cursor of the next page, or NULL; borrowed from the last
 * element. NULL with an error.
 */
GPtrArray *vial_op_sandbox_list(const VialCaller *caller, const VialSandboxFilter *filter, const char **out_next, GError **error);

gboolean vial_op_sandbox_delete(const VialCaller *caller, const char *sandbox_id, VialOperationDone done, gpointer data, GError **error);

/* What is unsaid (VIAL_UNSAID, NULL, -1) stays as it is. */
typedef struct {
	gint64 ttl_seconds, idle_seconds;
	const char *on_idle;
	int persistent;       /* TRUE, FALSE, or -1 */
	gboolean only_longer; /* the ttl is taken only if it ends later than the one there is */
} VialLifecycleRequest;

/* `done` when it is on the disk. */
gboolean vial_op_lifecycle_change(const VialCaller *caller, const char *sandbox_id, const VialLifecycleRequest *request, VialSandboxDone done,
                                  gpointer data, GError **error);

/* Asleep until somebody connects to it (service/sandbox.h: vial_sandbox_rest()). CONFLICT when it rests already. */
gboolean vial_op_rest(const VialCaller *caller, const char *sandbox_id, VialOperationDone done, gpointer data, GError **error);

typedef struct {
	gint64 ttl_seconds;  /* from now on, if it slept; else only if that is longer than what it has */
	int rests_when_over; /* -1: as it is */
	gboolean must_sleep; /* CONFLICT unless it sleeps or is paused */
} VialConnectRequest;

/* Awake, for so long at least; who may not change its life (LIFECYCLE_CHANGE) finds it as it is. `was_asleep`: it slept, or was paused. */
typedef void (*VialConnectDone)(VialSandbox *sandbox, gboolean was_asleep, const GError *error, gpointer data);
gboolean vial_op_connect(const VialCaller *caller, const char *sandbox_id, const VialConnectRequest *request, VialConnectDone done, gpointer data,
                         GError **error);

/* VIAL_VERB_PAUSE, _RESUME, _HIBERNATE or _WAKE. */
gboolean vial_op_power(const VialCaller *caller, VialVerb verb, const char *sandbox_id, VialOperationDone done, gpointer data, GError **error);
