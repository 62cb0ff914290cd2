/* SPDX-License-Identifier: Apache-2.0 */
/* The limits of running sandboxes: what is in force, and a change's way into the kernel by VIAL_LANE_LIMIT. Main thread. */
#include <string.h>

#include "engine/engine.h"
#include "util/worker.h"

typedef struct {
	VialEngine *engine;
	char *id;
	VialLimits limits;
	VialEngineDone done;
	gpointer data;
	GError *error;
} Limiting;

static gboolean is_same(const VialLimits *a, const VialLimits *b)
{
	return a->cpu == b->cpu && a->memory_mb == b->memory_mb && a->disk_mb == b->disk_mb && a->process_limit == b->process_limit;
}

static void limit_work(gpointer data)
{
	Limiting *limiting = data;

	limiting->engine->ops->limit(limiting->engine, limiting->id, &limiting->limits, &limiting->error);
}

static void limit_done(gpointer data)
{
	Limiting *limiting = data;

	if (!limiting->error)
		g_hash_table_replace(limiting->engine->limited, g_strdup(limiting->id), g_memdup2(&limiting->limits, sizeof limiting->limits));
	limiting->done(limiting->error, limiting->data);
	g_clear_error(&limiting->error);
	g_free(limiting->id);
	g_free(limiting);
}

void vial_engine_limit(VialEngine *engine, const char *id, const VialLimits *limits, VialEngineDone done, gpointer data)
{
	const VialLimits *known;
	Limiting *limiting;

	if (!engine->limited)
		engine->limited = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
	known = g_hash_table_lookup(engine->limited, id);
	if (known && is_same(known, limits)) {
		done(NULL, data);
		return;
	}
	/* Until the new ones are known to be in force nothing is. */
	g_hash_table_remove(engine->limited, id);
	limiting = g_new0(Limiting, 1);
	*limiting = (Limiting){ .engine = engine, .id = g_strdup(id), .limits = *limits, .done = done, .data = data };
	vial_worker_run_in(VIAL_LANE_LIMIT, limit_work, limit_done, limiting);
}

void vial_engine_forget(VialEngine *engine, const char *id)
{
	if (engine->limited)
		g_hash_table_remove(engine->limited, id);
}
