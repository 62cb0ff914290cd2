/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/usage.h"

#include <string.h>

#include "util/json.h"
#include "util/time.h"

#define DAY_MS ((gint64)24 * 3600 * 1000)
#define DAY_TEXT 10 /* YYYY-MM-DD */

typedef struct {
	char *sandbox, *project, *template_name, *agent, *key_id;
	gint64 from_ms, until_ms, vcpu_thousandths, memory_mb;
	gboolean is_last;
} Kept;

struct VialCharges {
	gint64 number;
	GArray *list; /* Kept */
};

static void kept_clear(gpointer data)
{
	Kept *kept = data;

	g_free(kept->sandbox);
	g_free(kept->project);
	g_free(kept->template_name);
	g_free(kept->agent);
	g_free(kept->key_id);
}

VialCharges *vial_charges_new(void)
{
	VialCharges *charges = g_new0(VialCharges, 1);

	charges->list = g_array_new(FALSE, FALSE, sizeof(Kept));
	g_array_set_clear_func(charges->list, kept_clear);
	return charges;
}

void vial_charges_free(VialCharges *charges)
{
	if (!charges)
		return;
	g_array_unref(charges->list);
	g_free(charges);
}

guint vial_charges_count(const VialCharges *charges)
{
	return charges->list->len;
}

void vial_charges_add(VialCharges *charges, const VialCharge *charge)
{
	Kept kept = {
		.sandbox = g_strdup(charge->sandbox),
		.project = g_strdup(charge->project),
		.template_name = g_strdup(charge->template_name ? charge->template_name : ""),
		.agent = g_strdup(charge->agent ? charge->agent : ""),
		.key_id = g_strdup(charge->key_id ? charge->key_id : ""),
		.from_ms = charge->from_ms,
		.until_ms = charge->until_ms,
		.vcpu_thousandths = (gint64)(charge->cpu * 1000 + 0.5),
		.memory_mb = charge->memory_mb,
		.is_last = charge->is_last,
	};

	g_array_append_val(charges->list, kept);
}

void vial_charges_set_number(VialCharges *charges, gint64 number)
{
	charges->number = number;
}

gint64 vial_charges_number(const VialCharges *charges)
{
	return charges->number;
}

char *vial_charges_text(const VialCharges *charges)
{
	g_autoptr(json_t) json = json_pack("{s:I, s:[]}", "number", (json_int_t)charges->number, "list");

	for (guint i = 0; i < charges->list->len; i++) {
		const Kept *kept = &g_array_index(charges->list, Kept, i);

		json_array_append_new(json_object_get(json, "list"),
		                      json_pack("[s, s, s, s, s, I, I, I, I, b]", kept->sandbox, kept->project, kept->template_name, kept->agent,
		                                kept->key_id, (json_int_t)kept->from_ms, (json_int_t)kept->until_ms,
		                                (json_int_t)kept->vcpu_thousandths, (json_int_t)kept->memory_mb, kept->is_last));
	}
	return json_dumps(json, JSON_COMPACT | JSON_ENSURE_ASCII);
}

static gboolean parse_one(const json_t *json, VialCharges *charges)
{
	const char *sandbox, *project, *template_name, *agent, *key_id;
	json_int_t from, until, vcpu, memory;
	int is_last;

	if (json_unpack((json_t *)json, "[s, s, s, s, s, I, I, I, I, b]", &sandbox, &project, &template_name, &agent, &key_id, &from, &until, &vcpu,
	                &memory, &is_last) < 0)
		return FALSE;
	vial_charges_add(charges, &(VialCharge){ sandbox, project, template_name, agent, key_id, from, until, (double)vcpu / 1000, memory, is_last });
	return TRUE;
}

VialCharges *vial_charges_parse(const char *text, gsize size)
{
	g_autoptr(json_t) json = json_loadb(text, size, 0, NULL);
	VialCharges *charges = vial_charges_new();
	const json_t *item;
	gsize i;

	charges->number = json_integer_value(json_object_get(json, "number"));
	json_array_foreach (json_object_get(json, "list"), i, item) {
		if (!parse_one(item, charges))
			charges->number = 0;
	}
	if (charges->number > 0)
		return charges;
	vial_charges_free(charges);
	return NULL;
}

void vial_charges_apply(const VialCharges *charges, GHashTable *meters)
{
	for (guint i = 0; i < charges->list->len; i++) {
		const Kept *kept = &g_array_index(charges->list, Kept, i);

		if (kept->is_last)
			g_hash_table_remove(meters, kept->sandbox);
		else
			g_hash_table_replace(meters, g_strdup(kept->sandbox), g_memdup2(&kept->until_ms, sizeof(kept->until_ms)));
	}
}

