/* SPDX-License-Identifier: Apache-2.0 */
/* Quotas on the command line: as options of `project` and `key` (--max-sandboxes 20), and as words of `quota set` (max_sandboxes=20). */
#pragma once

#include <glib.h>
#include <jansson.h>

#include "cli/options.h"

enum { VIAL_QUOTA_COUNT = 11 };

/* Where VIAL_QUOTA_OPTIONS store what was given: as it was typed, NULL when it was not. */
extern char *vial_quota_given[VIAL_QUOTA_COUNT];

#define VIAL_QUOTA_OPTION(index, name, value, help, values)                                \
	{                                                                                  \
		0, name, VIAL_OPTION_STRING, &vial_quota_given[index], value, help, values \
	}
#define VIAL_QUOTA_OPTIONS                                                                                                                   \
	VIAL_QUOTA_OPTION(0, "max-sandboxes", "N", "how many sandboxes, sleeping ones too; none: no limit", "none"),                         \
		VIAL_QUOTA_OPTION(1, "max-vcpu", "N", "how many processors, of sandboxes that are awake", "none"),                           \
		VIAL_QUOTA_OPTION(2, "max-memory-mb", "MB", "how much memory, of sandboxes that are awake; 64G is 65536", "none"),           \
		VIAL_QUOTA_OPTION(3, "max-disk-mb", "MB", "how much disk; 1T is 1048576", "none"),                                           \
		VIAL_QUOTA_OPTION(4, "max-snapshot-bytes", "BYTES", "how large all snapshots may be; also 20G", "none"),                     \
		VIAL_QUOTA_OPTION(5, "max-templates", "N", "how many templates of its own", "none"),                                         \
		VIAL_QUOTA_OPTION(6, "max-create-per-hour", "N", "how many creations and forks in 60 minutes", "none"),                      \
		VIAL_QUOTA_OPTION(7, "max-concurrent-runs", "N", "how many cells, commands and terminals at a time", "none"),                \
		VIAL_QUOTA_OPTION(8, "max-ttl-seconds", "TIME", "how long a sandbox may live: seconds, or 8h", "none"),                      \
		VIAL_QUOTA_OPTION(9, "network-modes", "LIST", "of disabled, filtered and open, with commas", "disabled filtered open none"), \
		VIAL_QUOTA_OPTION(10, "tiers", "LIST", "sizes that a sandbox must fit into: 2x4 is 2 processors and 4 GB, with commas",      \
	                          "2x2 2x4 2x8 2x16 4x2 4x4 4x8 4x16 none")

const char *vial_quota_name(guint index); /* as the API calls it */
/* All names, each with `suffix`, separated by blanks. To be freed. */
char *vial_quota_names(const char *suffix);

/* What was typed as the API wants it: null for "none". NULL with *error, which says what would do. */
json_t *vial_quota_value(const char *name, const char *text, GError **error);
/* "NAME=VALUE" into `quotas`. */
gboolean vial_quota_set_pair(json_t *quotas, const char *pair, GError **error);
/* The options that were given; an empty object when none was. NULL with *error. */
json_t *vial_quota_from_options(GError **error);
/* A value of the API for people: "64 GiB", "8h", "disabled, filtered"; "none" where there is no limit. To be freed. */
char *vial_quota_text(const char *name, const json_t *value);
