/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What must be on the disk before an answer leaves: an append-only file in front of the audit's database. An append is one pwrite(2) of some
 * microseconds into room that was allocated before, so it survives the death of viald and cannot fail for want of space. Main thread only, but for
 * the descriptor that is flushed.
 *
 * The file is a row of segments, NUMBER.spool, each a sequence of entries (a frame of magic, kind, size and the first bytes of a SHA-256, then the
 * bytes). An entry that was being written when viald died is not whole, and nobody was answered on its account: it is passed over. A segment goes
 * when the database has what is in it; always the oldest first, so that a note is never there without the record that follows it.
 *
 * Room is reserved when an operation begins, for the record of its end: an operation that was let begin can be recorded.
 */
#pragma once

#include <glib.h>

typedef enum { VIAL_SPOOL_NOTE = 1, VIAL_SPOOL_RECORD = 2, VIAL_SPOOL_CHARGES = 3 } VialSpoolKind;

/* One entry at most; more than a record with its body takes (audit.c sees to that). */
#define VIAL_SPOOL_MAX_ENTRY_BYTES (2 * 1024 * 1024)

typedef struct VialSpool VialSpool;

/* Every whole entry that is there, in order; then it may be appended to. Blocks; at start. */
typedef void (*VialSpoolEach)(VialSpoolKind kind, const char *bytes, gsize size, gpointer data);
VialSpool *vial_spool_open(const char *dir, VialSpoolEach each, gpointer data, GError **error);
void vial_spool_free(VialSpool *spool); /* accepts NULL */
/* Something in the middle of what was there could not be read: not what a crash does. What is behind it was given all the same. */
gboolean vial_spool_is_damaged(const VialSpool *spool);

/* Of what there is, this much is kept for what is urgent: where there is no room, things must still be deleted and stopped, on record. */
#define VIAL_SPOOL_URGENT_BYTES (1024 * 1024)
/* NO_SPACE when the disk has no room for it. */
gboolean vial_spool_reserve(VialSpool *spool, gsize size, gboolean is_urgent, GError **error);
void vial_spool_unreserve(VialSpool *spool, gsize size);
/* What an entry of so many bytes takes. */
gsize vial_spool_cost(gsize size);

/* Into room that was reserved (which stays reserved until it is given back). *out_segment is where it is. */
gboolean vial_spool_append(VialSpool *spool, VialSpoolKind kind, const char *bytes, gsize size, guint *out_segment, GError **error);
guint vial_spool_current(const VialSpool *spool);
/* The next entry begins a new segment, so that the one before can go although it is not full. What was promised room keeps it. */
gboolean vial_spool_turn(VialSpool *spool, GError **error);
/* Segments before this one go. */
void vial_spool_release(VialSpool *spool, guint before);
/* A descriptor of the current segment, to be flushed by whoever waits for the disk, and closed. */
int vial_spool_dup(VialSpool *spool);
