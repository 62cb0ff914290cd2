/* SPDX-License-Identifier: Apache-2.0 */
/* Asks our monitor whether this host's KVM is good enough. It runs a small real guest: a /dev/kvm that merely opens proves nothing. */
#include <unistd.h>

#include "engine/engine.h"

json_t *vial_microvm_probe(const char *program_dir, GError **error)
{
	g_autofree char *program = g_build_filename(program_dir, "vial-vmm", NULL), *output = NULL;
	char *arguments[] = { program, "--probe", NULL };
	json_t *report;

	if (access("/dev/kvm", F_OK) < 0) {
		vial_fail(error, VIAL_ERROR_UNAVAILABLE, "this host has no /dev/kvm");
		return NULL;
	}
	if (access(program, X_OK) < 0) {
		vial_fail(error, VIAL_ERROR_UNAVAILABLE, "this build has no microVM monitor");
		return NULL;
	}
	if (!g_spawn_sync(NULL, arguments, NULL, G_SPAWN_STDERR_TO_DEV_NULL, NULL, NULL, &output, NULL, NULL, NULL) ||
	    !(report = json_loads(output, 0, NULL))) {
		vial_fail(error, VIAL_ERROR_UNAVAILABLE, "the microVM probe did not answer");
		return NULL;
	}
	return report;
}
