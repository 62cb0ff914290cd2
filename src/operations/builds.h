/* SPDX-License-Identifier: Apache-2.0 */
/* Custom templates: asking for a build, watching and cancelling it; a sandbox that becomes a template; the end of one. */
#pragma once

#include "operations/operation.h"
#include "service/build_context.h"
#include "service/builds.h"

/* All is borrowed for the call; what is NULL or VIAL_UNSAID was not said. */
typedef struct {
	const char *id;      /* what it is to be called (announced.h); NULL: a new one */
	const char *name;    /* name or name:tag */
	json_t *tags;        /* more of them */
	const char *base;    /* NULL: the default template */
	const char *workdir; /* where the steps begin, if the base does not say; NULL: where a sandbox's commands do */
	json_t *steps;       /* a list, or */
	gboolean may_copy;   /* there may be COPYs among them (steps.h) */
	const char *dockerfile;
	json_t *args;        /* for its ARGs */
	const char *context; /* the archive that its COPYs copy from; NULL: there is none */
	const char *tier;
	double cpu;
	gint64 memory_mb, disk_mb;
	json_t *network; /* of the build */
	json_t *secrets; /* names to values: in the environment of its steps */
	const char *warm;
	/* What its sandboxes find running, and what tells that it is ready (service/start.h). Both NULL: as the base has it; `start_command` "":
	 * nothing. */
	const char *start_command, *ready_command;
	const char *start_user; /* who runs them; NULL: `user` */
	gint64 timeout_seconds;
	gboolean no_cache;
} VialTemplateBuildRequest;

/* The files that COPYs of a build to come are about, as its client sends them; the hash that the sink is told is that build's `context`. */
VialBuildContext *vial_op_build_context(const VialCaller *caller, const VialBuildFileSink *sink, gpointer data, GError **error);
/* For the record: the sink was told why they cannot be kept, so that there will be no build. */
void vial_op_build_context_refused(const VialCaller *caller, const GError *refusal);
/* `document` is the build. */
gboolean vial_op_template_build(const VialCaller *caller, const VialTemplateBuildRequest *request, VialDocumentDone done, gpointer data,
                                GError **error);
/* The same again, on what the base is now; secrets have to be given again. */
gboolean vial_op_template_rebuild(const VialCaller *caller, const char *name, json_t *secrets, gboolean no_cache, VialDocumentDone done,
                                  gpointer data, GError **error);
/* Each a string, at most 16: whether templates of this name can have them. */
gboolean vial_template_tags_check(VialApp *app, const char *name, const json_t *tags, GError **error);
/* More tags for the one that `name` means, which others of that name lose. Its id, borrowed; NULL with an error. */
const char *vial_op_template_tag(const VialCaller *caller, const char *name, json_t *tags, VialOperationDone done, gpointer data, GError **error);
/* These tags are nobody's any more; what has none left is deleted. */
gboolean vial_op_template_untag(const VialCaller *caller, const char *name, json_t *tags, VialOperationDone done, gpointer data, GError **error);
/* All of a name (without a tag), newest first: VialCustomTemplate, borrowed elements. NULL with an error. */
GPtrArray *vial_op_template_versions(const VialCaller *caller, const char *name, GError **error);
gboolean vial_op_template_delete(const VialCaller *caller, const char *name, VialOperationDone done, gpointer data, GError **error);
/* This sandbox, as it is now. `document` is the template. */
gboolean vial_op_template_from_sandbox(const VialCaller *caller, const char *sandbox_id, const char *name, VialDocumentDone done, gpointer data,
                                       GError **error);

json_t *vial_op_build_list(const VialCaller *caller, const char *template_name, const char *status, GError **error);
json_t *vial_op_build_get(const VialCaller *caller, const char *id, GError **error);
/* The build as it is then, which is over when nothing of it is left. */
json_t *vial_op_build_cancel(const VialCaller *caller, const char *id, GError **error);
VialBuildLogReader *vial_op_build_logs(const VialCaller *caller, const char *id, gboolean follows, const VialBuildLogSink *sink, gpointer data,
                                       GError **error);
