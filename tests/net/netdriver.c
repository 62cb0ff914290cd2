/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drives src/net/ from a test: one JSON command per line on standard input, one JSON answer per line on standard output,
 * on a main loop like viald's. End of input ends it without releasing anything, as a killed viald would; `quit` leaves in
 * order. The harness in driver.py speaks to it.
 */
#include <gio/gunixinputstream.h>
#include <glib-unix.h>
#include <glib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "net/net.h"
#include "util/error.h"
#include "util/json.h"
#include "util/log.h"
#include "util/worker.h"

static VialNet *net;
static GHashTable *slots; /* name → VialNetSlot */
static GMainLoop *loop;

static VialNetSlot *find_slot(const json_t *command, GError **error)
{
	const char *name = NULL;
	VialNetSlot *slot;

	if (!vial_json_get_string(command, "slot", VIAL_JSON_REQUIRED, 100, &name, error))
		return NULL;
	slot = g_hash_table_lookup(slots, name);
	if (!slot)
		vial_fail(error, VIAL_ERROR_NOT_FOUND, "no slot %s", name);
	return slot;
}

static guint number(const json_t *object, const char *field)
{
	json_t *value = json_object_get(object, field);

	return json_is_integer(value) ? (guint)json_integer_value(value) : 0;
}

static VialNetLimits read_limits(const json_t *command)
{
	const json_t *limits = json_object_get(command, "limits");

	return (VialNetLimits){
		.rate_mbit = number(limits, "rate_mbit"),
		.max_connections = number(limits, "max_connections"),
		.connection_rate = number(limits, "connection_rate"),
		.packet_rate = number(limits, "packet_rate"),
		.dns_rate = number(limits, "dns_rate"),
	};
}

static json_t *take(const json_t *command, gboolean is_adoption, GError **error)
{
	g_autoptr(VialNetPolicy) policy = vial_net_policy_parse(json_object_get(command, "network"), error);
	const char *label = json_string_value(json_object_get(command, "label"));
	const char *name = json_string_value(json_object_get(command, "slot"));
	VialNetLimits limits = read_limits(command);
	gint64 start = g_get_monotonic_time();
	VialNetSlot *slot;

	if (!policy)
		return NULL;
	slot = is_adoption ? vial_net_slot_adopt(net, name, label, policy, &limits, error)
	                   : vial_net_slot_acquire(net, label, policy, &limits, error);
	if (!slot)
		return NULL;
	g_hash_table_insert(slots, g_strdup(vial_net_slot_name(slot)), slot);
	return json_pack("{s:s,s:s,s:f}", "slot", vial_net_slot_name(slot), "netns", vial_net_slot_netns_path(slot), "ms",
	                 (double)(g_get_monotonic_time() - start) / 1000.0);
}

static json_t *op_acquire(const json_t *command, GError **error)
{
	return take(command, FALSE, error);
}

static json_t *op_adopt(const json_t *command, GError **error)
{
	return take(command, TRUE, error);
}

static json_t *op_release(const json_t *command, GError **error)
{
	VialNetSlot *slot = find_slot(command, error);

	if (!slot)
		return NULL;
	g_hash_table_remove(slots, vial_net_slot_name(slot));
	vial_net_slot_release(slot);
	return json_object();
}

typedef struct {
	gboolean is_over;
	GError *error;
} Setting;

static void on_set(const GError *error, gpointer data)
{
	Setting *setting = data;

	setting->is_over = TRUE;
	setting->error = error ? g_error_copy(error) : NULL;
}

static json_t *op_set(const json_t *command, GError **error)
{
	VialNetSlot *slot = find_slot(command, error);
	g_autoptr(VialNetPolicy) policy = slot ? vial_net_policy_parse(json_object_get(command, "network"), error) : NULL;
	gint64 start = g_get_monotonic_time();

	Setting setting = { 0 };

	if (!policy)
		return NULL;
	vial_net_slot_set_policy(slot, policy, on_set, &setting);
	while (!setting.is_over)
		g_main_context_iteration(NULL, TRUE);
	if (setting.error) {
		g_propagate_error(error, setting.error);
		return NULL;
	}
	return json_pack("{s:f}", "ms", (double)(g_get_monotonic_time() - start) / 1000.0);
}

static json_t *op_parse(const json_t *command, GError **error)
{
	g_autoptr(VialNetPolicy) policy = vial_net_policy_parse(json_object_get(command, "network"), error);

	return policy ? json_pack("{s:o}", "network", vial_net_policy_to_json(policy)) : NULL;
}

static json_t *op_check(const json_t *command, GError **error)
{
	VialNetSlot *slot = find_slot(command, error);
	const char *host = NULL;

	if (!slot || !vial_json_get_string(command, "host", VIAL_JSON_REQUIRED, 300, &host, error))
		return NULL;
	return vial_net_slot_check(slot, host, (guint16)number(command, "port"), error);
}

static json_t *op_events(const json_t *command, GError **error)
{
	VialNetSlot *slot = find_slot(command, error);

	return slot ? vial_net_slot_events(slot, number(command, "after"), 1000) : NULL;
}

static json_t *counters_json(const VialNetCounters *counters)
{
	return json_pack("{s:I,s:I,s:I,s:I,s:I,s:I,s:i}", "connections_allowed", (json_int_t)counters->connections_allowed, "connections_denied",
	                 (json_int_t)counters->connections_denied, "dns_allowed", (json_int_t)counters->dns_allowed, "dns_denied",
	                 (json_int_t)counters->dns_denied, "bytes_in", (json_int_t)counters->bytes_in, "bytes_out", (json_int_t)counters->bytes_out,
	                 "proxied", (int)counters->proxied);
}

