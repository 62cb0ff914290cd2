/* SPDX-License-Identifier: Apache-2.0 */
/*
 * After a resume every kernel in which somebody's code has run renews its random state before the HELLO is confirmed. Kernels that came
 * with the template and were never used renew it before their first run instead: they draw nothing until then, and a sandbox does not wait
 * for languages that it may never use.
 */
#pragma once

#include "ops.h"

struct vial_ctx;

vial_resume_fn vial_ctx_resume;
/* From a kernel: it has, all of it or in part; one that has not is ended. */
void vial_ctx_reseeded(struct vial_ctx *ctx, unsigned number, bool is_complete);
/* Renews what an unused kernel owes; vial_ctx_next() comes after it. */
void vial_ctx_reseed_first(struct vial_ctx *ctx);
/* The kernel that we waited for is gone, which is as good. */
void vial_ctx_resumed(struct vial_ctx *ctx);
