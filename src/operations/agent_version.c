/* SPDX-License-Identifier: Apache-2.0 */
/* What a version of an agent may say, and what is kept of it. */
#include <string.h>

#include "operations/agents_private.h"
#include "operations/facts.h"
#include "operations/limits.h"
#include "operations/validate.h"
#include "service/agent_weight.h"
#include "service/capacity.h"
#include "service/custom_templates.h"
#include "service/quota.h"
#include "service/slots.h"
#include "util/base64.h"
#include "util/json.h"

/* What an agent has kernels for (agent/kernellang.c), by their own names: a version is never changed, so what no call could run is no part of one. */
static const char *const language_names[] = { "python", "javascript", "typescript", "bash", NULL };

static gboolean check_languages(const json_t *languages, GError **error)
{
	int found;
	json_t *language;
	gsize i;

	if (languages && json_array_size(languages) == 0)
		return vial_fail(error, VIAL_ERROR_INVALID, "field \"languages\" must not be empty: leave it out for all");
	if (json_array_size(languages) > VIAL_AGENT_LANGUAGES_MAX)
		return vial_fail(error, VIAL_ERROR_INVALID, "field \"languages\" has too many elements: at most %d", VIAL_AGENT_LANGUAGES_MAX);
	json_array_foreach (languages, i, language) {
		if (!json_is_string(language))
			return vial_fail(error, VIAL_ERROR_INVALID, "field \"languages[%" G_GSIZE_FORMAT "]\" must be a string", i);
		if (!vial_check_choice("languages", json_string_value(language), language_names, &found, error))
			return FALSE;
	}
	return TRUE;
}

/* How many bytes it holds; -1 with an error. */
static gint64 check_file(json_t *file, gsize index, GError **error)
{
	g_autofree char *field = g_strdup_printf("files[%" G_GSIZE_FORMAT "]", index);
	const char *path = NULL, *encoded = NULL, *mode = NULL, *content = NULL;

	if (!json_is_object(file)) {
		vial_fail(error, VIAL_ERROR_INVALID, "field \"%s\" must be an object", field);
		return -1;
	}
	if (!vial_json_get_string(file, "path", VIAL_JSON_REQUIRED | VIAL_JSON_NONEMPTY, VIAL_PATH_MAX_BYTES, &path, error) ||
	    !vial_json_get_string(file, "mode", VIAL_JSON_NONEMPTY, 8, &mode, error) ||
	    !vial_json_get_string(file, "content", 0, G_MAXSIZE, &content, error) ||
	    !vial_json_get_string(file, "content_base64", 0, G_MAXSIZE, &encoded, error)) {
		g_prefix_error(error, "%s: ", field);
		return -1;
	}
	if (!content == !encoded) {
		vial_fail(error, VIAL_ERROR_INVALID, "field \"%s\" must have either content (text) or content_base64", field);
		return -1;
	}
	if (encoded && !vial_base64_is_valid(encoded)) {
		vial_fail(error, VIAL_ERROR_INVALID, "field \"%s.content_base64\" is not Base64", field);
		return -1;
	}
	return (gint64)vial_agent_file_size(file);
}

static gboolean check_files(const json_t *files, GError **error)
{
	gint64 total = 0;
	json_t *file;
	gsize i;

	if (json_array_size(files) > VIAL_AGENT_FILES_MAX)
		return vial_fail(error, VIAL_ERROR_INVALID, "field \"files\" has too many elements: at most %d", VIAL_AGENT_FILES_MAX);
	json_array_foreach (files, i, file) {
		gint64 size = check_file(file, i, error);

		if (size < 0)
			return FALSE;
		total += size;
	}
	return total <= VIAL_AGENT_FILES_MAX_BYTES ||
	       vial_fail(error, VIAL_ERROR_INVALID, "field \"files\" is too large: at most %d bytes in all; a template of one's own can have more",
	                 VIAL_AGENT_FILES_MAX_BYTES);
}

/* They become words of a command, never of a shell line; one that begins with a dash would be an option of it. */
static gboolean check_packages(json_t *packages, GError **error)
{
	static const char *const kinds[] = { "pip", "npm", NULL };
	const char *kind;
	json_t *list, *name;
	gsize i;

	json_object_foreach (packages, kind, list) {
		if (!g_strv_contains(kinds, kind))
			return vial_fail(error, VIAL_ERROR_INVALID, "field \"packages.%.32s\" is none that there is: these are pip, npm", kind);
		if (!json_is_array(list) || json_array_size(list) > VIAL_AGENT_PACKAGES_MAX)
			return vial_fail(error, VIAL_ERROR_INVALID, "field \"packages.%s\" must be an array of at most %d names", kind,
			                 VIAL_AGENT_PACKAGES_MAX);
		json_array_foreach (list, i, name) {
			if (!json_is_string(name))
				return vial_fail(error, VIAL_ERROR_INVALID, "field \"packages.%s[%" G_GSIZE_FORMAT "]\" must be a string", kind, i);
			if (!vial_check_label("packages", json_string_value(name), VIAL_AGENT_PACKAGE_MAX_BYTES, error))
				return FALSE;
			if (json_string_value(name)[0] == '-')
				return vial_fail(error, VIAL_ERROR_INVALID,
				                 "field \"packages.%s[%" G_GSIZE_FORMAT "]\" is no name of a package: it begins with a dash", kind,
				                 i);
		}
	}
	return TRUE;
}

