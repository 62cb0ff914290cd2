/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where signed heads go besides the database, so that whoever owns it cannot write another history unnoticed: always a file of the data directory
 * (audit/heads.jsonl), and what the operator names (audit_heads_to): file:/path, syslog, https://… A head stands for everything before it, so of
 * those that could not be delivered only the newest is tried again, until it is. The audit's writer thread, and one for each place that may hang.
 */
#pragma once

#include "ledger/head.h"

typedef struct VialPlaces VialPlaces;

/* An error names the place. Destinations come from the configuration alone. */
VialPlaces *vial_places_new(const char *data_dir, const char *const *places, GError **error);
void vial_places_free(VialPlaces *places); /* accepts NULL; waits for what is under way, some seconds at most */
/* Blocks for the local file, not for the others. */
void vial_places_publish(VialPlaces *places, const VialLedgerHead *head);
/* To the remote ones alone: they may have it already. At the start. */
void vial_places_send_again(VialPlaces *places, const VialLedgerHead *head);
/* The newest heads of the local file, in their order. */
GArray *vial_places_read_last(const char *data_dir);
/* All heads of the local file, in their order; none when there is no file. Any thread. */
GArray *vial_places_read(const char *data_dir);
