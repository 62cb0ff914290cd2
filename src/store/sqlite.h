/* SPDX-License-Identifier: Apache-2.0 */
/* The SQLite backend: plain synchronous operations on one connection, used by one thread at a time. */
#pragma once

#include <glib.h>

#include "store/record.h"
#include "store/store.h"

typedef struct VialSqlite VialSqlite;

VialSqlite *vial_sqlite_open(const char *path, GError **error);
void vial_sqlite_close(VialSqlite *db); /* accepts NULL */

/*
 * A transaction holds a batch of operations. One that fails by itself leaves the others; commit fails when the batch as a
 * whole was lost. What commit says is final; of a durable one it also says that the machine's death does not undo it.
 */
gboolean vial_sqlite_begin(VialSqlite *db, gboolean is_durable, GError **error);
gboolean vial_sqlite_commit(VialSqlite *db, GError **error);
/* Not after SQLite has rolled back by itself (a full disk): what is done then is in no transaction, and only commit is left, which fails. */
gboolean vial_sqlite_is_open(const VialSqlite *db);

/* Within a transaction, and only there: operations that belong together. What came since the mark is undone if one of them fails. */
gboolean vial_sqlite_mark(VialSqlite *db, GError **error);
void vial_sqlite_back_to_mark(VialSqlite *db);

gboolean vial_sqlite_put(VialSqlite *db, VialRecordKind kind, gpointer record, GError **error);
gboolean vial_sqlite_delete(VialSqlite *db, VialRecordKind kind, const char *id, GError **error);
/* Fails when the table is damaged in any way, also where that would only hide some of its rows. */
GPtrArray *vial_sqlite_load(VialSqlite *db, VialRecordKind kind, GError **error);
/* All rows of a table. */
gboolean vial_sqlite_empty(VialSqlite *db, VialRecordKind kind, GError **error);
