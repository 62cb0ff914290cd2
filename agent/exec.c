/* SPDX-License-Identifier: Apache-2.0 */
/* exec: reads the request; process.c does the rest. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "env.h"
#include "fspath.h"
#include "ops.h"
#include "process.h"

#define MAX_ARGUMENTS 8192
#define DEFAULT_ROWS 24
#define DEFAULT_COLUMNS 80

/* An argv from "argv" or "cmd", pointing into the request; NULL after closing the stream. */
static const char **read_argv(struct vial_stream *stream, json_t *request)
{
	json_t *list = json_object_get(request, "argv");
	json_t *command = json_object_get(request, "cmd");
	size_t count = json_array_size(list);
	const char **argv;

	if (json_is_string(command) && !list) {
		argv = calloc(4, sizeof(*argv));
		if (argv) {
			argv[0] = "/bin/bash";
			argv[1] = "-lc";
			argv[2] = json_string_value(command);
		}
	} else if (json_is_array(list) && !command && count > 0 && count <= MAX_ARGUMENTS) {
		argv = calloc(count + 1, sizeof(*argv));
		for (size_t i = 0; argv && i < count; i++) {
			argv[i] = json_string_value(json_array_get(list, i));
			if (!argv[i]) {
				free(argv);
				vial_stream_close_error(stream, VIAL_INVALID, "every element of \"argv\" must be a string");
				return NULL;
			}
		}
	} else {
		vial_stream_close_error(stream, VIAL_INVALID, "give either \"cmd\", a string, or \"argv\", a list of 1 to %d strings", MAX_ARGUMENTS);
		return NULL;
	}
	if (!argv)
		vial_stream_close_errno(stream, ENOMEM, "cannot start a process");
	return argv;
}

static bool read_pty(struct vial_stream *stream, json_t *request, struct vial_process_options *options)
{
	json_t *pty = json_object_get(request, "pty");
	json_int_t rows, columns;

	if (!pty || json_is_null(pty) || json_is_false(pty))
		return true;
	if (!json_is_object(pty)) {
		vial_stream_close_error(stream, VIAL_INVALID, "the field \"pty\" must be an object with \"rows\" and \"cols\"");
		return false;
	}
	if (!vial_request_integer(stream, pty, "rows", 1, 4095, DEFAULT_ROWS, &rows) ||
	    !vial_request_integer(stream, pty, "cols", 1, 4095, DEFAULT_COLUMNS, &columns))
		return false;
	options->is_pty = true;
	options->rows = (unsigned short)rows;
	options->columns = (unsigned short)columns;
	return true;
}

static bool read_options(struct vial_stream *stream, json_t *request, struct vial_process_options *options)
{
	json_int_t timeout_ms, max_output_bytes;

	if (!vial_request_bool(stream, request, "stdin", &options->has_stdin) ||
	    !vial_request_bool(stream, request, "background", &options->is_background) ||
	    !vial_request_bool(stream, request, "attached", &options->is_attached) ||
	    !vial_request_bool(stream, request, "unlisted", &options->is_unlisted) ||
	    !vial_request_integer(stream, request, "timeout_ms", 0, VIAL_MAX_TIMEOUT_MS, 0, &timeout_ms) ||
	    !vial_request_integer(stream, request, "max_output_bytes", 0, INT64_MAX, 0, &max_output_bytes) ||
	    !vial_request_id(stream, request, "execution_id", max_output_bytes > 0, &options->execution_id) || !read_pty(stream, request, options))
		return false;
	options->is_attached = options->is_attached && options->is_background;
	options->timeout_ms = timeout_ms;
	options->max_output_bytes = (uint64_t)max_output_bytes;
	return true;
}

static bool read_user(struct vial_stream *stream, json_t *request, struct vial_user *out_user)
{
	int result = vial_user_from_json(request, out_user);
	const char *name = json_string_value(json_object_get(request, "user"));

	if (result == -ENOENT)
		vial_stream_close_error(stream, VIAL_INVALID, "there is no user \"%.64s\" in this sandbox", name ? name : "user");
	else if (result < 0)
		vial_stream_close_errno(stream, result, "the field \"user\"");
	return result == 0;
}

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

void vial_op_exec(struct vial_stream *stream, json_t *request)
{
	struct vial_process_options options = { 0 };
	struct vial_user user;
	char cwd[PATH_MAX];
	const char **argv;
	char **env;

	if (!read_options(stream, request, &options) || !read_user(stream, request, &user) || !read_cwd(stream, request, cwd))
		return;
	argv = read_argv(stream, request);
	if (!argv)
		return;
	if (!vial_env_check(stream, json_object_get(request, "env"))) {
		free(argv);
		return;
	}
	if (vial_env_build(&user, json_object_get(request, "env"), options.is_pty, &env) < 0) {
		free(argv);
		vial_stream_close_error(stream, VIAL_INTERNAL, "out of memory");
		return;
	}
	options.argv = argv;
	options.shell_line = json_object_get(request, "cmd") ? argv[2] : NULL;
	options.cwd = cwd;
	options.env = env;
	options.user = &user;
	vial_process_start(stream, &options);
	vial_env_free(env);
	free(argv);
}
