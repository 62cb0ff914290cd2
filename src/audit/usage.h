/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What projects have used, as sums by day, template, agent and key. Runs and bytes come out of the records themselves when they are written (db.c);
 * time comes in charges. A charge is in the spool before anything else happens; it has a number, and the database notes the last number together with
 * the sums and with until when each sandbox is charged: whatever dies in between, nothing is counted twice or left out.
 */
#pragma once

#include <glib.h>
#include <jansson.h>

#include "audit/db.h"

/* All is copied. */
typedef struct {
	const char *sandbox, *project, *template_name, *agent, *key_id;
	gint64 from_ms, until_ms; /* wall clock; split by days here */
	double cpu;
	gint64 memory_mb;
	gboolean is_last; /* the sandbox is gone, or sleeps */
} VialCharge;

typedef struct VialCharges VialCharges;
VialCharges *vial_charges_new(void);
void vial_charges_set_number(VialCharges *charges, gint64 number);
gint64 vial_charges_number(const VialCharges *charges);
/* For the spool, and back; NULL when it is none. Free the text. */
char *vial_charges_text(const VialCharges *charges);
VialCharges *vial_charges_parse(const char *text, gsize size);
/* What they make of until when each sandbox is charged. */
void vial_charges_apply(const VialCharges *charges, GHashTable *meters);
void vial_charges_add(VialCharges *charges, const VialCharge *charge);
void vial_charges_free(VialCharges *charges); /* accepts NULL */
guint vial_charges_count(const VialCharges *charges);
/* Within a transaction. Those that were written before are left out. */
gboolean vial_charges_write(const VialCharges *charges, VialAuditDb *db, GError **error);

/* Until when each sandbox is charged: sandbox -> gint64 (milliseconds), owned by the table. */
GHashTable *vial_usage_meters(VialAuditDb *db, gint64 *out_last_charge, GError **error);

typedef struct {
	const char *project;   /* NULL: all */
	const char *from, *to; /* days, YYYY-MM-DD, both included; NULL: any */
	gboolean by_day, by_template, by_agent, by_key, by_project;
} VialUsageQuestion;
/* [{day?, project?, template?, agent?, key_id?, sandbox_seconds, vcpu_seconds, memory_gb_seconds, runs, bytes_in, bytes_out}] */
json_t *vial_usage_read(VialAuditDb *db, const VialUsageQuestion *question, GError **error);