static gboolean has_packages(const json_t *packages)
{
	return json_array_size(json_object_get(packages, "pip")) + json_array_size(json_object_get(packages, "npm")) > 0;
}

static gboolean check(const VialVersionRequest *request, GError **error)
{
	return vial_check_text("template", request->template_name, VIAL_NAME_MAX_BYTES, error) &&
	       vial_check_int("idle_seconds", request->idle_seconds, VIAL_AGENT_MIN_IDLE_SECONDS, VIAL_LIFETIME_MAX_SECONDS, error) &&
	       vial_check_label("prompt_ref", request->prompt_ref, VIAL_AGENT_PROMPT_REF_MAX_BYTES, error) &&
	       check_languages(request->languages, error) && vial_check_env(request->env, error) && vial_check_metadata(request->metadata, error) &&
	       check_files(request->files, error) && check_packages(request->packages, error);
}

/* What is unsaid is the template's, and possible as that is. */
static gboolean read_size(const VialCaller *caller, const VialVersionRequest *request, double *cpu, gint64 *memory_mb, GError **error)
{
	VialLimits limits = { 0 };

	*cpu = request->cpu;
	*memory_mb = request->memory_mb;
	if (!vial_check_size(request->tier, cpu, memory_mb, error))
		return FALSE;
	limits.cpu = *cpu == (double)VIAL_UNSAID ? 0 : *cpu;
	limits.memory_mb = *memory_mb == VIAL_UNSAID ? 0 : *memory_mb;
	return vial_capacity_possible(caller->app, &limits, error);
}

json_t *vial_agent_version_read(const VialCaller *caller, const VialVersionRequest *request, GError **error)
{
	const VialConfig *config = caller->app->config;
	const char *template_name = request->template_name ? request->template_name : config->default_template;
	g_autoptr(json_t) network = NULL;
	double cpu;
	gint64 memory_mb;
	json_t *document;

	if (!check(request, error) || !read_size(caller, request, &cpu, &memory_mb, error))
		return NULL;
	if (!vial_templates_find_in(caller->app->templates, caller->principal->project, template_name) &&
	    !vial_custom_templates_find(caller->app, caller->principal->project, template_name))
		return vial_fail(error, VIAL_ERROR_INVALID, "there is no template \"%s\"; GET /v1/templates lists them", template_name), NULL;
	network = request->network ? vial_slots_read_network(config, request->network, error) : json_pack("{s:s}", "mode", "disabled");
	if (!network || !vial_ceiling_template(caller->app, caller->principal, template_name, error) ||
	    !vial_ceiling_network(caller->app, caller->principal, json_string_value(json_object_get(network, "mode")), error))
		return NULL;
	if (has_packages(request->packages) && strcmp(json_string_value(json_object_get(network, "mode")), "disabled") == 0)
		return vial_fail(error, VIAL_ERROR_INVALID,
		                 "packages are installed in the session's sandbox and need its network, which is disabled here: allow their registry "
		                 "in "
		                 "network, or build a template that has them"),
		       NULL;
	document = json_pack("{s:s, s:s*, s:O, s:I, s:b, s:O*, s:O*, s:O*, s:O*, s:O*, s:s*}", "template", template_name, "tier", request->tier,
	                     "network", network, "idle_seconds",
	                     (json_int_t)(request->idle_seconds == VIAL_UNSAID ? VIAL_AGENT_DEFAULT_IDLE_SECONDS : request->idle_seconds),
	                     "never_expire", request->never_expire, "languages", request->languages, "env", request->env, "metadata",
	                     request->metadata, "files", request->files, "packages", request->packages, "prompt_ref", request->prompt_ref);
	if (cpu != (double)VIAL_UNSAID)
		json_object_set_new(document, "cpu", json_real(cpu));
	if (memory_mb != VIAL_UNSAID)
		json_object_set_new(document, "memory_mb", json_integer(memory_mb));
	return document;
}

json_t *vial_agent_version_facts(const json_t *document)
{
	json_t *facts = json_copy((json_t *)document), *paths = json_array(), *file;
	gsize i;

	json_array_foreach (json_object_get(document, "files"), i, file)
		json_array_append(paths, json_object_get(file, "path"));
	json_object_del(facts, "files");
	json_object_del(facts, "env");
	vial_facts_env(facts, json_object_get(document, "env"));
	if (json_array_size(paths) > 0)
		json_object_set(facts, "paths", paths);
	json_decref(paths);
	return facts;
}
