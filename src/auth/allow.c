/* SPDX-License-Identifier: Apache-2.0 */
#include "auth/allow.h"

#include <gio/gio.h>
#include <string.h>

#include "util/error.h"
#include "util/json.h"

#define MAX_ITEMS 64
#define MAX_ITEM_BYTES 128

static const char *const modes[] = { "disabled", "filtered", "open", NULL };

struct VialAllow {
	/* NULL: all */
	json_t *agents, *templates, *network_modes, *source_cidrs;
	GPtrArray *masks; /* GInetAddressMask, of source_cidrs */
};

void vial_allow_free(VialAllow *allow)
{
	if (!allow)
		return;
	json_decref(allow->agents);
	json_decref(allow->templates);
	json_decref(allow->network_modes);
	json_decref(allow->source_cidrs);
	g_clear_pointer(&allow->masks, g_ptr_array_unref);
	g_free(allow);
}

VialAllow *vial_allow_copy(const VialAllow *allow)
{
	VialAllow *copy = allow ? g_memdup2(allow, sizeof(*allow)) : NULL;

	if (!copy)
		return NULL;
	json_incref(copy->agents);
	json_incref(copy->templates);
	json_incref(copy->network_modes);
	json_incref(copy->source_cidrs);
	if (copy->masks)
		g_ptr_array_ref(copy->masks);
	return copy;
}

/* Whoever misspells one believes that the key is narrowed. */
static gboolean check_names(const json_t *json, GError **error)
{
	static const char *const names[] = { "agents", "templates", "network_modes", "source_cidrs", NULL };
	const char *name;
	json_t *value;

	json_object_foreach ((json_t *)json, name, value)
		if (!g_strv_contains(names, name))
			return vial_fail(error, VIAL_ERROR_INVALID,
			                 "field \"allow.%.64s\" is nothing a key can be narrowed to: that is agents, templates, network_modes and "
			                 "source_cidrs",
			                 name);
	return TRUE;
}

static gboolean read_list(const json_t *json, const char *field, json_t **out, GError **error)
{
	json_t *list = NULL;

	if (!vial_json_get_string_array(json, field, VIAL_JSON_OPTIONAL, MAX_ITEMS, MAX_ITEM_BYTES, &list, error)) {
		g_prefix_error(error, "allow: ");
		return FALSE;
	}
	*out = list ? json_deep_copy(list) : NULL;
	return TRUE;
}

static gboolean check_modes(const json_t *list, GError **error)
{
	const json_t *item;
	gsize i;

	json_array_foreach (list, i, item)
		if (!g_strv_contains(modes, json_string_value(item)))
			return vial_fail(error, VIAL_ERROR_INVALID,
			                 "field \"allow.network_modes[%" G_GSIZE_FORMAT "]\" must be disabled, filtered or open", i);
	return TRUE;
}

/* GLib's own parser takes "::/129" for "::/0": what should be nobody would be everybody. */
static GInetAddressMask *parse_mask(const char *text)
{
	const char *slash = strchr(text, '/');
	g_autofree char *address_text = slash ? g_strndup(text, (gsize)(slash - text)) : g_strdup(text);
	g_autoptr(GInetAddress) address = g_inet_address_new_from_string(address_text);
	guint64 bits = address ? g_inet_address_get_native_size(address) * 8 : 0, length = bits;

	if (!address || (slash && !g_ascii_string_to_unsigned(slash + 1, 10, 0, bits, &length, NULL)))
		return NULL;
	return g_inet_address_mask_new(address, (guint)length, NULL);
}

static gboolean read_masks(VialAllow *allow, GError **error)
{
	const json_t *item;
	gsize i;

	if (!allow->source_cidrs)
		return TRUE;
	allow->masks = g_ptr_array_new_with_free_func(g_object_unref);
	json_array_foreach (allow->source_cidrs, i, item) {
		GInetAddressMask *mask = parse_mask(json_string_value(item));

		if (!mask)
			return vial_fail(error, VIAL_ERROR_INVALID,
			                 "field \"allow.source_cidrs[%" G_GSIZE_FORMAT
			                 "]\" must be an address or a range such as 10.0.0.0/8, without bits "
			                 "behind its length",
			                 i);
		g_ptr_array_add(allow->masks, mask);
	}
	return TRUE;
}

