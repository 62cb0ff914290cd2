/* SPDX-License-Identifier: Apache-2.0 */
/* What the verbs of `vial audit` share: the filters, and a record as a line for people. */
#pragma once

#include "cli/api.h"

typedef struct {
	char *project, *principal, *agent, *session, *sandbox, *action, *trace, *text, *from, *to;
	gboolean is_all;
} VialAuditFilters;

extern VialAuditFilters vial_audit_filters;
extern gint64 vial_audit_count; /* -n; -1: not said */

#define VIAL_AUDIT_FILTER_OPTIONS                                                                                                                        \
	{ 's', "sandbox", VIAL_OPTION_STRING, &vial_audit_filters.sandbox, "ID", "only of this sandbox", "@sandbox" },                                   \
		{ 0, "session", VIAL_OPTION_STRING, &vial_audit_filters.session, "NAME", "only of this session", NULL },                                 \
		{ 0, "agent", VIAL_OPTION_STRING, &vial_audit_filters.agent, "NAME", "only of this agent", NULL },                                       \
		{ 0, "principal", VIAL_OPTION_STRING, &vial_audit_filters.principal, "WHO", "only by this key or person: its name or id", "@key" },      \
		{ 0,                                                                                                                                     \
		  "action",                                                                                                                              \
		  VIAL_OPTION_STRING,                                                                                                                    \
		  &vial_audit_filters.action,                                                                                                            \
		  "ACTION",                                                                                                                              \
		  "only this: run, exec, file.write, key.revoke, ...",                                                                                   \
		  "run exec pty sandbox.create sandbox.delete sandbox.fork snapshot.take file.read file.write file.remove network.change port.open "     \
		  "preview.create key.create key.change key.rotate key.revoke key.refuse project.create project.change project.delete "                  \
		  "audit.export" },                                                                                                                      \
		{ 0, "trace", VIAL_OPTION_STRING, &vial_audit_filters.trace, "ID", "only with this trace id", NULL },                                    \
		{ 0, "from", VIAL_OPTION_STRING, &vial_audit_filters.from, "TIME", "from then on: 2h (ago), 2026-11-18 or 2026-11-18T08:00:00Z", NULL }, \
		{ 0, "to", VIAL_OPTION_STRING, &vial_audit_filters.to, "TIME", "until then, not included", NULL },                                       \
		{ 'p', "project", VIAL_OPTION_STRING, &vial_audit_filters.project, "NAME", "only of this project", "@project" },                         \
	{                                                                                                                                                \
		'a', "all", VIAL_OPTION_FLAG, &vial_audit_filters.is_all, NULL, "of all projects (an operator's key; for it the default)", NULL          \
	}
/* What only a search can do. */
#define VIAL_AUDIT_SEARCH_OPTIONS                                                                                                                   \
	{ 't', "text", VIAL_OPTION_STRING, &vial_audit_filters.text, "WORDS", "only with all these words in code, command, input or paths", NULL }, \
	{                                                                                                                                           \
		'n', "number", VIAL_OPTION_INT, &vial_audit_count, "N", "the last N records; 20 if not said", NULL                                  \
	}
#define VIAL_AUDIT_END                                            \
	{                                                         \
		0, NULL, VIAL_OPTION_FLAG, NULL, NULL, NULL, NULL \
	}

extern const VialOption vial_audit_tail_options[], vial_audit_export_options[], vial_audit_verify_options[];
int vial_audit_tail_run(VialCli *cli, int argc, char **argv);
int vial_audit_export_run(VialCli *cli, int argc, char **argv);
int vial_audit_verify_run(VialCli *cli, int argc, char **argv);

/* The filters as a query that begins with "&", or "". NULL with *error. */
char *vial_audit_query(VialCli *cli, GError **error);
/* VIAL_EXIT_USAGE for a filter that makes no sense, else VIAL_EXIT_ERROR; prints and frees the error. */
int vial_audit_fail(VialCli *cli, GError *error);

/* A page, newest first; `cursor` 0: the newest. */
json_t *vial_audit_page(VialCli *cli, const char *query, gint64 limit, gint64 cursor, GError **error);

/* Each to be freed, none cleaned. */
char *vial_audit_who(const json_t *record);
char *vial_audit_what(const json_t *record); /* the code, command, path or sentence that it is about */
const char *vial_audit_outcome_style(const char *outcome);