/* Writing */

typedef struct {
	VialAuditDb *db;
	sqlite3_stmt *add, *note, *end, *number;
} Writer;

static gboolean run(Writer *writer, sqlite3_stmt *statement, GError **error)
{
	gboolean is_done = sqlite3_step(statement) == SQLITE_DONE || vial_audit_db_fail(writer->db, "usage", error);

	sqlite3_reset(statement);
	sqlite3_clear_bindings(statement);
	return is_done;
}

static gboolean add_time(Writer *writer, const Kept *kept, gint64 day_ms, gint64 ms, GError **error)
{
	char day[VIAL_TIME_TEXT_SIZE];

	vial_time_fill(day, day_ms);
	sqlite3_bind_text(writer->add, 1, day, DAY_TEXT, SQLITE_STATIC);
	sqlite3_bind_text(writer->add, 2, kept->project, -1, SQLITE_STATIC);
	sqlite3_bind_text(writer->add, 3, kept->template_name, -1, SQLITE_STATIC);
	sqlite3_bind_text(writer->add, 4, kept->agent, -1, SQLITE_STATIC);
	sqlite3_bind_text(writer->add, 5, kept->key_id, -1, SQLITE_STATIC);
	sqlite3_bind_int64(writer->add, 6, ms);
	sqlite3_bind_int64(writer->add, 7, ms * kept->vcpu_thousandths);
	sqlite3_bind_int64(writer->add, 8, ms * kept->memory_mb);
	return run(writer, writer->add, error);
}

static gboolean write_one(Writer *writer, const Kept *kept, GError **error)
{
	sqlite3_stmt *last = kept->is_last ? writer->end : writer->note;

	for (gint64 at = kept->from_ms; at < kept->until_ms;) {
		gint64 midnight = (at / DAY_MS + 1) * DAY_MS, until = MIN(midnight, kept->until_ms);

		if (!add_time(writer, kept, at, until - at, error))
			return FALSE;
		at = until;
	}
	sqlite3_bind_text(last, 1, kept->sandbox, -1, SQLITE_STATIC);
	if (!kept->is_last)
		sqlite3_bind_int64(last, 2, kept->until_ms);
	return run(writer, last, error);
}

static gboolean prepare(VialAuditDb *db, const char *sql, sqlite3_stmt **out, GError **error)
{
	return sqlite3_prepare_v2(vial_audit_db_handle(db), sql, -1, out, NULL) == SQLITE_OK || vial_audit_db_fail(db, "usage", error);
}

gboolean vial_charges_write(const VialCharges *charges, VialAuditDb *db, GError **error)
{
	Writer writer = { .db = db };
	gboolean is_new = FALSE;
	gboolean is_done = prepare(db,
	                           "INSERT INTO usage (day, project, template, agent, key_id, sandbox_ms, vcpu_ms, memory_mb_ms) VALUES (?1, ?2, ?3, "
	                           "?4, ?5, ?6, ?7, ?8)"
	                           " ON CONFLICT DO UPDATE SET sandbox_ms = sandbox_ms + excluded.sandbox_ms, vcpu_ms = vcpu_ms + excluded.vcpu_ms,"
	                           " memory_mb_ms = memory_mb_ms + excluded.memory_mb_ms",
	                           &writer.add, error) &&
	                   prepare(db, "INSERT OR REPLACE INTO meters (sandbox, until) VALUES (?1, ?2)", &writer.note, error) &&
	                   prepare(db, "DELETE FROM meters WHERE sandbox = ?1", &writer.end, error) &&
	                   prepare(db,
	                           "INSERT INTO meta (name, value) VALUES ('last_charge', ?1) ON CONFLICT DO UPDATE SET value = excluded.value"
	                           " WHERE value < excluded.value",
	                           &writer.number, error);

	if (is_done) {
		sqlite3_bind_int64(writer.number, 1, charges->number);
		is_done = run(&writer, writer.number, error);
		/* Nothing changed: the number is not new, so neither are the charges. */
		is_new = sqlite3_changes(vial_audit_db_handle(db)) > 0;
	}
	for (guint i = 0; is_done && is_new && i < charges->list->len; i++)
		is_done = write_one(&writer, &g_array_index(charges->list, Kept, i), error);
	sqlite3_finalize(writer.number);
	sqlite3_finalize(writer.add);
	sqlite3_finalize(writer.note);
	sqlite3_finalize(writer.end);
	return is_done;
}

/* Reading */

