/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records described as data: which column is which member of the struct. Copying, freeing, and every backend's statements
 * come from this description, so a new column is one line here and one migration.
 */
#pragma once

#include <glib.h>

typedef enum {
	VIAL_COLUMN_TEXT, /* char * */
	VIAL_COLUMN_INT,  /* gint64 */
} VialColumnType;

typedef struct {
	const char *name;
	VialColumnType type;
	gsize offset;
} VialColumn;

typedef struct {
	const char *table;
	gsize size_bytes;
	gboolean is_durable; /* flushed to the disk before it counts as done */
	GDestroyNotify free;
	gsize n_columns;
	const VialColumn *columns; /* the first is the id */
} VialRecordType;

typedef enum {
	VIAL_RECORD_PROJECT,
	VIAL_RECORD_KEY,
	VIAL_RECORD_KEY_USE,
	VIAL_RECORD_CREATION,
	VIAL_RECORD_SANDBOX,
	VIAL_RECORD_CALL,
	VIAL_RECORD_SNAPSHOT,
	VIAL_RECORD_AGENT,
	VIAL_RECORD_AGENT_VERSION,
	VIAL_RECORD_TEMPLATE,
	VIAL_RECORD_BUILD,
	VIAL_N_RECORD_TYPES,
} VialRecordKind;

extern const VialRecordType vial_record_types[VIAL_N_RECORD_TYPES];

gpointer vial_record_copy(const VialRecordType *type, gconstpointer record);

static inline char **vial_record_text(gpointer record, const VialColumn *column)
{
	return (char **)((char *)record + column->offset);
}

static inline gint64 *vial_record_int(gpointer record, const VialColumn *column)
{
	return (gint64 *)(gpointer)((char *)record + column->offset);
}
