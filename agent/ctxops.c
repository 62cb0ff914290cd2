/* SPDX-License-Identifier: Apache-2.0 */
/* The operations ctx.* and warm. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ctx.h"
#include "ctxcode.h"
#include "ctxfiles.h"
#include "ctxrun.h"
#include "fspath.h"
#include "kernelspare.h"
#include "ops.h"

#define MAX_WARM 8

static struct vial_ctx *find_context(struct vial_stream *stream, json_t *request)
{
	const char *id;
	struct vial_ctx *ctx;

	if (!vial_request_string(stream, request, "id", true, &id))
		return NULL;
	ctx = vial_ctx_find(id);
	if (!ctx)
		vial_stream_close_error(stream, VIAL_NOT_FOUND, "there is no context \"%.64s\" in this sandbox", id);
	return ctx;
}

static const struct vial_language *find_language(struct vial_stream *stream, const char *name)
{
	const struct vial_language *language = vial_language_find(name);

	if (!language)
		vial_stream_close_error(stream, VIAL_INVALID, "there is no kernel for \"%.64s\"; there are python, javascript, typescript and bash",
		                        name);
	return language;
}

/* --- create, restart: answered when the kernel's process exists --- */

static void on_started(struct vial_ctx *ctx, const char *problem, void *data)
{
	struct vial_stream *stream = data;

	if (problem)
		vial_stream_close_error(stream, VIAL_UNAVAILABLE, "%s", problem);
	else
		vial_stream_close_ok(stream, json_pack("{s:o}", "context", vial_ctx_describe(ctx)));
}

static void forget_stream(struct vial_stream *stream)
{
	for (struct vial_ctx *ctx = vial_ctx_first(); ctx; ctx = ctx->next)
		vial_ctx_forget_waiter(ctx, stream);
}

static void on_wait_cancel(struct vial_stream *stream)
{
	forget_stream(stream);
	vial_stream_close_error(stream, VIAL_UNAVAILABLE, "cancelled");
}

static const struct vial_stream_handlers wait_handlers = { .on_cancel = on_wait_cancel, .on_drop = forget_stream };

static bool read_user(struct vial_stream *stream, json_t *request, struct vial_user *out_user)
{
	if (vial_user_from_json(request, out_user) == 0)
		return true;
	vial_stream_close_error(stream, VIAL_INVALID, "the field \"user\" names nobody in this sandbox");
	return false;
}

/* The working directory where the request says none. */
static bool read_cwd(struct vial_stream *stream, json_t *request, char out_cwd[PATH_MAX])
{
	const char *cwd;

	if (!vial_request_string(stream, request, "cwd", false, &cwd))
		return false;
	if (vial_path_absolute(cwd && *cwd ? cwd : vial_workdir(), out_cwd) == 0)
		return true;
	vial_stream_close_error(stream, VIAL_INVALID, "\"cwd\" is too long for a path");
	return false;
}

