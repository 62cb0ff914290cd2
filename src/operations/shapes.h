/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What guests may say, as tables: a field's name, its type and its bounds. Every EVENT and CLOSE of an agent is read through one of them.
 * Fields that no table knows are dropped; one that is missing though required, of another type or out of bounds makes the whole answer
 * nonsense, which the error says by name. Nothing of a guest reaches an answer, a record or an assertion by another way.
 */
#pragma once

#include <glib.h>
#include <jansson.h>

typedef enum {
	VIAL_SHAPE_BOOL,   /* gboolean */
	VIAL_SHAPE_INT,    /* gint64 from min to max */
	VIAL_SHAPE_NUMBER, /* double */
	VIAL_SHAPE_TEXT,   /* const char *: at most max bytes */
	VIAL_SHAPE_TOKEN,  /* the same, of visible ASCII characters */
	VIAL_SHAPE_OBJECT,
	VIAL_SHAPE_TEXTS, /* an object of texts, with at most max bytes in all, names included */
	VIAL_SHAPE_LIST,  /* of objects of the inner shape, or of numbers without one: at most max */
} VialShapeType;

typedef struct VialShape VialShape;

typedef struct {
	const char *name;
	VialShapeType type;
	gboolean is_required;
	gint64 min, max;
	const VialShape *inner;
	gsize offset; /* in the struct that vial_shape_read() fills */
} VialShapeField;

struct VialShape {
	gsize n_fields;
	const VialShapeField *fields;
};

#define VIAL_SHAPE(name, ...)                                          \
	static const VialShapeField name##_fields[] = { __VA_ARGS__ }; \
	static const VialShape name = { G_N_ELEMENTS(name##_fields), name##_fields }

/*
 * Fills a struct: texts are borrowed from `value`, objects and lists are new references. Fields that are absent leave it as it was.
 * FALSE with an error: then nothing is owned by the struct.
 */
gboolean vial_shape_read(const VialShape *shape, const json_t *value, gpointer out, GError **error);
/* A new object with the known fields only; NULL with an error. */
json_t *vial_shape_copy(const VialShape *shape, const json_t *value, GError **error);

/*
 * A result's MIME bundle: how many keys, how long, of which characters. *out_size is what it takes as JSON, as the agent counts it. Values are
 * anything JSON has; how deep they are nested was judged when they were parsed (VIAL_JSON_MAX_DEPTH).
 */
#define VIAL_BUNDLE_MAX_KEYS 256
#define VIAL_BUNDLE_KEY_MAX_BYTES 128
gboolean vial_bundle_check(const json_t *bundle, gsize *out_size, GError **error);
