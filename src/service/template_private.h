/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by template.c (what there is) and bake.c (making it ready). */
#pragma once

#include "service/template.h"

struct VialTemplates {
	char *images_dir;
	char *runtime_dir;
	char *runtime_hash;
	GPtrArray *all;
	struct VialBake *bake; /* under way, or NULL */
};

char *vial_template_checkpoint_dir(VialTemplates *templates, const VialTemplate *template);
