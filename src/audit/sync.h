/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flushing the spool to the disk for those whose answers wait for it (setting audit_sync): a thread that flushes as long as there is something new,
 * so that all that came while one flush was under way share the next.
 */
#pragma once

#include <glib.h>

typedef struct VialAuditSync VialAuditSync;

/* On the main loop: everything up to `seq` is on the disk, or (has_failed) never will be. */
typedef void (*VialAuditSynced)(gint64 seq, gboolean has_failed, gpointer data);
VialAuditSync *vial_audit_sync_new(VialAuditSynced synced, gpointer data);
void vial_audit_sync_free(VialAuditSync *sync); /* accepts NULL */
/* `seq` was written to the file of `fd`, which is taken over (-1: the same file as last time). */
void vial_audit_sync_request(VialAuditSync *sync, gint64 seq, int fd);
