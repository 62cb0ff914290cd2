/* SPDX-License-Identifier: Apache-2.0 */
#include "http/router.h"

#include <string.h>

#include "http/uri.h"

/* Deeper paths match only {name...}. */
#define MAX_SEGMENTS 32

typedef struct {
	const VialRoute *route;
	const VialRouteTable *table;
	gsize n_params;
	char *names[VIAL_ROUTE_MAX_PARAMS];
} Target;

typedef struct Node Node;
struct Node {
	char *literal;       /* NULL for {name} */
	GPtrArray *literals; /* Node */
	Node *param;
	GPtrArray *targets; /* Target: routes ending here */
	GPtrArray *rests;   /* Target: routes whose {name...} starts here */
};

struct VialRouter {
	Node *root;
};

static void target_free(gpointer pointer)
{
	Target *target = pointer;

	for (gsize i = 0; i < target->n_params; i++)
		g_free(target->names[i]);
	g_free(target);
}

static void node_free(gpointer pointer)
{
	Node *node = pointer;

	if (!node)
		return;
	g_free(node->literal);
	g_ptr_array_unref(node->literals);
	g_ptr_array_unref(node->targets);
	g_ptr_array_unref(node->rests);
	node_free(node->param);
	g_free(node);
}

static Node *node_new(const char *literal)
{
	Node *node = g_new0(Node, 1);

	node->literal = g_strdup(literal);
	node->literals = g_ptr_array_new_with_free_func(node_free);
	node->targets = g_ptr_array_new_with_free_func(target_free);
	node->rests = g_ptr_array_new_with_free_func(target_free);
	return node;
}

static Node *find_literal(const Node *node, const char *text)
{
	for (guint i = 0; i < node->literals->len; i++) {
		Node *child = node->literals->pdata[i];
		if (strcmp(child->literal, text) == 0)
			return child;
	}
	return NULL;
}

static Node *descend(Node *node, const char *segment, Target *target)
{
	gsize length = strlen(segment);

	if (segment[0] != '{') {
		Node *child = find_literal(node, segment);
		if (!child) {
			child = node_new(segment);
			g_ptr_array_add(node->literals, child);
		}
		return child;
	}
	g_assert(length > 2 && segment[length - 1] == '}' && target->n_params < VIAL_ROUTE_MAX_PARAMS);
	target->names[target->n_params++] = g_strndup(segment + 1, length - 2);
	if (!node->param)
		node->param = node_new(NULL);
	return node->param;
}

static void add_route(VialRouter *router, const VialRouteTable *table, const VialRoute *route)
{
	g_auto(GStrv) segments = g_strsplit(route->pattern + 1, "/", -1);
	Target *target = g_new0(Target, 1);
	Node *node = router->root;

	g_assert(route->pattern[0] == '/');
	target->route = route;
	target->table = table;
	for (gsize i = 0; segments[i]; i++) {
		if (g_str_has_suffix(segments[i], "...}")) {
			g_assert(!segments[i + 1] && target->n_params < VIAL_ROUTE_MAX_PARAMS);
			target->names[target->n_params++] = g_strndup(segments[i] + 1, strlen(segments[i]) - strlen("{...}"));
			g_ptr_array_add(node->rests, target);
			return;
		}
		node = descend(node, segments[i], target);
	}
	g_ptr_array_add(node->targets, target);
}

VialRouter *vial_router_new(void)
{
	VialRouter *router = g_new0(VialRouter, 1);

	router->root = node_new(NULL);
	return router;
}

void vial_router_add(VialRouter *router, const VialRouteTable *table)
{
	for (gsize i = 0; i < table->n_routes; i++)
		add_route(router, table, &table->routes[i]);
}

void vial_router_free(VialRouter *router)
{
	if (!router)
		return;
	node_free(router->root);
	g_free(router);
}

