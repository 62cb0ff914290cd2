/* SPDX-License-Identifier: Apache-2.0 */
/* /metrics for Prometheus: a project's own for its keys; for the operator those of every project, and of the whole installation. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "audit/audit.h"
#include "service/app.h"
#include "service/pool.h"
#include "service/project.h"
#include "service/quota.h"
#include "service/sandbox.h"
#include "service/slots.h"
#include "surfaces/native/handlers.h"
#include "surfaces/shared/surface.h"
#include "telemetry/otlp.h"
#include "util/json.h"
#include "util/time.h"

static gint64 resident_bytes(void)
{
	FILE *file = fopen("/proc/self/statm", "re");
	long total, resident = 0;

	if (!file)
		return 0;
	if (fscanf(file, "%ld %ld", &total, &resident) != 2)
		resident = 0;
	fclose(file);
	return (gint64)resident * sysconf(_SC_PAGESIZE);
}

/* Of one project, or with NULL of all. */
static void count_states(VialApp *app, const char *project, guint counts[VIAL_N_STATES])
{
	GHashTableIter iter;
	gpointer value;

	g_hash_table_iter_init(&iter, vial_sandboxes_table(app->sandboxes));
	while (g_hash_table_iter_next(&iter, NULL, &value))
		if (!project || strcmp(vial_sandbox_project(value), project) == 0)
			counts[vial_sandbox_state(value)]++;
}

static void put_pair(GString *text, const char *name, const char *label, const char *first, guint64 one, const char *second, guint64 two)
{
	g_string_append_printf(text, "%s{%s=\"%s\"} %" G_GUINT64_FORMAT "\n%s{%s=\"%s\"} %" G_GUINT64_FORMAT "\n", name, label, first, one, name,
	                       label, second, two);
}

/* Of all sandboxes since viald started, those that are gone included. */
static void put_network(VialApp *app, GString *text)
{
	VialNetStats stats;

	vial_net_stats(vial_slots_net(app->slots), &stats);
	g_string_append(text, "# HELP vial_network_connections_total Connections that sandboxes began, by verdict.\n"
	                      "# TYPE vial_network_connections_total counter\n");
	put_pair(text, "vial_network_connections_total", "verdict", "allow", stats.total.connections_allowed, "deny", stats.total.connections_denied);
	g_string_append(text, "# HELP vial_network_dns_questions_total Names that sandboxes asked for, by verdict.\n"
	                      "# TYPE vial_network_dns_questions_total counter\n");
	put_pair(text, "vial_network_dns_questions_total", "verdict", "allow", stats.total.dns_allowed, "deny", stats.total.dns_denied);
	g_string_append(text, "# HELP vial_network_bytes_total Bytes on the sandboxes' links; in is towards them.\n"
	                      "# TYPE vial_network_bytes_total counter\n");
	put_pair(text, "vial_network_bytes_total", "direction", "in", stats.total.bytes_in, "out", stats.total.bytes_out);
	g_string_append(text, "# HELP vial_network_slots Network slots by state.\n# TYPE vial_network_slots gauge\n");
	put_pair(text, "vial_network_slots", "state", "held", stats.held, "prepared", stats.prepared);
	put_pair(text, "vial_network_slots", "state", "preparing", stats.preparing, "removing", stats.removing);
	g_string_append_printf(text,
	                       "# HELP vial_network_proxied_connections Connections open through the proxy.\n"
	                       "# TYPE vial_network_proxied_connections gauge\nvial_network_proxied_connections %u\n",
	                       stats.total.proxied);
}

static void put_pool(VialApp *app, GString *text)
{
	static const char *const states[] = { "awake", "asleep", "short_of_memory", "off" };
	json_t *templates = vial_pool_json(app->pool), *counts;
	const char *state = vial_pool_state(app->pool), *name;

	g_string_append(text, "# HELP vial_pool_sandboxes Sandboxes that wait for an owner: restored ones, and blanks.\n"
	                      "# TYPE vial_pool_sandboxes gauge\n");
	json_object_foreach (templates, name, counts) {
		static const char *const kinds[] = { "ready", "blank" };

		for (gsize i = 0; i < G_N_ELEMENTS(kinds); i++)
			g_string_append_printf(text, "vial_pool_sandboxes{template=\"%s\",kind=\"%s\"} %" JSON_INTEGER_FORMAT "\n", name, kinds[i],
			                       json_integer_value(json_object_get(counts, kinds[i])));
	}
	json_decref(templates);
	g_string_append(text, "# HELP vial_pool_state What the pool does; one of them is 1.\n# TYPE vial_pool_state gauge\n");
	for (gsize i = 0; i < G_N_ELEMENTS(states); i++)
		g_string_append_printf(text, "vial_pool_state{state=\"%s\"} %d\n", states[i], strcmp(states[i], state) == 0);
	g_string_append_printf(text,
	                       "# HELP vial_memory_available_percent Memory to spare, of the machine's or of viald's control group.\n"
	                       "# TYPE vial_memory_available_percent gauge\nvial_memory_available_percent %u\n",
	                       vial_pool_memory_percent());
}

