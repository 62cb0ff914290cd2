/* SPDX-License-Identifier: Apache-2.0 */
/* Files as E2B shows them. */
#pragma once

#include <jansson.h>

/* An EntryInfo of an entry (operations/files.h): a new reference. */
json_t *vial_e2b_entry_json(const json_t *entry);