static gint64 read_last_charge(VialAuditDb *db)
{
	sqlite3_stmt *statement = NULL;
	gint64 number = 0;

	if (prepare(db, "SELECT value FROM meta WHERE name = 'last_charge'", &statement, NULL) && sqlite3_step(statement) == SQLITE_ROW)
		number = sqlite3_column_int64(statement, 0);
	sqlite3_finalize(statement);
	return number;
}

GHashTable *vial_usage_meters(VialAuditDb *db, gint64 *out_last_charge, GError **error)
{
	g_autoptr(GHashTable) meters = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
	sqlite3_stmt *statement = NULL;
	int status;

	if (!prepare(db, "SELECT sandbox, until FROM meters", &statement, error))
		return NULL;
	*out_last_charge = read_last_charge(db);
	while ((status = sqlite3_step(statement)) == SQLITE_ROW) {
		gint64 until = sqlite3_column_int64(statement, 1);

		g_hash_table_replace(meters, g_strdup((const char *)sqlite3_column_text(statement, 0)), g_memdup2(&until, sizeof(until)));
	}
	gboolean is_read = status == SQLITE_DONE || vial_audit_db_fail(db, "meters", error);
	sqlite3_finalize(statement);
	return is_read ? g_steal_pointer(&meters) : NULL;
}

/* The columns that are asked for, separated by commas. */
static char *group_columns(const VialUsageQuestion *question)
{
	const struct {
		gboolean is_wanted;
		const char *name;
	} columns[] = {
		{ question->by_day, "day" },     { question->by_project, "project" }, { question->by_template, "template" },
		{ question->by_agent, "agent" }, { question->by_key, "key_id" },
	};
	GString *list = g_string_new(NULL);

	for (gsize i = 0; i < G_N_ELEMENTS(columns); i++)
		if (columns[i].is_wanted)
			g_string_append_printf(list, "%s%s", list->len ? ", " : "", columns[i].name);
	return g_string_free(list, FALSE);
}

static json_t *read_row(sqlite3_stmt *statement, int n_groups)
{
	json_t *row = json_object();

	for (int i = 0; i < n_groups; i++)
		json_object_set_new(row, sqlite3_column_name(statement, i), json_string((const char *)sqlite3_column_text(statement, i)));
	json_object_set_new(row, "sandbox_seconds", json_real((double)sqlite3_column_int64(statement, n_groups) / 1e3));
	json_object_set_new(row, "vcpu_seconds", json_real((double)sqlite3_column_int64(statement, n_groups + 1) / 1e6));
	json_object_set_new(row, "memory_gb_seconds", json_real((double)sqlite3_column_int64(statement, n_groups + 2) / 1024e3));
	json_object_set_new(row, "runs", json_integer(sqlite3_column_int64(statement, n_groups + 3)));
	json_object_set_new(row, "bytes_in", json_integer(sqlite3_column_int64(statement, n_groups + 4)));
	json_object_set_new(row, "bytes_out", json_integer(sqlite3_column_int64(statement, n_groups + 5)));
	return row;
}

json_t *vial_usage_read(VialAuditDb *db, const VialUsageQuestion *question, GError **error)
{
	g_autofree char *columns = group_columns(question);
	const char *comma = *columns ? ", " : "", *group = *columns ? " GROUP BY " : "", *order = *columns ? " ORDER BY " : "";
	g_autofree char *sql =
		g_strdup_printf("SELECT %s%sifnull(sum(sandbox_ms), 0), ifnull(sum(vcpu_ms), 0), ifnull(sum(memory_mb_ms), 0),"
	                        " ifnull(sum(runs), 0), ifnull(sum(bytes_in), 0), ifnull(sum(bytes_out), 0) FROM usage"
	                        " WHERE (?1 IS NULL OR project = ?1) AND (?2 IS NULL OR day >= ?2) AND (?3 IS NULL OR day <= ?3)%s%s%s%s",
	                        columns, comma, group, columns, order, columns);
	const char *const values[] = { question->project, question->from, question->to };
	sqlite3_stmt *statement = NULL;
	json_t *rows;
	int status;

	if (!prepare(db, sql, &statement, error))
		return NULL;
	for (gsize i = 0; i < G_N_ELEMENTS(values); i++)
		if (values[i])
			sqlite3_bind_text(statement, (int)i + 1, values[i], -1, SQLITE_STATIC);
	rows = json_array();
	while ((status = sqlite3_step(statement)) == SQLITE_ROW)
		json_array_append_new(rows, read_row(statement, sqlite3_column_count(statement) - 6));
	if (status != SQLITE_DONE) {
		vial_audit_db_fail(db, "usage", error);
		json_decref(rows);
		rows = NULL;
	}
	sqlite3_finalize(statement);
	return rows;
}
