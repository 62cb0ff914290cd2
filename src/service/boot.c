/* SPDX-License-Identifier: Apache-2.0 */
#include "service/boot.h"

#include <errno.h>
#include <glib/gstdio.h>
#include <string.h>
#include <sys/random.h>

#include "service/layer.h"
#include "service/manifest.h"
#include "service/slots.h"
#include "util/fault.h"
#include "util/hash.h"
#include "util/log.h"
#include "util/time.h"
#include "util/worker.h"
#include "wire/wire.h"

#define HELLO_TIMEOUT_MS 30000
#define ENTROPY_BYTES 64
/* What the agent takes for its kernels to reseed if nobody tells it otherwise. */
#define RESUME_TIMEOUT_MS 5000
#define MAX_CLOCK_ERROR_US (2 * G_USEC_PER_SEC)

typedef struct {
	VialApp *app;
	VialBootSpec spec; /* with copies of what it points to */
	char *dir;
	gboolean owns_instance; /* FALSE: a failed HELLO leaves the instance to the caller */
	gboolean is_counted;    /* among the boots under way */
	VialInstance *instance;
	guint timer;
	VialBootDone done;
	gpointer data;
	/* the image's check */
	gboolean needs_deep;
	gboolean is_deep_pending;
	gboolean has_started;
	gboolean is_at_home; /* in the slot it left: its connections lead there */
	GError *image_error;
	gint64 began_us;
	gint64 hello_sent_us; /* wall clock */
} Boot;

/* Boots under way and waiting. */
static guint boots_under_way;
static GQueue waiting = G_QUEUE_INIT;

static void boot_begin(Boot *boot);

static void boot_over(Boot *boot)
{
	Boot *next;

	if (!boot->is_counted)
		return;
	boot->is_counted = FALSE;
	boots_under_way--;
	next = g_queue_pop_head(&waiting);
	if (next)
		boot_begin(next);
}

char *vial_generation_new(void)
{
	guint8 bytes[16];

	if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
		g_error("getrandom failed");
	return vial_hex_encode(bytes, sizeof bytes);
}

char *vial_host_dir(VialApp *app, const char *host_id)
{
	return g_build_filename(app->config->data_dir, "sandboxes", host_id, NULL);
}

static void boot_free(Boot *boot)
{
	g_clear_handle_id(&boot->timer, g_source_remove);
	json_decref(boot->spec.env);
	g_free((char *)boot->spec.sandbox_id);
	g_free((char *)boot->spec.host_id);
	g_free((char *)boot->spec.rootfs);
	g_free((char *)boot->spec.runtime_dir);
	g_strfreev((char **)boot->spec.layers);
	g_free((char *)boot->spec.workdir);
	g_free((char *)boot->spec.image);
	g_free((char *)boot->spec.generation);
	json_decref(boot->spec.network);
	g_free(boot->dir);
	g_clear_error(&boot->image_error);
	g_free(boot);
}

static Boot *boot_new(VialApp *app, const VialBootSpec *spec, VialBootDone done, gpointer data)
{
	Boot *boot = g_new0(Boot, 1);

	boot->app = app;
	boot->spec = *spec;
	boot->spec.sandbox_id = g_strdup(spec->sandbox_id);
	boot->spec.host_id = g_strdup(spec->host_id);
	boot->spec.rootfs = g_strdup(spec->rootfs);
	boot->spec.runtime_dir = g_strdup(spec->runtime_dir);
	boot->spec.layers = (const char *const *)g_strdupv((char **)spec->layers);
	boot->spec.workdir = g_strdup(spec->workdir);
	boot->spec.image = g_strdup(spec->image);
	boot->spec.generation = spec->generation ? g_strdup(spec->generation) : vial_generation_new();
	boot->spec.network = json_incref(spec->network);
	boot->spec.env = spec->env ? json_incref(spec->env) : json_object();
	boot->dir = vial_host_dir(app, spec->host_id);
	boot->done = done;
	boot->data = data;
	boot->began_us = g_get_monotonic_time();
	return boot;
}

