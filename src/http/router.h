/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The route tables as a tree of path segments. Literal segments win over {name}, {name} over {name...}. Built once at
 * start; a pattern the tree cannot hold is a programming mistake and stops the daemon there.
 */
#pragma once

#include "http/request.h"
#include "util/arena.h"

#define VIAL_ROUTE_MAX_PARAMS 6

typedef struct VialRouter VialRouter;

typedef struct {
	const VialRoute *route; /* NULL: no such path, or not this method */
	const VialRouteTable *table;
	gboolean path_exists;
	gboolean is_malformed; /* an escape in the path is broken, or gives NUL or bad UTF-8 */
	const char *allow;     /* when path_exists but the method does not: value for the Allow header, in the arena */
	gsize n_params;
	const char *names[VIAL_ROUTE_MAX_PARAMS];
	const char *values[VIAL_ROUTE_MAX_PARAMS]; /* decoded, except {name...}, which is as sent */
} VialRouteMatch;

VialRouter *vial_router_new(void);
void vial_router_add(VialRouter *router, const VialRouteTable *table); /* which must outlive it */
void vial_router_free(VialRouter *router);
/* HEAD finds the GET route. `path` is as sent, without the query. */
void vial_router_match(const VialRouter *router, VialArena *arena, const char *method, const char *path, VialRouteMatch *out);
