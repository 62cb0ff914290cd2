/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A struct as a JSON object, described by one table: which field is which member. The same table writes the object and reads it back, so a field is
 * named once and its place in the struct cannot be mistaken for another's. Fields are written in the table's order. Nothing here blocks; any thread.
 */
#pragma once

#include <glib.h>
#include <jansson.h>

typedef enum {
	VIAL_FIELD_TEXT,   /* char *; NULL is left out */
	VIAL_FIELD_INT,    /* gint64 */
	VIAL_FIELD_ENUM,   /* an enum; as a number, or as one of `names` */
	VIAL_FIELD_DOUBLE, /* double */
	VIAL_FIELD_BOOL,   /* gboolean */
	VIAL_FIELD_OBJECT, /* json_t *; NULL is left out */
	VIAL_FIELD_LIST,   /* char **, NULL-terminated texts; NULL is left out */
	VIAL_FIELD_TIME,   /* gint64, milliseconds since the epoch, as text; 0 is left out. Only written */
	VIAL_FIELD_VALUE,  /* no member: only what `get` makes is written */
} VialFieldType;

typedef struct {
	const char *name;
	VialFieldType type;
	gsize offset;
	unsigned flags;                         /* VialJsonFlags, for reading */
	const char *const *names;               /* of a VIAL_FIELD_ENUM, NULL-terminated */
	json_t *(*get)(gconstpointer instance); /* makes what is written, in place of the member; NULL is left out */
} VialField;

/* { VIAL_FIELD("rootfs", TEXT, VialSandbox, rootfs), .flags = ... } */
#define VIAL_FIELD(field, kind, type_name, member) .name = (field), .type = VIAL_FIELD_##kind, .offset = G_STRUCT_OFFSET(type_name, member)

/* A new object. */
json_t *vial_fields_write(const VialField *fields, gsize n_fields, gconstpointer instance);

/*
 * Sets the members whose fields are there, after freeing what a text or object was before. FALSE with VIAL_ERROR_INVALID when one is missing though
 * required or of another type; the members before it in the table are set then, and all of them can still be freed.
 */
gboolean vial_fields_read(const VialField *fields, gsize n_fields, const json_t *object, gpointer instance, GError **error);