static void put_sandboxes(VialApp *app, const char *project, GString *text)
{
	guint counts[VIAL_N_STATES] = { 0 };

	count_states(app, project, counts);
	g_string_append(text, "# HELP vial_sandboxes Sandboxes by state.\n# TYPE vial_sandboxes gauge\n");
	for (guint i = 0; i < VIAL_N_STATES; i++)
		g_string_append_printf(text, "vial_sandboxes{state=\"%s\"} %u\n", vial_state_name(i), counts[i]);
}

/* Requests and memory of viald, traffic of all sandboxes: what neighbours do can be read from them, so they are the operator's. */
static void put_daemon(const VialFront *native, GString *text)
{
	VialServerStats stats;

	vial_server_stats(native->server, &stats);
	g_string_append_printf(text, "# HELP vial_http_requests_total Requests answered, by status class.\n"
	                             "# TYPE vial_http_requests_total counter\n");
	for (guint i = 2; i <= 5; i++)
		g_string_append_printf(text, "vial_http_requests_total{class=\"%uxx\"} %" G_GUINT64_FORMAT "\n", i, stats.by_class[i]);
	g_string_append_printf(text,
	                       "# HELP vial_http_connections Open connections.\n# TYPE vial_http_connections gauge\n"
	                       "vial_http_connections %u\n"
	                       "# HELP vial_http_upgraded Open WebSockets and tunnels.\n# TYPE vial_http_upgraded gauge\n"
	                       "vial_http_upgraded %u\n"
	                       "# HELP vial_http_connections_shed_total Connections ended to make room for others.\n"
	                       "# TYPE vial_http_connections_shed_total counter\n"
	                       "vial_http_connections_shed_total %" G_GUINT64_FORMAT "\n"
	                       "# HELP process_resident_memory_bytes Resident memory of viald.\n"
	                       "# TYPE process_resident_memory_bytes gauge\nprocess_resident_memory_bytes %" G_GINT64_FORMAT "\n"
	                       "# HELP vial_uptime_seconds Seconds since viald started.\n# TYPE vial_uptime_seconds gauge\n"
	                       "vial_uptime_seconds %.3f\n",
	                       stats.connections, stats.upgraded, stats.shed_total, resident_bytes(),
	                       (double)(vial_time_monotonic_ms() - native->app->started_ms) / 1000.0);
}

/* What is used of what may be, by the quota's name. */
static void put_used(VialApp *app, const GPtrArray *projects, GString *text)
{
	static const struct {
		const char *used, *quota;
	} names[] = {
		{ "sandboxes", "max_sandboxes" },
		{ "vcpu", "max_vcpu" },
		{ "memory_mb", "max_memory_mb" },
		{ "disk_mb", "max_disk_mb" },
		{ "snapshot_bytes", "max_snapshot_bytes" },
		{ "created_last_hour", "max_create_per_hour" },
		{ "concurrent_runs", "max_concurrent_runs" },
	};
	g_autoptr(GString) limits = g_string_new("# HELP vial_project_limit What a project may have at most, where there is a limit.\n"
	                                         "# TYPE vial_project_limit gauge\n");

	g_string_append(text, "# HELP vial_project_used What a project has now.\n# TYPE vial_project_used gauge\n");
	for (guint i = 0; i < projects->len; i++) {
		const VialProject *project = projects->pdata[i];
		g_autoptr(json_t) used = vial_quota_used_json(app, project->name), quotas = vial_quotas_json(project->quotas);

		for (gsize n = 0; n < G_N_ELEMENTS(names); n++) {
			const json_t *limit = json_object_get(quotas, names[n].quota);

			g_string_append_printf(text, "vial_project_used{project=\"%s\",what=\"%s\"} %.15g\n", project->name, names[n].used,
			                       json_number_value(json_object_get(used, names[n].used)));
			if (limit)
				g_string_append_printf(limits, "vial_project_limit{project=\"%s\",what=\"%s\"} %.15g\n", project->name, names[n].used,
				                       json_number_value(limit));
		}
	}
	g_string_append(text, limits->str);
}