/* The check of the pages may still be reading: it frees the boot when it comes back. */
static void finish(Boot *boot)
{
	boot_over(boot);
	boot->done = NULL;
	if (!boot->is_deep_pending)
		boot_free(boot);
}

static void fail(Boot *boot, const GError *error, const char *step)
{
	g_autoptr(GError) told =
		g_error_new(VIAL_ERROR, error->domain == VIAL_ERROR ? error->code : VIAL_ERROR_INTERNAL, "%s: %s", step, error->message);
	VialBootDone done = boot->done;

	g_clear_handle_id(&boot->timer, g_source_remove);
	if (boot->owns_instance) {
		if (boot->instance)
			vial_instance_stop(boot->instance);
		g_clear_pointer(&boot->instance, vial_instance_free);
		vial_sweep(boot->app, boot->spec.host_id, NULL, NULL);
	} else if (boot->instance) {
		vial_instance_set_events(boot->instance, &(VialInstanceEvents){ 0 }, NULL);
	}
	done(NULL, told, boot->data);
	finish(boot);
}

static void fail_with(Boot *boot, VialErrorCode code, const char *step, const char *message)
{
	g_autoptr(GError) error = g_error_new_literal(VIAL_ERROR, code, message);

	fail(boot, error, step);
}

/* With log_level=debug: where the time of a boot goes. */
static void mark(Boot *boot, const char *step)
{
	char spent[32];

	g_snprintf(spent, sizeof spent, "%.1f", (double)(g_get_monotonic_time() - boot->began_us) / 1000.0);
	vial_log_debug("boot", step, "host_id", boot->spec.host_id, "since_ms", spent);
}

/* HELLO */

static gboolean on_hello_timeout(gpointer data)
{
	Boot *boot = data;

	boot->timer = 0;
	fail_with(boot, VIAL_ERROR_TIMEOUT, "the sandbox did not come up", "its agent did not confirm in time");
	return G_SOURCE_REMOVE;
}

/* The guest's time must lie between our question and its answer. An agent of an older build, in a sandbox that outlived an update, has checked by
 * itself. */
static gboolean clock_fits(const Boot *boot, gint64 guest_us)
{
	if (guest_us == 0)
		return TRUE;
	return guest_us >= boot->hello_sent_us - MAX_CLOCK_ERROR_US && guest_us <= g_get_real_time() + MAX_CLOCK_ERROR_US;
}

/* Fail closed: everything must be confirmed for exactly this generation before user code may run. */
static const char *refuse_hello(const Boot *boot, const VialAgentHello *hello)
{
	if (hello->refusal)
		return hello->refusal;
	if (strcmp(hello->generation, boot->spec.generation) != 0)
		return "it confirmed another generation";
	if (hello->version != VIAL_WIRE_VERSION)
		return "it speaks another version of the protocol";
	if (!hello->has_all)
		return "it did not confirm that its entropy, clock, name and kernels are its own";
	return clock_fits(boot, hello->wall_clock_us) ? NULL : "its wall clock is more than 2 s off";
}

static void on_hello(VialInstance *instance, const VialAgentHello *hello, gpointer data)
{
	Boot *boot = data;
	const char *problem = vial_fault("boot.hello") ? "injected failure" : refuse_hello(boot, hello);
	VialBootDone done = boot->done;

	if (problem)
		return fail_with(boot, VIAL_ERROR_UNAVAILABLE, "the sandbox's agent was refused", problem);
	mark(boot, "the agent confirmed");
	g_clear_handle_id(&boot->timer, g_source_remove);
	vial_instance_set_events(instance, &(VialInstanceEvents){ 0 }, NULL);
	done(instance, NULL, boot->data);
	finish(boot);
}

static void on_ended(VialInstance *instance, const char *reason, gpointer data)
{
	fail_with(data, VIAL_ERROR_UNAVAILABLE, "the sandbox ended while it was starting", reason);
}

