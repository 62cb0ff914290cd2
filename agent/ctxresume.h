/* SPDX-License-Identifier: Apache-2.0 */
/* After a resume every kernel renews its random state, before the HELLO is confirmed. */
#pragma once

#include "ops.h"

struct vial_ctx;

vial_resume_fn vial_ctx_resume;
/* From a kernel: it has, all of it or in part; one that has not is ended. */
void vial_ctx_reseeded(struct vial_ctx *ctx, unsigned number, bool is_complete);
/* The kernel that we waited for is gone, which is as good. */
void vial_ctx_resumed(struct vial_ctx *ctx);
