/* SPDX-License-Identifier: Apache-2.0 */
/* See kernellang.h. The runners are guest/kernels/, which the host mounts beside the agent. */
#include "kernellang.h"

#include <stddef.h>
#include <string.h>

#define KERNELS "/opt/vial/kernels/"

static const char *const python_argv[] = { "/usr/bin/python3", KERNELS "python/run.py", NULL };
/* The first flag: an interrupted callback leaves Node's bookkeeping unbalanced, which is fatal otherwise. The second: see
 * collect.js. The third: we use one of vm's experimental constants, and the user has nothing to do with it. */
static const char *const javascript_argv[] = { "/usr/bin/node",
	                                       "--no-force-async-hooks-checks",
	                                       "--no-memory-reducer",
	                                       "--disable-warning=ExperimentalWarning",
	                                       KERNELS "javascript/main.js",
	                                       NULL };
static const char *const bash_argv[] = { "/bin/bash", KERNELS "bash/run.sh", NULL };

static const struct vial_language languages[] = {
	{ .name = "python", .kernel = "python", .argv = python_argv, .light = "--light", .warm = "--warm", .has_control = true },
	{ .name = "javascript",
	  .kernel = "javascript",
	  .argv = javascript_argv,
	  .light = "--warm",
	  .warm = "--warm",
	  .has_control = true,
	  .has_module = true },
	{ .name = "typescript",
	  .kernel = "javascript",
	  .argv = javascript_argv,
	  .light = "--warm",
	  .warm = "--warm",
	  .has_control = true,
	  .has_module = true },
	{ .name = "bash", .kernel = "bash", .argv = bash_argv, .is_reseeded_by_signal = true },
};

static const struct {
	const char *alias, *name;
} aliases[] = {
	{ "py", "python" },         { "python3", "python" }, { "ipython", "python" }, { "js", "javascript" }, { "node", "javascript" },
	{ "nodejs", "javascript" }, { "ts", "typescript" },  { "sh", "bash" },        { "shell", "bash" },
};

const struct vial_language *vial_language_find(const char *name)
{
	for (size_t i = 0; i < sizeof(aliases) / sizeof(*aliases); i++) {
		if (strcmp(aliases[i].alias, name) == 0)
			name = aliases[i].name;
	}
	for (size_t i = 0; i < sizeof(languages) / sizeof(*languages); i++) {
		if (strcmp(languages[i].name, name) == 0)
			return &languages[i];
	}
	return NULL;
}
