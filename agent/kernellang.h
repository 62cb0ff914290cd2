/* SPDX-License-Identifier: Apache-2.0 */
/* The languages there are kernels for, and what is different about each. */
#pragma once

#include <stdbool.h>

struct vial_language {
	const char *name;
	const char *kernel;         /* whose default context serves it: "typescript" runs in "javascript" */
	const char *const *argv;    /* the runner, started cold */
	const char *light, *warm;   /* what is added to it for that warmth */
	bool has_control;           /* descriptor 5 is a pipe of control messages; else the memory file that holds the cell */
	bool has_module;            /* descriptor 6 is native/reseed.c, compiled */
	bool is_reseeded_by_signal; /* SIGURG to its group does it; no answer comes */
};

enum vial_warmth {
	VIAL_COLD,
	VIAL_LIGHT, /* has walked the way of a run */
	VIAL_WARM,  /* and has imported what is imported most, where the language has such things */
};

/* By name or by a usual alias (py, js, node, ts, sh); NULL when there is none. */
const struct vial_language *vial_language_find(const char *name);
