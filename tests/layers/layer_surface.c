/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A surface for the tests of layers: one JSON object on a line of a unix socket, one in answer. It drives what a build is made of and nothing else,
 * so that each step can be watched and made to fail by itself.
 *
 *   {"do": "make", "base" or "from" (a record), "name", "project"?, "cmd", "env"?, "workdir"?, "warm"?, "max_bytes"?}    → {"layer", "size",
 * "record"}
 *   {"do": "put", "record"}                                                                         → {"hash", "checkpoint"}
 *   {"do": "drop", "name", "project"?}                                                              → {}
 *   {"do": "used", "layer"}                                                                         → {"used"}
 *
 * "make" boots a guest of the base, runs `cmd` in it as root and takes its layer; "put" bakes the template of that record and puts it into the list.
 * What fails is answered with {"error"}.
 */
#include <gio/gio.h>
#include <gio/gunixsocketaddress.h>
#include <glib/gstdio.h>
#include <stdio.h>
#include <string.h>

#include "daemon.h"
#include "service/boot.h"
#include "service/layer.h"
#include "service/template.h"
#include "util/error.h"
#include "util/id.h"
#include "util/json.h"
#include "util/time.h"

#define COMMAND_TIMEOUT_MS 300000

typedef struct {
	VialApp *app;
	GSocketService *service;
} Surface;

typedef struct {
	VialApp *app;
	GSocketConnection *connection;
	GDataInputStream *input;
	json_t *request;
	char *host_id;
	VialInstance *instance;
	VialTemplate *template;
	VialTemplate *base; /* of a record; NULL: one of the list */
} Task;

static const char *text(const Task *task, const char *name)
{
	return json_string_value(json_object_get(task->request, name));
}

static void answer(Task *task, json_t *object)
{
	g_autofree char *line = json_dumps(object, JSON_COMPACT);
	g_autofree char *whole = g_strconcat(line, "\n", NULL);

	g_output_stream_write_all(g_io_stream_get_output_stream(G_IO_STREAM(task->connection)), whole, strlen(whole), NULL, NULL, NULL);
	json_decref(object);
	if (task->instance) {
		vial_instance_stop(task->instance);
		vial_instance_free(task->instance);
		vial_sweep(task->app, task->host_id, NULL, NULL);
	}
	vial_template_free(task->template);
	vial_template_free(task->base);
	json_decref(task->request);
	g_free(task->host_id);
	g_object_unref(task->input);
	g_object_unref(task->connection);
	g_free(task);
}

static void refuse(Task *task, const char *problem)
{
	answer(task, json_pack("{s:s}", "error", problem));
}

static void on_taken(const char *hash, gint64 size_bytes, const GError *error, gpointer data)
{
	Task *task = data;
	json_t *record;
	char **layers;
	guint count;

	if (error)
		return refuse(task, error->message);
	count = task->template->layers ? g_strv_length(task->template->layers) : 0;
	layers = g_new0(char *, count + 2);
	for (guint i = 0; i < count; i++)
		layers[i] = g_strdup(task->template->layers[i]);
	layers[count] = g_strdup(hash);
	g_strfreev(task->template->layers);
	task->template->layers = layers;
	record = vial_template_to_record(task->app, task->template);
	answer(task, json_pack("{s:s, s:I, s:o}", "layer", hash, "size", (json_int_t)size_bytes, "record", record));
}

static void on_run(json_t *result, const GError *error, gpointer data)
{
	Task *task = data;
	g_autofree char *dir = vial_layers_dir(task->app);

	if (error)
		return refuse(task, error->message);
	if (json_integer_value(json_object_get(result, "exit_code")) != 0)
		return refuse(task, "the command failed");
	vial_layer_take(task->app, task->instance, dir, json_integer_value(json_object_get(task->request, "max_bytes")), on_taken, task);
}

static void on_booted(VialInstance *instance, const GError *error, gpointer data)
{
	Task *task = data;

	if (error)
		return refuse(task, error->message);
	task->instance = instance;
	vial_instance_set_events(instance, &(VialInstanceEvents){ 0 }, NULL);
	vial_channel_call(vial_instance_channel(instance), json_pack("{s:s, s:s, s:s}", "op", "exec", "cmd", text(task, "cmd"), "user", "root"),
	                  COMMAND_TIMEOUT_MS, on_run, task);
}