static void put_runs(VialApp *app, const GPtrArray *projects, GString *text)
{
	g_string_append(text, "# HELP vial_project_runs_total Cells and commands that were begun since viald started.\n"
	                      "# TYPE vial_project_runs_total counter\n");
	for (guint i = 0; i < projects->len; i++) {
		const VialProject *project = projects->pdata[i];

		g_string_append_printf(text, "vial_project_runs_total{project=\"%s\"} %" G_GUINT64_FORMAT "\n", project->name,
		                       vial_quota_runs_total(app, project->name));
	}
}

static void put_audit(VialApp *app, GString *text)
{
	VialAuditStats stats;
	VialOtlpStats spans;

	vial_audit_stats(app->audit, &stats);
	g_string_append_printf(text,
	                       "# HELP vial_audit_records_total Records in the chain.\n# TYPE vial_audit_records_total counter\n"
	                       "vial_audit_records_total %" G_GINT64_FORMAT "\n"
	                       "# HELP vial_audit_unsigned_records Records behind the last signed head.\n# TYPE vial_audit_unsigned_records gauge\n"
	                       "vial_audit_unsigned_records %" G_GINT64_FORMAT "\n"
	                       "# HELP vial_audit_open_operations Operations under way that will be recorded.\n"
	                       "# TYPE vial_audit_open_operations gauge\nvial_audit_open_operations %u\n"
	                       "# HELP vial_audit_failing 1 while records cannot be written, and code is refused.\n# TYPE vial_audit_failing gauge\n"
	                       "vial_audit_failing %d\n"
	                       "# HELP vial_audit_tampered 1 when the start found that the record had been changed.\n"
	                       "# TYPE vial_audit_tampered gauge\nvial_audit_tampered %d\n",
	                       stats.records, stats.records - stats.signed_through, stats.open, stats.is_failing,
	                       vial_audit_complaint(app->audit) != NULL);
	if (!app->otlp)
		return;
	vial_otlp_stats(app->otlp, &spans);
	g_string_append_printf(text,
	                       "# HELP vial_otlp_spans_total Spans that the collector took, or never will.\n# TYPE vial_otlp_spans_total counter\n"
	                       "vial_otlp_spans_total{fate=\"exported\"} %" G_GUINT64_FORMAT
	                       "\nvial_otlp_spans_total{fate=\"dropped\"} %" G_GUINT64_FORMAT "\n"
	                       "# HELP vial_otlp_queued Spans that wait.\n# TYPE vial_otlp_queued gauge\nvial_otlp_queued %u\n",
	                       spans.exported, spans.dropped, spans.queued);
}

/* Whose numbers are shown: all projects', or the one of who asks. */
static GPtrArray *shown_projects(VialApp *app, const VialIdentity *identity)
{
	GPtrArray *own;
	VialProject *project;

	if (vial_identity_is_operator(identity))
		return vial_projects_list(app->projects);
	own = g_ptr_array_new();
	project = vial_projects_find(app->projects, identity->project);
	if (project)
		g_ptr_array_add(own, project);
	return own;
}

void vial_api_prometheus(VialRequest *request)
{
	VialApp *app = vial_surface_app(request);
	const VialIdentity *identity = vial_request_identity(request);
	gboolean is_operator = vial_identity_is_operator(identity);
	g_autoptr(GPtrArray) projects = shown_projects(app, identity);
	g_autoptr(GString) text = g_string_new(NULL);

	put_sandboxes(app, is_operator ? NULL : identity->project, text);
	put_used(app, projects, text);
	put_runs(app, projects, text);
	if (is_operator) {
		put_daemon(vial_request_app(request), text);
		put_network(app, text);
		put_audit(app, text);
		if (app->pool)
			put_pool(app, text);
	}
	vial_request_reply_bytes(request, 200, "text/plain; version=0.0.4; charset=utf-8", g_bytes_new(text->str, text->len));
}
