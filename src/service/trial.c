/* SPDX-License-Identifier: Apache-2.0 */
#include "service/trial.h"

#include <glib/gstdio.h>

#include "util/id.h"
#include "util/log.h"
#include "util/time.h"

#define USE_TIMEOUT_MS 20000

typedef struct {
	VialApp *app;
	char *id;
	char *image;
	VialInstance *instance;
	void (*done)(gpointer data);
	gpointer data;
} Trial;

static void on_swept(const char *reason, gpointer data)
{
	Trial *trial = data;

	trial->done(trial->data);
	g_free(trial->id);
	g_free(trial->image);
	g_free(trial);
}

static void leave(Trial *trial, const GError *error)
{
	g_autofree char *list = g_build_filename(trial->image, VIAL_HOT_FILE, NULL);

	if (error) {
		vial_log_warning("template", "restores will be slower: what they touch first was not recorded", "error", error->message);
		g_unlink(list);
	}
	if (trial->instance)
		vial_instance_stop(trial->instance);
	g_clear_pointer(&trial->instance, vial_instance_free);
	vial_sweep(trial->app, trial->id, on_swept, trial);
}

static void on_recorded(json_t *result, const GError *error, gpointer data)
{
	leave(data, error);
}

/* Whatever came of the command: the memory for getting there was touched. */
static void on_used(json_t *result, const GError *error, gpointer data)
{
	Trial *trial = data;

	vial_instance_record_hot(trial->instance, trial->image, on_recorded, trial);
}

static void on_booted(VialInstance *instance, const GError *error, gpointer data)
{
	Trial *trial = data;

	if (error)
		return leave(trial, error);
	trial->instance = instance;
	vial_instance_set_events(instance, &(VialInstanceEvents){ 0 }, NULL);
	vial_channel_call(vial_instance_channel(instance), json_pack("{s:s, s:s}", "op", "exec", "cmd", "true"), vial_time_scaled_ms(USE_TIMEOUT_MS),
	                  on_used, trial);
}

void vial_trial(VialApp *app, const VialBootSpec *spec, void (*done)(gpointer data), gpointer data)
{
	VialBootSpec restored = *spec;
	Trial *trial;

	if (!app->engine->ops->records_hot)
		return done(data);
	trial = g_new0(Trial, 1);
	*trial = (Trial){ .app = app, .id = vial_id_new(), .image = g_strdup(spec->image), .done = done, .data = data };
	restored.sandbox_id = restored.host_id = trial->id;
	restored.is_trusted = restored.records_hot = TRUE;
	vial_boot(app, &restored, on_booted, trial);
}