/* One look-up: the path's segments, and the values taken so far. */
typedef struct {
	const char *method;
	char *segments[MAX_SEGMENTS];       /* decoded */
	const char *rest[MAX_SEGMENTS + 1]; /* the path as sent, from this segment on */
	gsize n_segments;
	const char *values[VIAL_ROUTE_MAX_PARAMS];
	GPtrArray *other_methods; /* Target: the path fits but the method does not */
} Lookup;

static gboolean method_fits(const VialRoute *route, const char *method)
{
	if (route->flags & VIAL_ROUTE_ANY_METHOD)
		return TRUE;
	return strcmp(route->method, method) == 0 || (strcmp(method, "HEAD") == 0 && strcmp(route->method, "GET") == 0);
}

static Target *pick(GPtrArray *targets, Lookup *lookup)
{
	for (guint i = 0; i < targets->len; i++) {
		Target *target = targets->pdata[i];
		if (method_fits(target->route, lookup->method))
			return target;
		if (!lookup->other_methods)
			lookup->other_methods = g_ptr_array_new();
		g_ptr_array_add(lookup->other_methods, target);
	}
	return NULL;
}

static Target *walk(const Node *node, Lookup *lookup, gsize at, gsize n_values)
{
	Target *found = NULL;

	if (at == lookup->n_segments) {
		found = pick(node->targets, lookup);
	} else {
		Node *child = find_literal(node, lookup->segments[at]);
		if (child)
			found = walk(child, lookup, at + 1, n_values);
		if (!found && node->param && lookup->segments[at][0] != '\0') {
			lookup->values[n_values] = lookup->segments[at];
			found = walk(node->param, lookup, at + 1, n_values + 1);
		}
	}
	if (!found && node->rests->len > 0) {
		found = pick(node->rests, lookup);
		if (found)
			lookup->values[n_values] = lookup->rest[at];
	}
	return found;
}

/* FALSE when an escape is broken. More segments than we hold are left in `rest`, where {name...} finds them. */
static gboolean split(Lookup *lookup, VialArena *arena, const char *path)
{
	while (*path == '/' && lookup->n_segments < MAX_SEGMENTS) {
		gsize length = strcspn(++path, "/");
		lookup->rest[lookup->n_segments] = path;
		char *segment = vial_uri_decode(arena, path, length, FALSE); /* checks raw bytes as well as escapes */
		if (!segment)
			return FALSE;
		lookup->segments[lookup->n_segments++] = segment;
		path += length;
	}
	lookup->rest[lookup->n_segments] = path;
	return TRUE;
}

static const char *list_methods(const GPtrArray *targets, VialArena *arena)
{
	g_autoptr(GString) list = g_string_new(NULL);

	for (guint i = 0; i < targets->len; i++) {
		const char *method = ((Target *)targets->pdata[i])->route->method;
		g_string_append_printf(list, "%s%s", list->len ? ", " : "", method);
		if (strcmp(method, "GET") == 0)
			g_string_append(list, ", HEAD");
	}
	return vial_arena_copy(arena, list->str, list->len);
}

void vial_router_match(const VialRouter *router, VialArena *arena, const char *method, const char *path, VialRouteMatch *out)
{
	Lookup lookup = { .method = method };

	*out = (VialRouteMatch){ 0 };
	/*
	 * A proxied path may hold any bytes, so a broken escape only matters if no {name...} takes it; split() then leaves
	 * the offending segment and all after it in `rest`.
	 */
	gboolean is_sound = split(&lookup, arena, path);
	Target *target = walk(router->root, &lookup, 0, 0);
	if (!is_sound && !(target && g_str_has_suffix(target->route->pattern, "...}"))) {
		out->is_malformed = TRUE;
	} else if (target) {
		out->route = target->route;
		out->table = target->table;
		out->path_exists = TRUE;
		out->n_params = target->n_params;
		memcpy(out->names, target->names, sizeof(out->names));
		memcpy(out->values, lookup.values, sizeof(out->values));
	} else if (lookup.other_methods) {
		out->path_exists = TRUE;
		out->allow = list_methods(lookup.other_methods, arena);
	}
	if (lookup.other_methods)
		g_ptr_array_unref(lookup.other_methods);
}
