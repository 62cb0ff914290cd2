/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>
#include <sqlite3.h>

gboolean vial_audit_schema_apply(sqlite3 *db, const char *path, GError **error);