gboolean vial_allow_read(const json_t *json, VialAllow **out, GError **error)
{
	VialAllow *allow;

	*out = NULL;
	if (!json || json_is_null(json))
		return TRUE;
	if (!json_is_object(json))
		return vial_fail(error, VIAL_ERROR_INVALID, "field \"allow\" must be an object");
	allow = g_new0(VialAllow, 1);
	if (!check_names(json, error) || !read_list(json, "agents", &allow->agents, error) ||
	    !read_list(json, "templates", &allow->templates, error) || !read_list(json, "network_modes", &allow->network_modes, error) ||
	    !read_list(json, "source_cidrs", &allow->source_cidrs, error) || !check_modes(allow->network_modes, error) || !read_masks(allow, error)) {
		vial_allow_free(allow);
		return FALSE;
	}
	*out = allow;
	return TRUE;
}

json_t *vial_allow_json(const VialAllow *allow)
{
	return allow ? json_pack("{s:O*, s:O*, s:O*, s:O*}", "agents", allow->agents, "templates", allow->templates, "network_modes",
	                         allow->network_modes, "source_cidrs", allow->source_cidrs)
	             : NULL;
}

static gboolean has(const json_t *list, const char *text)
{
	const json_t *item;
	gsize i;

	if (!list)
		return TRUE;
	json_array_foreach (list, i, item)
		if (g_strcmp0(json_string_value(item), text) == 0)
			return TRUE;
	return FALSE;
}

static gboolean list_is_within(const json_t *inner, const json_t *outer)
{
	const json_t *item;
	gsize i;

	if (!outer || !inner)
		return !outer;
	json_array_foreach (inner, i, item)
		if (!has(outer, json_string_value(item)))
			return FALSE;
	return TRUE;
}

static gboolean mask_is_within(GInetAddressMask *inner, const GPtrArray *outer)
{
	for (guint i = 0; i < outer->len; i++)
		if (g_inet_address_mask_get_length(inner) >= g_inet_address_mask_get_length(outer->pdata[i]) &&
		    g_inet_address_mask_matches(outer->pdata[i], g_inet_address_mask_get_address(inner)))
			return TRUE;
	return FALSE;
}

static gboolean masks_are_within(const GPtrArray *inner, const GPtrArray *outer)
{
	if (!outer || !inner)
		return !outer;
	for (guint i = 0; i < inner->len; i++)
		if (!mask_is_within(inner->pdata[i], outer))
			return FALSE;
	return TRUE;
}

gboolean vial_allow_is_within(const VialAllow *inner, const VialAllow *outer, const char **out_field)
{
	static const VialAllow all;

	inner = inner ? inner : &all;
	outer = outer ? outer : &all;
	*out_field = !list_is_within(inner->agents, outer->agents)                 ? "agents"
	             : !list_is_within(inner->templates, outer->templates)         ? "templates"
	             : !list_is_within(inner->network_modes, outer->network_modes) ? "network_modes"
	             : !masks_are_within(inner->masks, outer->masks)               ? "source_cidrs"
	                                                                           : NULL;
	return !*out_field;
}

gboolean vial_allow_has_template(const VialAllow *allow, const char *name)
{
	return !allow || has(allow->templates, name);
}

gboolean vial_allow_has_network_mode(const VialAllow *allow, const char *mode)
{
	return !allow || has(allow->network_modes, mode);
}

gboolean vial_allow_has_agent(const VialAllow *allow, const char *agent)
{
	return !allow || has(allow->agents, agent);
}

gboolean vial_allow_has_source(const VialAllow *allow, const char *address)
{
	g_autoptr(GInetAddress) parsed = NULL;

	if (!allow || !allow->masks)
		return TRUE;
	/* A listener for both families tells IPv4 clients in this form. */
	if (address && g_ascii_strncasecmp(address, "::ffff:", 7) == 0 && strchr(address, '.'))
		address += 7;
	parsed = g_inet_address_new_from_string(address ? address : "127.0.0.1");
	for (guint i = 0; parsed && i < allow->masks->len; i++)
		if (g_inet_address_mask_matches(allow->masks->pdata[i], parsed))
			return TRUE;
	return FALSE;
}