static void send_hello(Boot *boot)
{
	static const VialInstanceEvents events = { .hello = on_hello, .ended = on_ended };
	const VialBootSpec *spec = &boot->spec;
	guint8 entropy[ENTROPY_BYTES];
	g_autofree char *entropy_hex = NULL;
	g_autofree char *clock = NULL;
	json_t *message;

	boot->hello_sent_us = g_get_real_time();
	clock = g_strdup_printf("%" G_GINT64_FORMAT, boot->hello_sent_us * 1000);
	if (getrandom(entropy, sizeof entropy, 0) != sizeof entropy)
		g_error("getrandom failed");
	entropy_hex = vial_hex_encode(entropy, sizeof entropy);
	message = json_pack("{s:i, s:s, s:s, s:s, s:s, s:s, s:O, s:s?, s:I, s:I}", "version", VIAL_WIRE_VERSION, "generation", spec->generation,
	                    "sandbox_id", spec->sandbox_id, "hostname", spec->sandbox_id, "wall_clock_ns", clock, "entropy", entropy_hex, "env",
	                    spec->env, "nameserver", vial_slots_nameserver(boot->app->slots, spec->host_id), "memory_limit_mb",
	                    (json_int_t)spec->limits.memory_mb, "process_limit", (json_int_t)spec->limits.process_limit);
	/* What a restored guest remembers of connections leads nowhere, but it does not know. */
	if (spec->image && !boot->is_at_home)
		json_object_set_new(message, "end_connections", json_true());
	if (spec->workdir)
		json_object_set_new(message, "workdir", json_string(spec->workdir));
	if (vial_time_scale() > 1)
		json_object_set_new(message, "resume_timeout_ms", json_integer(vial_time_scaled_ms(RESUME_TIMEOUT_MS)));
	vial_instance_set_events(boot->instance, &events, boot);
	boot->timer = vial_time_add_deadline(HELLO_TIMEOUT_MS, on_hello_timeout, boot);
	vial_channel_send_hello(vial_instance_channel(boot->instance), message);
}

void vial_boot_hello(VialApp *app, VialInstance *instance, const VialBootSpec *spec, VialBootDone done, gpointer data)
{
	Boot *boot = boot_new(app, spec, done, data);

	boot->instance = instance;
	send_hello(boot);
}

/* Starting */

static void on_network(const GError *error, gpointer data)
{
	Boot *boot = data;

	if (error)
		return fail(boot, error, "the sandbox's network could not be set up");
	if (boot->is_at_home)
		vial_slots_reopen(boot->app->slots, boot->spec.host_id);
	send_hello(boot);
}

static void on_limited(const GError *error, gpointer data)
{
	Boot *boot = data;

	if (error)
		return fail(boot, error, "the sandbox could not be limited");
	vial_slots_set_policy(boot->app->slots, boot->spec.host_id, boot->spec.network, on_network, boot);
}

/* Limits and network are in force before its agent may run anything of the user's. */
static void confine(Boot *boot)
{
	vial_engine_limit(boot->app->engine, boot->spec.host_id, &boot->spec.limits, on_limited, boot);
}

/* User code may run once the guest has started and its image is known to be ours: whichever comes second goes on. */
static void go_on(Boot *boot)
{
	g_autoptr(GError) error = NULL;

	if (!boot->has_started || boot->is_deep_pending)
		return;
	if (boot->image_error) {
		error = g_steal_pointer(&boot->image_error);
		return fail(boot, error, "the sandbox was not restored");
	}
	confine(boot);
}

static void deep_work(gpointer data)
{
	Boot *boot = data;

	vial_manifest_check_deep(boot->app->manifests, boot->spec.image, &boot->image_error);
}

static void deep_done(gpointer data)
{
	Boot *boot = data;

	boot->is_deep_pending = FALSE;
	if (!boot->done) /* it failed meanwhile for another reason */
		boot_free(boot);
	else
		go_on(boot);
}

static void on_started(json_t *result, const GError *error, gpointer data)
{
	Boot *boot = data;

	if (error)
		return fail(boot, error, "the sandbox did not start");
	boot->has_started = TRUE;
	mark(boot, "the guest was started");
	go_on(boot);
}

