/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which addresses our resolver gave to one sandbox for which names, and until when: a name rule admits a connection only
 * to such an address. Bounded; the entry that ends first makes room. Main thread.
 */
#pragma once

#include <glib.h>

#include "net/address.h"

#define VIAL_ANSWERS_MAX 2048

typedef struct VialAnswers VialAnswers;

VialAnswers *vial_answers_new(void);
void vial_answers_free(VialAnswers *answers);

/* `until_ms` is monotonic. Extends an entry that is there, never shortens it. */
void vial_answers_add(VialAnswers *answers, const char *name, const VialAddress *address, gint64 until_ms);
gboolean vial_answers_has(VialAnswers *answers, const char *name, const VialAddress *address, gint64 now_ms);
/* Has this name been answered at all, now or before? */
gboolean vial_answers_knows(VialAnswers *answers, const char *name);

/* Stops when `func` returns TRUE, and returns that. `address` NULL: all. */
typedef gboolean (*VialAnswerFunc)(const char *name, const VialAddress *address, gint64 until_ms, gpointer data);
gboolean vial_answers_each(VialAnswers *answers, const VialAddress *address, gint64 now_ms, VialAnswerFunc func, gpointer data);
