/* SPDX-License-Identifier: Apache-2.0 */
/* The schema, as numbered steps. A step that was released is never changed; the next change is the next number. */
#pragma once

#include <glib.h>
#include <sqlite3.h>

/* Applies what is missing, each step in a transaction of its own. Refuses a database of a newer program. */
gboolean vial_migrations_apply(sqlite3 *db, const char *path, GError **error);
