/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One kernel per language that nobody has used yet, so that a second context, and a context whose kernel has ended, begins with a warm one.
 *
 *   none ──▶ starting ──▶ ready ──▶ taken: the context's; another is started when nothing runs
 *
 * The first come with the template. A guest that is short of memory does without, and so does one whose template was never warmed. A spare belongs to
 * the default user and stands in the usual working directory; contexts of others and elsewhere start a kernel of their own, and so does whoever comes
 * while a spare is still starting (which stops until it is quiet again: gVisor knows no priorities). User code can kill it, as it can kill its own
 * kernel; then there is none until a context has asked for one.
 *
 * Tried and left: forking them from a process that has everything imported. gVisor copies the two megabytes around each page that a fork writes to,
 * so that a fork shares next to nothing (docs/performance.md).
 */
#pragma once

#include <jansson.h>

#include "kernel.h"

/* What has to be left free while there are spares: they must not be the reason why somebody else has to go. */
#define VIAL_SPARE_ROOM_KB (64u * 1024u)

/* From now on there is one. `done` is called when it is ready, or will not be. */
void vial_spare_prepare(const struct vial_language *language, void (*done)(void *data), void *data);
/* Memory is short: they end, and come back only when a context asks. The process of one of them as the agent sees it; 0 when there were none. */
pid_t vial_spare_give_up(void);
/* Has it walk the way of a run, see vial_ctx_touch(). `done` likewise. */
void vial_spare_touch(const struct vial_language *language, void (*done)(void *data), void *data);
/*
 * The spare, ready and from now on the caller's; NULL when there is none for such a context. *out_environment is what it was started with, the
 * caller's too.
 */
struct vial_kernel *vial_spare_take(const struct vial_language *language, const struct vial_user *user, const char *cwd,
                                    const struct vial_kernel_handlers *handlers, void *data, json_t **out_environment);