void vial_op_ctx_create(struct vial_stream *stream, json_t *request)
{
	const struct vial_language *language;
	const char *name, *id;
	char cwd[PATH_MAX];
	struct vial_user user;
	struct vial_ctx *ctx;
	int result;

	if (!vial_request_string(stream, request, "language", true, &name) || !vial_request_string(stream, request, "id", false, &id) ||
	    !read_user(stream, request, &user) || !read_cwd(stream, request, cwd))
		return;
	language = find_language(stream, name);
	if (!language)
		return;
	if (id && (!*id || strlen(id) >= VIAL_CTX_ID_BYTES ||
	           strspn(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") != strlen(id))) {
		vial_stream_close_error(stream, VIAL_INVALID, "\"id\" must be 1 to %d letters, digits, - or _", VIAL_CTX_ID_BYTES - 1);
		return;
	}
	result = vial_ctx_create(id, language, cwd, &user, false, &ctx);
	if (result == -EEXIST) {
		vial_stream_close_error(stream, VIAL_CONFLICT, "there is a context \"%.64s\" already", id);
	} else if (result == -ENOSPC) {
		vial_stream_close_error(stream, VIAL_LIMIT, "a sandbox has at most %d contexts; delete one", VIAL_CTX_MAX);
	} else if (result < 0) {
		vial_stream_close_errno(stream, result, "cannot make a context");
	} else {
		vial_stream_set_handlers(stream, &wait_handlers, NULL);
		vial_ctx_wait(ctx, false, on_started, stream);
	}
}

void vial_op_ctx_restart(struct vial_stream *stream, json_t *request)
{
	struct vial_ctx *ctx = find_context(stream, request);

	if (!ctx)
		return;
	vial_ctx_restart(ctx);
	vial_stream_set_handlers(stream, &wait_handlers, NULL);
	vial_ctx_wait(ctx, false, on_started, stream);
}

/* --- at once --- */

void vial_op_ctx_list(struct vial_stream *stream, json_t *request)
{
	json_t *list = json_array();

	/* Newest first in the table; oldest first for people. */
	for (struct vial_ctx *ctx = vial_ctx_first(); ctx; ctx = ctx->next)
		json_array_insert_new(list, 0, vial_ctx_describe(ctx));
	vial_stream_close_ok(stream, json_pack("{s:o}", "contexts", list));
}

void vial_op_ctx_delete(struct vial_stream *stream, json_t *request)
{
	struct vial_ctx *ctx = find_context(stream, request);

	if (!ctx)
		return;
	vial_ctx_delete(ctx);
	vial_stream_close_ok(stream, NULL);
}

void vial_op_ctx_interrupt(struct vial_stream *stream, json_t *request)
{
	struct vial_ctx *ctx = find_context(stream, request);

	if (ctx)
		vial_stream_close_ok(stream, json_pack("{s:b}", "interrupted", vial_ctx_interrupt(ctx)));
}

/* With its code. */
static void run_code(struct vial_stream *stream, json_t *request)
{
	const struct vial_language *language = NULL;
	const char *name = NULL, *problem;
	bool has_user = !json_is_null(json_object_get(request, "user")) && json_object_get(request, "user");
	char cwd[PATH_MAX];
	struct vial_user user;
	struct vial_ctx *ctx;

	if (json_object_get(request, "id")) {
		ctx = find_context(stream, request);
		if (ctx)
			vial_run_accept(ctx, stream, request, strcmp(ctx->language->name, "typescript") == 0);
		return;
	}
	if (!vial_request_string(stream, request, "language", true, &name))
		return;
	language = find_language(stream, name);
	if (!language)
		return;
	if ((has_user && !read_user(stream, request, &user)) || !read_cwd(stream, request, cwd))
		return;
	ctx = vial_ctx_default(language, has_user ? &user : NULL, false, &problem);
	if (!ctx) {
		vial_stream_close_error(stream, VIAL_LIMIT, "%s", problem);
		return;
	}
	vial_ctx_begin_in(ctx, cwd);
	vial_run_accept(ctx, stream, request, strcmp(language->name, "typescript") == 0);
}

void vial_op_ctx_run(struct vial_stream *stream, json_t *request)
{
	json_t *size = json_object_get(request, "code_bytes");

	if (size && !json_is_null(size))
		vial_code_receive(stream, request, run_code);
	else
		run_code(stream, request);
}

/* --- warm --- */

struct warming {
	struct vial_stream *stream;
	const struct vial_language *languages[MAX_WARM];
	size_t language_count;
	bool is_touch, has_spares;
	unsigned unfinished;
	char problem[600];
};

static void finish_warming(struct warming *warming)
{
	if (--warming->unfinished > 0)
		return;
	if (warming->problem[0] && warming->stream)
		vial_stream_close_error(warming->stream, VIAL_UNAVAILABLE, "%s", warming->problem);
	else if (warming->stream)
		vial_op_ctx_list(warming->stream, NULL);
	free(warming);
}

static void on_warm(struct vial_ctx *ctx, const char *problem, void *data)
{
	struct warming *warming = data;

	if (problem)
		snprintf(warming->problem, sizeof(warming->problem), "%s", problem);
	finish_warming(warming);
}

static void on_warm_cancel(struct vial_stream *stream)
{
	struct warming *warming = vial_stream_data(stream);

	warming->stream = NULL;
	vial_stream_close_error(stream, VIAL_UNAVAILABLE, "cancelled");
}

static void on_warm_drop(struct vial_stream *stream)
{
	struct warming *warming = vial_stream_data(stream);

	warming->stream = NULL;
}

static const struct vial_stream_handlers warm_handlers = { .on_cancel = on_warm_cancel, .on_drop = on_warm_drop };

static void on_spare(void *data)
{
	finish_warming(data);
}

/* The default contexts and the spares. A spare that does not come is no reason to fail. */
static void warm_all(struct warming *warming)
{
	for (size_t i = 0; i < warming->language_count; i++) {
		const char *problem = NULL;
		struct vial_ctx *ctx = vial_ctx_default(warming->languages[i], NULL, true, &problem);

		if (ctx && warming->is_touch)
			vial_ctx_touch(ctx);
		if (ctx)
			vial_ctx_wait(ctx, true, on_warm, warming);
		else
			on_warm(NULL, problem, warming);
		warming->unfinished++;
		if (warming->is_touch)
			vial_spare_touch(warming->languages[i], on_spare, warming);
		else if (warming->has_spares)
			vial_spare_prepare(warming->languages[i], on_spare, warming);
		else
			on_spare(warming);
	}
	finish_warming(warming);
}

void vial_op_warm(struct vial_stream *stream, json_t *request)
{
	json_t *names = json_object_get(request, "languages"), *name;
	struct warming *warming, read = { .stream = stream };
	size_t i;

	if (!vial_request_bool(stream, request, "touch", &read.is_touch) || !vial_request_bool(stream, request, "spares", &read.has_spares))
		return;
	if (!json_is_array(names) || json_array_size(names) > MAX_WARM) {
		vial_stream_close_error(stream, VIAL_INVALID, "\"languages\" must be a list of at most %d languages", MAX_WARM);
		return;
	}
	json_array_foreach (names, i, name) {
		read.languages[i] = json_is_string(name) ? find_language(stream, json_string_value(name)) : NULL;
		if (!json_is_string(name))
			vial_stream_close_error(stream, VIAL_INVALID, "every language must be a string");
		if (!read.languages[i])
			return;
	}
	read.language_count = json_array_size(names);
	read.unfinished = (unsigned)read.language_count + 1;
	warming = malloc(sizeof(*warming));
	if (!warming) {
		vial_stream_close_error(stream, VIAL_INTERNAL, "out of memory");
		return;
	}
	*warming = read;
	vial_stream_set_handlers(stream, &warm_handlers, warming);
	json_decref(vial_changes_end(vial_changes_begin(), NULL));
	warm_all(warming);
}
