/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long the record of calls is kept (call_log_days). What is older is forgotten at start and from then on every hour, a few hundred calls at a
 * time with a pause in between, so that a record of years holds up no sandbox that is being made meanwhile. Main thread.
 */
#pragma once

#include "store/store.h"

#define VIAL_CALL_LOG_INTERVAL_MS (3600 * 1000)

typedef struct VialCallLog VialCallLog;

/* `days` 0: everything is kept. */
VialCallLog *vial_call_log_new(VialStore *store, gint64 days, guint interval_ms);
/* When the main loop runs no more, or nothing of it is under way. */
void vial_call_log_free(VialCallLog *log); /* accepts NULL */
