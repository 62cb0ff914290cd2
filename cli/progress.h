/* SPDX-License-Identifier: Apache-2.0 */
/* One line on stderr that says how a transfer is going: what, how much, how fast, how long yet. Nothing unless stderr is a terminal. */
#pragma once

#include "cli/cli.h"

typedef struct VialProgress VialProgress;

VialProgress *vial_progress_new(const VialCli *cli);
void vial_progress_free(VialProgress *progress);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(VialProgress, vial_progress_free)

/* A new item begins; `size_bytes` -1 when unknown. Totals go on over items. */
void vial_progress_begin(VialProgress *progress, const char *name, gint64 size_bytes);
void vial_progress_size(VialProgress *progress, gint64 size_bytes); /* learnt later */
void vial_progress_add(VialProgress *progress, gsize bytes);
/* Erases the line, so that other output can be printed. */
void vial_progress_hide(VialProgress *progress);

gint64 vial_progress_total(const VialProgress *progress);
double vial_progress_seconds(const VialProgress *progress);