static void make(Task *task)
{
	json_t *record = json_object_get(task->request, "from");
	const VialTemplate *base;
	VialBootSpec spec = { .is_layered = TRUE };

	task->base = record ? vial_template_from_record(task->app, record, NULL) : NULL;
	base = record ? task->base : vial_templates_find_in(task->app->templates, text(task, "project"), text(task, "base"));
	if (!base)
		return refuse(task, "there is no such base");
	task->template = vial_template_derive(base);
	task->template->name = g_strdup(text(task, "name"));
	task->template->project = g_strdup(text(task, "project"));
	task->template->folder = vial_id_new();
	if (json_object_get(task->request, "env"))
		task->template->env = json_incref(json_object_get(task->request, "env"));
	if (text(task, "workdir"))
		task->template->workdir = g_strdup(text(task, "workdir"));
	task->template->warm = g_strdup(text(task, "warm"));
	task->host_id = vial_id_new();
	spec.sandbox_id = spec.host_id = task->host_id;
	spec.rootfs = base->rootfs;
	spec.runtime_dir = vial_templates_runtime_dir(task->app->templates);
	spec.layers = (const char *const *)base->layers;
	spec.limits = base->limits;
	vial_boot(task->app, &spec, on_booted, task);
}

static void on_ready(VialTemplate *template, const GError *error, gpointer data)
{
	Task *task = data;
	json_t *told;

	if (error)
		return refuse(task, error->message);
	told = json_pack("{s:s, s:s}", "hash", template->hash, "checkpoint", template->checkpoint);
	vial_templates_put(task->app, g_steal_pointer(&task->template));
	answer(task, told);
}

static void put(Task *task)
{
	g_autoptr(GError) error = NULL;

	task->template = vial_template_from_record(task->app, json_object_get(task->request, "record"), &error);
	if (!task->template)
		return refuse(task, error->message);
	vial_template_make_ready(task->app, task->template, NULL, 0, on_ready, task);
}

static void on_line(GObject *source, GAsyncResult *result, gpointer data)
{
	Task *task = data;
	g_autofree char *line = g_data_input_stream_read_line_finish(task->input, result, NULL, NULL);
	const char *verb;

	task->request = line ? json_loads(line, 0, NULL) : NULL;
	verb = task->request ? text(task, "do") : NULL;
	if (g_strcmp0(verb, "make") == 0)
		make(task);
	else if (g_strcmp0(verb, "put") == 0)
		put(task);
	else if (g_strcmp0(verb, "drop") == 0)
		answer(task, json_pack("{s:b}", "dropped", vial_templates_drop(task->app, text(task, "project"), text(task, "name"))));
	else if (g_strcmp0(verb, "used") == 0)
		answer(task, json_pack("{s:b}", "used", vial_layer_is_used(task->app, text(task, "layer"))));
	else
		refuse(task, "what?");
}

static gboolean on_client(GSocketService *service, GSocketConnection *connection, GObject *source, gpointer data)
{
	Task *task = g_new0(Task, 1);

	task->app = data;
	task->connection = g_object_ref(connection);
	task->input = g_data_input_stream_new(g_io_stream_get_input_stream(G_IO_STREAM(connection)));
	g_data_input_stream_read_line_async(task->input, G_PRIORITY_DEFAULT, NULL, on_line, task);
	return TRUE;
}

static gpointer start(VialApp *app, gpointer path, GError **error)
{
	g_autoptr(GSocketAddress) address = g_unix_socket_address_new(path);
	Surface *surface = g_new0(Surface, 1);

	g_unlink(path);
	surface->app = app;
	surface->service = g_socket_service_new();
	if (!g_socket_listener_add_address(G_SOCKET_LISTENER(surface->service), address, G_SOCKET_TYPE_STREAM, G_SOCKET_PROTOCOL_DEFAULT, NULL, NULL,
	                                   error)) {
		g_object_unref(surface->service);
		g_free(surface);
		return NULL;
	}
	g_signal_connect(surface->service, "incoming", G_CALLBACK(on_client), app);
	return surface;
}

static void stop(gpointer data)
{
	Surface *surface = data;

	g_socket_service_stop(surface->service);
	g_object_unref(surface->service);
	g_free(surface);
}

int main(int argc, char **argv)
{
	g_autoptr(GError) error = NULL;
	g_autoptr(VialConfig) config = vial_config_load(&argc, &argv, NULL, &error);
	VialSurface surface = { .start = start, .stop = stop, .data = (gpointer)g_getenv("VIAL_LAYER_SOCKET") };

	if (!config || !surface.data) {
		g_printerr("viald-layers: %s\n", error ? error->message : "VIAL_LAYER_SOCKET is not set");
		return 1;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	vial_time_set_scale((guint)config->time_scale);
	return vial_daemon_run(config, &surface);
}
