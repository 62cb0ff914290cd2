/* SPDX-License-Identifier: Apache-2.0 */
#include "surfaces/shared/podflare.h"

#include <string.h>

#include "operations/limits.h"
#include "service/app.h"
#include "util/json.h"

#define SANDBOXES "/v1/sandboxes"

/* Of a sandbox; agents have calls of the same names. */
static gboolean is_native(const VialRequest *request, const char *method)
{
	const VialRouteTable *table = vial_request_table(request);

	return table && strcmp(table->name, "native") == 0 && strcmp(vial_request_method(request), method) == 0 &&
	       g_str_has_prefix(vial_request_path(request), SANDBOXES);
}

static gboolean says(const VialRequest *request, const char *field)
{
	return json_object_get(vial_request_json((VialRequest *)request), field) != NULL;
}

gboolean vial_podflare_is_exec(const VialRequest *request)
{
	return is_native(request, "POST") && g_str_has_suffix(vial_request_path(request), "/exec") && says(request, "code") &&
	       !says(request, "cmd") && !says(request, "argv");
}

gboolean vial_podflare_is_fork(const VialRequest *request)
{
	return is_native(request, "POST") && g_str_has_suffix(vial_request_path(request), "/fork") && says(request, "n");
}

/* One of its own names, and none that is not its. */
gboolean vial_podflare_is_create(const VialRequest *request)
{
	static const char *const own[] = { "timeout_seconds", "idle_timeout_seconds", "ram_mib", "rootfs_gb", "egress", NULL };
	static const char *const shared[] = { "template", "persistent", "origin", NULL };
	gboolean has_own = FALSE;
	const char *name;
	json_t *value;

	if (!is_native(request, "POST") || strcmp(vial_request_path(request), SANDBOXES) != 0)
		return FALSE;
	json_object_foreach (vial_request_json((VialRequest *)request), name, value) {
		gboolean is_own = g_strv_contains(own, name);

		if (!is_own && !g_strv_contains(shared, name))
			return FALSE;
		has_own = has_own || is_own;
	}
	return has_own;
}

static gboolean has_key(const VialRequest *request)
{
	const char *key = vial_request_key(request);

	return key && g_str_has_prefix(key, "pf_");
}

gboolean vial_podflare_is_pty_list(const VialRequest *request)
{
	return is_native(request, "GET") && has_key(request) && !vial_request_header(request, "Upgrade");
}

gboolean vial_podflare_speaks(const VialRequest *request)
{
	return has_key(request) || vial_podflare_is_exec(request) || vial_podflare_is_fork(request) || vial_podflare_is_create(request);
}

/* Its word for what every installation has under a name of its own. */
static const char *template_of(const char *name)
{
	return g_strcmp0(name, "default") == 0 ? NULL : name;
}

/* Nothing said: as the installation has it for this surface. */
gboolean vial_podflare_decode_egress(const json_t *body, json_t **out, GError **error)
{
	gboolean is_open = -1;

	if (!vial_decode_bool(body, "egress", &is_open, error))
		return FALSE;
	if (is_open >= 0)
		*out = json_pack("{s:s}", "mode", is_open ? "open" : "disabled");
	return TRUE;
}

/* What freezes when idle must have a time after which it is. */
static void set_idle(const VialCaller *caller, VialCreateRequest *out)
{
	if (out->persistent && out->idle_seconds == VIAL_UNSAID && caller->app->config->default_idle_seconds == 0)
		out->idle_seconds = VIAL_SPACE_IDLE_SECONDS;
}

gboolean vial_podflare_decode_create(const VialCaller *caller, const json_t *body, VialCreateRequest *out, GError **error)
{
	gint64 rootfs_gb = VIAL_UNSAID;

	*out = (VialCreateRequest){
		.cpu = (double)VIAL_UNSAID, .memory_mb = VIAL_UNSAID, .disk_gb = VIAL_UNSAID, .ttl_seconds = VIAL_UNSAID, .idle_seconds = VIAL_UNSAID
	};
	if (!vial_decode_text(body, "template", &out->template_name, error) || !vial_decode_int(body, "timeout_seconds", &out->ttl_seconds, error) ||
	    !vial_decode_int(body, "idle_timeout_seconds", &out->idle_seconds, error) || !vial_decode_int(body, "ram_mib", &out->memory_mb, error) ||
	    !vial_decode_int(body, "rootfs_gb", &rootfs_gb, error) || !vial_decode_bool(body, "persistent", &out->persistent, error) ||
	    !vial_podflare_decode_egress(body, &out->network, error))
		return FALSE;
	out->template_name = template_of(out->template_name);
	out->disk_gb = rootfs_gb;
	set_idle(caller, out);
	return TRUE;
}

json_t *vial_podflare_sandbox(const VialSandbox *sandbox)
{
	return json_pack("{s:s, s:s, s:s}", "id", vial_sandbox_id(sandbox), "state", "ready", "template", vial_sandbox_template(sandbox));
}
