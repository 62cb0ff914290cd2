/* SPDX-License-Identifier: Apache-2.0 */
#include "service/boot.h"

#include <errno.h>
#include <glib/gstdio.h>
#include <string.h>
#include <sys/random.h>

#include "service/template.h"
#include "util/hash.h"
#include "util/log.h"
#include "util/tree.h"
#include "util/worker.h"
#include "wire/wire.h"

#define HELLO_TIMEOUT_MS 30000
#define ENTROPY_BYTES 64

typedef struct {
	VialApp *app;
	char *id;
	char *dir;
	char *image;
	VialLimits limits;
	json_t *env;
	gboolean keep_dir;
	gboolean owns_instance; /* FALSE: a failed HELLO leaves the instance to the caller */
	VialInstance *instance;
	char *generation;
	guint timer;
	VialBootDone done;
	gpointer data;
} Boot;

char *vial_generation_new(void)
{
	guint8 bytes[16];

	if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
		g_error("getrandom failed");
	return vial_hex_encode(bytes, sizeof bytes);
}

static void boot_free(Boot *boot)
{
	g_clear_handle_id(&boot->timer, g_source_remove);
	json_decref(boot->env);
	g_free(boot->id);
	g_free(boot->dir);
	g_free(boot->image);
	g_free(boot->generation);
	g_free(boot);
}

static void swept_after_failure(const char *reason, gpointer data)
{
}

static void fail(Boot *boot, const GError *error, const char *step)
{
	g_autoptr(GError) told = g_error_new(VIAL_ERROR, error->domain == VIAL_ERROR ? error->code : VIAL_ERROR_INTERNAL, "%s: %s",
	                                     step, error->message);

	if (boot->owns_instance) {
		if (boot->instance)
			vial_instance_stop(boot->instance);
		vial_instance_free(boot->instance);
		vial_sweep(boot->app, boot->id, boot->dir, !boot->keep_dir, swept_after_failure, NULL);
	} else if (boot->instance) {
		vial_instance_set_events(boot->instance, &(VialInstanceEvents){ 0 }, NULL);
	}
	boot->done(NULL, told, boot->data);
	boot_free(boot);
}

static void fail_with(Boot *boot, VialErrorCode code, const char *step, const char *message)
{
	g_autoptr(GError) error = g_error_new_literal(VIAL_ERROR, code, message);

	fail(boot, error, step);
}

static gboolean on_hello_timeout(gpointer data)
{
	Boot *boot = data;

	boot->timer = 0;
	fail_with(boot, VIAL_ERROR_TIMEOUT, "the sandbox did not come up", "its agent did not confirm in time");
	return G_SOURCE_REMOVE;
}

static gboolean list_has(json_t *list, const char *word)
{
	size_t index;
	json_t *item;

	json_array_foreach (list, index, item)
		if (json_is_string(item) && strcmp(json_string_value(item), word) == 0)
			return TRUE;
	return FALSE;
}

/* Fail closed: every one of these must be confirmed for exactly this generation before user code may run. */
static const char *refuse_hello(const Boot *boot, json_t *message)
{
	static const char *const needed[] = { "entropy", "clock", "hostname", "kernels" };
	const char *generation = json_string_value(json_object_get(message, "generation"));
	const char *problem = json_string_value(json_object_get(message, "error"));
	json_t *confirmed = json_object_get(message, "confirmed");

	if (problem)
		return problem;
	if (!generation || strcmp(generation, boot->generation) != 0)
		return "it confirmed another generation";
	if (json_integer_value(json_object_get(message, "version")) != VIAL_WIRE_VERSION)
		return "it speaks another version of the protocol";
	for (gsize i = 0; i < G_N_ELEMENTS(needed); i++)
		if (!list_has(confirmed, needed[i]))
			return "it did not confirm that its entropy, clock, name and kernels are its own";
	return NULL;
}

static void on_hello(VialInstance *instance, json_t *message, gpointer data)
{
	Boot *boot = data;
	const char *problem = refuse_hello(boot, message);

	if (problem)
		return fail_with(boot, VIAL_ERROR_UNAVAILABLE, "the sandbox's agent was refused", problem);
	vial_instance_set_events(instance, &(VialInstanceEvents){ 0 }, NULL);
	boot->done(instance, NULL, boot->data);
	boot_free(boot);
}

static void on_ended(VialInstance *instance, const char *reason, gpointer data)
{
	fail_with(data, VIAL_ERROR_UNAVAILABLE, "the sandbox ended while it was starting", reason);
}

