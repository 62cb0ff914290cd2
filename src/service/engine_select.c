/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine_select.h"

#include <string.h>

#include "util/error.h"
#include "util/json.h"

void vial_microvm_check_clear(VialMicrovmCheck *check)
{
	json_decref(check->report);
	g_free(check->problem);
	g_free(check->reason);
}

/* The processor first, then what must be there to boot. */
void vial_microvm_check(const VialConfig *config, VialMicrovmCheck *out)
{
	g_autoptr(GError) error = NULL;
	g_autofree char *kernel = NULL, *builder = NULL;
	const char *reason;

	*out = (VialMicrovmCheck){ .report = vial_microvm_probe(config->program_dir, &error) };
	reason = json_string_value(json_object_get(out->report, "reason"));
	if (!out->report)
		out->problem = g_strdup(error->message);
	else if (!json_is_true(json_object_get(out->report, "works")))
		out->problem = g_strdup(reason ? reason : "the microVM probe failed");
	else if (!(kernel = vial_microvm_kernel(config->images_dir, &error)) || !(builder = vial_microvm_disk_builder(config->program_dir, &error)))
		out->problem = g_strdup(error->message);
	out->is_fast = !out->problem && json_is_true(json_object_get(out->report, "usable"));
	out->reason = g_strdup(out->problem ? out->problem : reason ? reason : "it works");
}

static VialEngine *start_microvm(const VialConfig *config, const char *tag, const VialMicrovmCheck *check, GError **error)
{
	if (!check->problem)
		return vial_microvm_new(config->program_dir, config->images_dir, check->report, tag, error);
	vial_fail(error, VIAL_ERROR_UNAVAILABLE, "engine=microvm cannot be used here: %s", check->problem);
	return NULL;
}

VialEngine *vial_engine_select(const VialConfig *config, const char *tag, char **out_reason, GError **error)
{
	g_autofree char *run_dir = g_build_filename(config->run_dir, tag, NULL);
	g_auto(VialMicrovmCheck) check = { 0 };
	g_auto(VialRunsc) runsc = { 0 };
	VialEngine *engine;

	if (strcmp(config->engine, "gvisor") != 0)
		vial_microvm_check(config, &check);
	if (strcmp(config->engine, "microvm") == 0 || check.is_fast) {
		engine = start_microvm(config, tag, &check, error);
		if (engine)
			*out_reason = strcmp(config->engine, "microvm") == 0 ? g_strdup("microvm, because the configuration says so")
			                                                     : g_strdup_printf("microvm, because %s", check.reason);
		return engine;
	}
	if (!vial_runsc_find(config->runsc, config->data_dir, &runsc, error) ||
	    !(engine = vial_gvisor_new(&runsc, config->program_dir, run_dir, tag, error)))
		return NULL;
	if (strcmp(config->engine, "gvisor") == 0)
		*out_reason = g_strdup("gvisor, because the configuration says so");
	else
		*out_reason = g_strdup_printf("gvisor, because the microVM engine cannot be used: %s", check.reason);
	return engine;
}
