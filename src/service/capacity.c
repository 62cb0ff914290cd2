/* SPDX-License-Identifier: Apache-2.0 */
#include "service/capacity.h"

#include "service/quota.h"
#include "service/sandbox_private.h"
#include "util/fault.h"
#include "util/memory.h"

#define MIB (1024 * 1024)
#define RETRY_SECONDS 5

/* 0: unknown. */
static gint64 host_memory_mb(void)
{
	VialMemory memory;

	return vial_fault_measure("host.memory_mb", vial_memory_read("", &memory) ? memory.total_bytes / MIB : 0);
}

gboolean vial_capacity_possible(VialApp *app, const VialLimits *limits, GError **error)
{
	gint64 memory_mb = host_memory_mb(), processors = vial_fault_measure("host.processors", (gint64)g_get_num_processors());
	gint64 percent = app->config->memory_overcommit_percent;
	double most = (double)processors * (double)app->config->max_cpu_percent / 100;

	if (limits->cpu > most)
		return vial_fail(error, VIAL_ERROR_INVALID,
		                 "this host has %" G_GINT64_FORMAT " processors and gives one sandbox at most %g (max_cpu_percent), so it can never "
		                 "give %g",
		                 processors, most, limits->cpu);
	if (memory_mb > 0 && limits->memory_mb > memory_mb)
		return vial_fail(error, VIAL_ERROR_INVALID,
		                 "this host has %" G_GINT64_FORMAT " MB of memory, so it can never give a sandbox %" G_GINT64_FORMAT, memory_mb,
		                 limits->memory_mb);
	if (memory_mb > 0 && percent > 0 && limits->memory_mb > memory_mb * percent / 100)
		return vial_fail(error, VIAL_ERROR_INVALID,
		                 "this host promises its sandboxes at most %" G_GINT64_FORMAT
		                 " MB of memory (memory_overcommit_percent), so it can never give one %" G_GINT64_FORMAT,
		                 memory_mb * percent / 100, limits->memory_mb);
	return TRUE;
}

gboolean vial_capacity_admit(VialSandbox *sandbox, guint count, GError **error)
{
	VialApp *app = sandbox->app;
	gint64 percent = app->config->memory_overcommit_percent, asked = (gint64)count * sandbox->limits.memory_mb, most, there;

	if (!vial_capacity_possible(app, &sandbox->limits, error))
		return FALSE;
	if (percent == 0 || host_memory_mb() == 0)
		return TRUE;
	most = host_memory_mb() * percent / 100;
	there = vial_quota_awake_memory_mb(app) - (sandbox->state == VIAL_STATE_CREATING ? sandbox->limits.memory_mb : 0);
	if (there + asked <= most)
		return TRUE;
	return vial_fail_with(error, VIAL_ERROR_UNAVAILABLE, json_pack("{s:i}", "retry_after", RETRY_SECONDS),
	                      "sandboxes that are awake were promised %" G_GINT64_FORMAT " MB of memory and may be promised %" G_GINT64_FORMAT
	                      " (memory_overcommit_percent), so there is no room for %" G_GINT64_FORMAT " MB more now",
	                      there, most, asked);
}
