/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "cli/api.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/status.h"

enum { DEPTH_MAX = 64 };

const VialSyntax vial_tree_syntax = {
	.arguments = "[ID]",
	.description = "All sandboxes, or one and what was forked from it.",
	.max_arguments = 1,
	.completes = "@sandbox",
};

static const char *parent_of(const json_t *sandboxes, const json_t *sandbox)
{
	const char *parent = vial_api_string(sandbox, "parent");
	for (gsize i = 0; parent && i < json_array_size(sandboxes); i++)
		if (g_strcmp0(vial_api_string(json_array_get(sandboxes, i), "id"), parent) == 0)
			return parent;
	return NULL; /* none, or it is gone: a root */
}

static void print_node(VialCli *cli, const json_t *sandbox, const char *lead)
{
	const char *status = vial_api_string(sandbox, "status"), *style = vial_status_style(status);
	g_autofree char *id = vial_api_line(sandbox, "id"), *template = vial_api_line(sandbox, "template"), *shown = vial_api_line(sandbox, "status");
	g_autofree char *age = vial_output_age(vial_api_string(sandbox, "created_at"));
	g_autofree char *pairs = vial_api_pairs(json_object_get(sandbox, "metadata"));
	g_autofree char *clean = vial_sanitize_line(pairs);
	printf("%s%s  %s  %s%s%s  %s%s%s\n", lead, id, template, style ? vial_output_style(cli, style) : "", status ? shown : "-",
	       style ? vial_output_style(cli, "0") : "", age, *clean ? "  " : "", clean);
}

static void print_children(VialCli *cli, const json_t *sandboxes, const char *parent, const char *lead, int depth)
{
	g_autoptr(GPtrArray) children = g_ptr_array_new();
	for (gsize i = 0; i < json_array_size(sandboxes); i++)
		if (g_strcmp0(parent_of(sandboxes, json_array_get(sandboxes, i)), parent) == 0)
			g_ptr_array_add(children, json_array_get(sandboxes, i));
	for (guint i = 0; i < children->len && depth < DEPTH_MAX; i++) {
		const json_t *child = g_ptr_array_index(children, i);
		gboolean is_last = i + 1 == children->len, is_root = parent == NULL;
		g_autofree char *own = g_strconcat(lead, is_root ? "" : is_last ? "└─ " : "├─ ", NULL);
		g_autofree char *below = g_strconcat(lead, is_root ? "" : is_last ? "   " : "│  ", NULL);
		print_node(cli, child, own);
		print_children(cli, sandboxes, vial_api_string(child, "id"), below, depth + 1);
	}
}

static json_t *nest(const json_t *sandboxes, const char *parent, int depth)
{
	json_t *list = json_array();
	for (gsize i = 0; i < json_array_size(sandboxes) && depth < DEPTH_MAX; i++) {
		json_t *sandbox = json_array_get(sandboxes, i);
		if (g_strcmp0(parent_of(sandboxes, sandbox), parent) != 0)
			continue;
		json_t *node = json_copy(sandbox);
		json_object_set_new(node, "children", nest(sandboxes, vial_api_string(sandbox, "id"), depth + 1));
		json_array_append_new(list, node);
	}
	return list;
}

/* Older first; siblings of one instant by id, so that the picture stays the same. */
static int compare(gconstpointer a, gconstpointer b)
{
	const json_t *left = *(const json_t *const *)a, *right = *(const json_t *const *)b;
	int order = g_strcmp0(vial_api_string(left, "created_at"), vial_api_string(right, "created_at"));
	return order ? order : g_strcmp0(vial_api_string(left, "id"), vial_api_string(right, "id"));
}

static json_t *sorted(const json_t *sandboxes)
{
	g_autoptr(GPtrArray) list = g_ptr_array_new();
	for (gsize i = 0; i < json_array_size(sandboxes); i++)
		g_ptr_array_add(list, json_array_get(sandboxes, i));
	g_ptr_array_sort(list, compare);
	json_t *result = json_array();
	for (guint i = 0; i < list->len; i++)
		json_array_append(result, g_ptr_array_index(list, i));
	return result;
}

int vial_tree_run(VialCli *cli, int argc, char **argv)
{
	GError *error = NULL;
	g_autofree char *root = argc ? vial_api_sandbox_id(cli, argv[0], &error) : NULL;
	if (argc && !root)
		return vial_output_fail(cli, error);
	g_autoptr(json_t) all = vial_api_sandboxes(cli, "", &error);
	if (!all)
		return vial_output_fail(cli, error);
	g_autoptr(json_t) sandboxes = sorted(all);
	if (cli->is_json) {
		g_autoptr(json_t) forest = nest(sandboxes, root, 0);
		vial_output_json(forest);
		return VIAL_EXIT_OK;
	}
	for (gsize i = 0; root && i < json_array_size(sandboxes); i++)
		if (g_strcmp0(vial_api_string(json_array_get(sandboxes, i), "id"), root) == 0)
			print_node(cli, json_array_get(sandboxes, i), "");
	print_children(cli, sandboxes, root, "", 0);
	return VIAL_EXIT_OK;
}