static void send_hello(Boot *boot)
{
	static const VialInstanceEvents events = { .hello = on_hello, .ended = on_ended };
	guint8 entropy[ENTROPY_BYTES];
	g_autofree char *entropy_hex = NULL;
	g_autofree char *clock = g_strdup_printf("%" G_GINT64_FORMAT, g_get_real_time() * 1000);
	json_t *message;

	if (getrandom(entropy, sizeof entropy, 0) != sizeof entropy)
		g_error("getrandom failed");
	entropy_hex = vial_hex_encode(entropy, sizeof entropy);
	boot->generation = vial_generation_new();
	message = json_pack("{s:i, s:s, s:s, s:s, s:s, s:s, s:O, s:I, s:I}", "version", VIAL_WIRE_VERSION, "generation",
	                    boot->generation, "sandbox_id", boot->id, "hostname", boot->id, "wall_clock_ns", clock, "entropy",
	                    entropy_hex, "env", boot->env, "memory_limit_mb", (json_int_t)boot->limits.memory_mb, "process_limit",
	                    (json_int_t)boot->limits.process_limit);
	vial_instance_set_events(boot->instance, &events, boot);
	boot->timer = g_timeout_add(HELLO_TIMEOUT_MS, on_hello_timeout, boot);
	vial_channel_send_hello(vial_instance_channel(boot->instance), message);
}

static void on_started(json_t *result, const GError *error, gpointer data)
{
	Boot *boot = data;
	g_autoptr(GError) limit_error = NULL;

	if (error)
		return fail(boot, error, "the sandbox did not start");
	if (!boot->app->engine->ops->limit(boot->app->engine, boot->id, &boot->limits, &limit_error))
		return fail(boot, limit_error, "the sandbox could not be limited");
	send_hello(boot);
}

static void on_launched(VialInstance *instance, GError *error, gpointer data)
{
	Boot *boot = data;

	if (error)
		return fail(boot, error, "the sandbox could not be made");
	boot->instance = instance;
	vial_instance_start(instance, boot->image, on_started, boot);
}

static Boot *boot_new(VialApp *app, const VialBootSpec *spec, VialBootDone done, gpointer data)
{
	Boot *boot = g_new0(Boot, 1);

	boot->app = app;
	boot->id = g_strdup(spec->id);
	boot->dir = g_strdup(spec->dir);
	boot->image = g_strdup(spec->image);
	boot->limits = spec->limits;
	boot->env = spec->env ? json_incref(spec->env) : json_object();
	boot->keep_dir = spec->keep_dir;
	boot->owns_instance = TRUE;
	boot->done = done;
	boot->data = data;
	return boot;
}

void vial_boot(VialApp *app, const VialBootSpec *spec, VialBootDone done, gpointer data)
{
	Boot *boot = boot_new(app, spec, done, data);
	VialLaunch launch = {
		.id = spec->id,
		.dir = spec->dir,
		.rootfs = spec->rootfs,
		.runtime_dir = vial_templates_runtime_dir(app->templates),
		.limits = spec->limits,
		.netns = spec->netns,
	};

	if (g_mkdir_with_parents(spec->dir, 0700) < 0) {
		fail_with(boot, errno == ENOSPC ? VIAL_ERROR_NO_SPACE : VIAL_ERROR_INTERNAL, "its folder could not be made", g_strerror(errno));
		return;
	}
	vial_instance_launch(app->engine, &launch, on_launched, boot);
}

void vial_boot_hello(VialApp *app, VialInstance *instance, const VialBootSpec *spec, VialBootDone done, gpointer data)
{
	Boot *boot = boot_new(app, spec, done, data);

	boot->instance = instance;
	boot->owns_instance = FALSE;
	send_hello(boot);
}

/* Sweeping up */

typedef struct {
	VialApp *app;
	char *id;
	char *dir;
	gboolean remove_dir;
	char *reason;
	VialSweptDone done;
	gpointer data;
} Sweep;

static void sweep_work(gpointer data)
{
	Sweep *sweep = data;

	sweep->reason = sweep->app->engine->ops->cleanup(sweep->app->engine, sweep->id, sweep->dir);
	if (sweep->remove_dir)
		vial_tree_remove(sweep->dir);
}

static void sweep_done(gpointer data)
{
	Sweep *sweep = data;

	if (sweep->done)
		sweep->done(sweep->reason, sweep->data);
	g_free(sweep->id);
	g_free(sweep->dir);
	g_free(sweep->reason);
	g_free(sweep);
}

void vial_sweep(VialApp *app, const char *id, const char *dir, gboolean remove_dir, VialSweptDone done, gpointer data)
{
	Sweep *sweep = g_new0(Sweep, 1);

	sweep->app = app;
	sweep->id = g_strdup(id);
	sweep->dir = g_strdup(dir);
	sweep->remove_dir = remove_dir;
	sweep->done = done;
	sweep->data = data;
	vial_worker_run(sweep_work, sweep_done, sweep);
}