static void start(Boot *boot, VialInstance *instance)
{
	g_autoptr(GError) error = NULL;
	int tap_fd = -1;

	boot->instance = instance;
	if (boot->app->engine->ops->uses_tap && (tap_fd = vial_slots_open_tap(boot->app->slots, boot->spec.host_id, &error)) < 0)
		return fail(boot, error, "the sandbox has no network");
	if (boot->needs_deep) {
		boot->is_deep_pending = TRUE;
		vial_worker_run_in(VIAL_LANE_BOOT, deep_work, deep_done, boot);
	}
	vial_instance_start(instance, boot->spec.image, tap_fd, boot->spec.records_hot, on_started, boot);
}

static void on_launched(VialInstance *instance, GError *error, gpointer data)
{
	Boot *boot = data;

	if (error)
		return fail(boot, error, "the sandbox could not be made");
	mark(boot, "the host process is up");
	if (!boot->spec.is_forked)
		return start(boot, instance);
	boot->instance = instance;
	boot->has_started = TRUE;
	go_on(boot);
}

static void launch(Boot *boot)
{
	VialLaunch spec = {
		.id = boot->spec.host_id,
		.dir = boot->dir,
		.rootfs = boot->spec.rootfs,
		.runtime_dir = boot->spec.runtime_dir,
		.is_layered = boot->spec.is_layered || (boot->spec.layers && *boot->spec.layers),
		.limits = boot->spec.limits,
		.net = vial_slots_guest_net(),
	};
	g_auto(GStrv) layers = NULL;
	g_autoptr(GError) error = NULL;

	if (boot->instance)
		return start(boot, boot->instance);
	if (boot->spec.is_forked)
		return vial_instance_adopt(boot->app->engine, spec.id, spec.dir, on_launched, boot);
	if (!vial_layers_resolve(boot->app, boot->spec.layers, &layers, &error))
		return fail(boot, error, "the sandbox has not all of its template");
	spec.layers = (const char *const *)layers;
	boot->is_at_home = boot->spec.is_resumed && vial_slots_unpark(boot->app->slots, boot->spec.sandbox_id, boot->spec.host_id, &spec.netns);
	if (!boot->is_at_home && !vial_slots_acquire(boot->app->slots, boot->spec.host_id, &spec.netns, &error))
		return fail(boot, error, "the sandbox has no network");
	if (g_mkdir_with_parents(boot->dir, 0700) < 0 || vial_fault("boot.launch"))
		return fail_with(boot, errno == ENOSPC ? VIAL_ERROR_NO_SPACE : VIAL_ERROR_INTERNAL, "its folder could not be made",
		                 g_strerror(errno));
	vial_instance_launch(boot->app->engine, &spec, on_launched, boot);
}

static void check_work(gpointer data)
{
	Boot *boot = data;

	vial_manifest_check(boot->app->manifests, boot->spec.image, &boot->needs_deep, NULL, &boot->image_error);
}

static void check_done(gpointer data)
{
	Boot *boot = data;
	g_autoptr(GError) error = g_steal_pointer(&boot->image_error);

	if (error)
		return fail(boot, error, "the sandbox was not restored");
	launch(boot);
}

static void boot_begin(Boot *boot)
{
	boot->is_counted = TRUE;
	boots_under_way++;
	if (boot->spec.image && !boot->spec.is_trusted)
		vial_worker_run_in(VIAL_LANE_BOOT, check_work, check_done, boot);
	else
		launch(boot);
}

void vial_boot(VialApp *app, const VialBootSpec *spec, VialBootDone done, gpointer data)
{
	Boot *boot = boot_new(app, spec, done, data);

	boot->owns_instance = TRUE;
	boot->instance = spec->blank;
	/* A fork has nothing to load and lives in its parent's place until it is reached. */
	if (spec->is_forked || boots_under_way < g_get_num_processors())
		boot_begin(boot);
	else
		g_queue_push_tail(&waiting, boot);
}