static json_t *op_counters(const json_t *command, GError **error)
{
	VialNetSlot *slot = find_slot(command, error);
	VialNetCounters counters;

	if (!slot)
		return NULL;
	vial_net_slot_counters(slot, &counters);
	return counters_json(&counters);
}

static json_t *op_stats(const json_t *command, GError **error)
{
	VialNetStats stats;

	vial_net_stats(net, &stats);
	return json_pack("{s:i,s:i,s:i,s:i,s:o}", "prepared", (int)stats.prepared, "preparing", (int)stats.preparing, "held", (int)stats.held,
	                 "removing", (int)stats.removing, "total", counters_json(&stats.total));
}

static json_t *op_start(const json_t *command, GError **error)
{
	vial_net_start(net, TRUE);
	return json_object();
}

static json_t *op_quit(const json_t *command, GError **error)
{
	g_main_loop_quit(loop);
	return json_object();
}

/* A TAP that nobody reads from: only that it can be made. */
static json_t *op_tap(const json_t *command, GError **error)
{
	VialNetSlot *slot = find_slot(command, error);
	int fd = slot ? vial_net_slot_open_tap(slot, error) : -1;

	return fd < 0 ? NULL : json_pack("{s:i}", "fd", fd);
}

static const struct {
	const char *name;
	json_t *(*func)(const json_t *command, GError **error);
} ops[] = {
	{ "acquire", op_acquire }, { "adopt", op_adopt }, { "release", op_release }, { "set", op_set },
	{ "parse", op_parse },     { "check", op_check }, { "events", op_events },   { "counters", op_counters },
	{ "stats", op_stats },     { "start", op_start }, { "quit", op_quit },       { "tap", op_tap },
};

static void run(const char *line)
{
	g_autoptr(GError) error = NULL;
	g_autoptr(json_t) command = vial_json_parse_object(line, strlen(line), &error);
	const char *op = command ? json_string_value(json_object_get(command, "op")) : NULL;
	g_autoptr(json_t) answer = NULL;
	g_autofree char *text = NULL;

	for (gsize i = 0; op && i < G_N_ELEMENTS(ops); i++)
		if (strcmp(ops[i].name, op) == 0)
			answer = ops[i].func(command, &error);
	if (!answer)
		answer = json_pack("{s:s,s:s}", "error", error ? error->message : "unknown op", "type", error ? vial_error_type(error) : "invalid");
	text = vial_json_dump(answer);
	puts(text);
	fflush(stdout);
}

static gboolean on_input(gint fd, GIOCondition condition, gpointer data)
{
	GString *pending = data;
	char bytes[65536];
	ssize_t size = read(fd, bytes, sizeof(bytes));
	char *end;

	if (size <= 0)
		_exit(0); /* as kill -9 would: nothing is released */
	g_string_append_len(pending, bytes, size);
	while ((end = strchr(pending->str, '\n'))) {
		*end = 0;
		run(pending->str);
		g_string_erase(pending, 0, end + 1 - pending->str);
	}
	return G_SOURCE_CONTINUE;
}

int main(int argc, char **argv)
{
	g_autofree char *data_dir = NULL;
	g_auto(GStrv) resolvers = NULL;
	gint prepared = 4;
	gint sealed_port = 0;
	GOptionEntry options[] = {
		{ "data-dir", 0, 0, G_OPTION_ARG_STRING, &data_dir, "tag", "DIR" },
		{ "resolver", 0, 0, G_OPTION_ARG_STRING_ARRAY, &resolvers, "whom to ask", "ADDRESS[#PORT]" },
		{ "prepared", 0, 0, G_OPTION_ARG_INT, &prepared, "slots ahead", "N" },
		{ "sealed-port", 0, 0, G_OPTION_ARG_INT, &sealed_port, "never reachable", "PORT" },
		{ NULL },
	};
	g_autoptr(GOptionContext) context = g_option_context_new(NULL);
	g_autoptr(GError) error = NULL;
	guint16 sealed_ports[2] = { 0 };
	g_autoptr(GString) pending = g_string_new(NULL);

	g_option_context_add_main_entries(context, options, NULL);
	vial_log_setup(VIAL_LOG_INFO, VIAL_LOG_TEXT);
	if (!g_option_context_parse(context, &argc, &argv, &error) || !data_dir) {
		fprintf(stderr, "netdriver: %s\n", error ? error->message : "--data-dir is missing");
		return 2;
	}
	sealed_ports[0] = (guint16)sealed_port;

	VialNetConfig config = {
		.data_dir = data_dir,
		.prepared_slots = (guint)prepared,
		.resolvers = (const char *const *)resolvers,
		.sealed_ports = sealed_ports,
	};

	net = vial_net_new(&config, &error);
	if (!net) {
		fprintf(stderr, "netdriver: %s\n", error->message);
		return 1;
	}
	slots = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
	loop = g_main_loop_new(NULL, FALSE);
	g_unix_fd_add(0, G_IO_IN | G_IO_HUP, on_input, pending);
	g_main_loop_run(loop);
	vial_net_free(net);
	vial_worker_shutdown();
	return 0;
}
