/* SPDX-License-Identifier: Apache-2.0 */
/* viald's API as the commands use it: JSON in, JSON out, ids resolved. See spec/openapi.yaml for the routes. */
#pragma once

#include <jansson.h>

#include "cli/cli.h"

G_DEFINE_AUTOPTR_CLEANUP_FUNC(json_t, json_decref)

enum { VIAL_API_TIMEOUT_SECONDS = 600 }; /* any answer that is not a stream */
enum { VIAL_API_PARALLEL = 8 };          /* requests under way at once, for many small ones */

/* "/v1" and the format, each %s percent-encoded as one path or query component; only %s, %d and %% exist. Free it. */
char *vial_api_path(const char *format, ...);

/* `body` is consumed, NULL for none. *out_answer is NULL for an empty answer; `out_answer` itself may be NULL. */
gboolean vial_api_call(VialCli *cli, const char *method, const char *path, json_t *body, json_t **out_answer, GError **error);

/* The same without a time limit: the answer comes when some code of the user's has run. */
gboolean vial_api_run(VialCli *cli, const char *path, json_t *body, json_t **out_answer, GError **error);

/*
 * One method on many paths, `parallel` at a time, without a time limit. `bodies` (borrowed) may be NULL, and so may each.
 * For every i either answers[i] (NULL for an empty answer) or errors[i] is set; both arrays are given zeroed.
 */
void vial_api_call_many(VialCli *cli, const char *method, char **paths, guint count, json_t **bodies, guint parallel, json_t **answers,
                        GError **errors);

/* A full id as it is; the beginning of one is looked up. Free it. */
char *vial_api_sandbox_id(VialCli *cli, const char *given, GError **error);
/* A list over all its pages, as one JSON array. `path` has no limit and no cursor yet, and `query` is "" or begins with "&". */
json_t *vial_api_pages(VialCli *cli, const char *path, const char *query, GError **error);
json_t *vial_api_sandboxes(VialCli *cli, const char *query, GError **error);

/* Who we are to viald. Both are to be freed, and neither is NULL then. */
gboolean vial_api_me(VialCli *cli, char **out_project, char **out_role, GError **error);

/* The list in an answer that is an array itself or holds it under `name` or "items". Borrowed; NULL when there is none. */
json_t *vial_api_list(const json_t *answer, const char *name);
/* A member as text, numbers included; "" when absent or null. Free it. */
char *vial_api_text(const json_t *object, const char *name);
/* The same, fit for a line on a terminal. */
char *vial_api_line(const json_t *object, const char *name);
const char *vial_api_string(const json_t *object, const char *name); /* borrowed, NULL when no string */
gint64 vial_api_integer(const json_t *object, const char *name, gint64 otherwise);
/* {"a":"b"} as "a=b c=d". Free it. */
char *vial_api_pairs(const json_t *object);
/* The other way: a list of "K=V" (NULL: none) as a JSON object. NULL with *error, which names the option. */
json_t *vial_api_object_from_pairs(const GPtrArray *list, const char *option, GError **error);

/* For commands that do one thing to each of several sandboxes: calls `path_format` (one %s, the id) for each argument, prints
 * the id of each that succeeded, reports each failure; returns the exit status. */
int vial_api_each(VialCli *cli, const char *method, const char *path_format, int argc, char **argv);
