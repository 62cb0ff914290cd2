/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of ops.h, and the readers of request fields. */
#include "ops.h"

#include <ctype.h>
#include <string.h>

#include "ctxresume.h"
#include "identity.h"

static const struct vial_op ops[] = {
	{ "ctx.create", vial_op_ctx_create },
	{ "ctx.delete", vial_op_ctx_delete },
	{ "ctx.interrupt", vial_op_ctx_interrupt },
	{ "ctx.list", vial_op_ctx_list },
	{ "ctx.restart", vial_op_ctx_restart },
	{ "ctx.run", vial_op_ctx_run },
	{ "exec", vial_op_exec },
	{ "fs.list", vial_op_fs_list },
	{ "fs.mkdir", vial_op_fs_mkdir },
	{ "fs.move", vial_op_fs_move },
	{ "fs.read", vial_op_fs_read },
	{ "fs.remove", vial_op_fs_remove },
	{ "fs.stat", vial_op_fs_stat },
	{ "fs.watch", vial_op_fs_watch },
	{ "fs.write", vial_op_fs_write },
	{ "layer", vial_op_layer, .is_ours = true },
	{ "metrics", vial_op_metrics },
	{ "net.resolver", vial_op_net_resolver, .is_ours = true },
	{ "ports", vial_op_ports },
	{ "proc.attach", vial_op_proc_attach },
	{ "proc.list", vial_op_proc_list },
	{ "proc.read", vial_op_proc_read },
	{ "proc.resize", vial_op_proc_resize },
	{ "proc.signal", vial_op_proc_signal },
	{ "proc.stdin", vial_op_proc_stdin },
	{ "tcp", vial_op_tcp },
	{ "warm", vial_op_warm, .is_ours = true },
};

const struct vial_resume_hook vial_resume_hooks[] = {
	{ "entropy", vial_identity_entropy },
	{ "clock", vial_identity_clock },
	{ "hostname", vial_identity_hostname },
	/* Last: kernels seed themselves from what the first has renewed. */
	{ "kernels", vial_ctx_resume },
	{ NULL, NULL },
};

const struct vial_op *vial_op_find(const char *name)
{
	for (size_t i = 0; i < sizeof(ops) / sizeof(*ops); i++) {
		if (strcmp(ops[i].name, name) == 0)
			return &ops[i];
	}
	return NULL;
}

bool vial_request_string(struct vial_stream *stream, json_t *request, const char *field, bool is_required, const char **out_value)
{
	json_t *value = json_object_get(request, field);

	if (json_is_string(value)) {
		*out_value = json_string_value(value);
		return true;
	}
	if ((!value || json_is_null(value)) && !is_required) {
		*out_value = NULL;
		return true;
	}
	vial_stream_close_error(stream, VIAL_INVALID, "the field \"%s\" must be a string", field);
	return false;
}

static bool is_id(const char *text)
{
	size_t length = strlen(text);

	for (size_t i = 0; i < length; i++)
		if (!isalnum((unsigned char)text[i]) && text[i] != '-' && text[i] != '_')
			return false;
	return length >= 1 && length <= VIAL_REQUEST_ID_MAX;
}

bool vial_request_id(struct vial_stream *stream, json_t *request, const char *field, bool is_required, const char **out_value)
{
	if (!vial_request_string(stream, request, field, is_required, out_value))
		return false;
	if (!*out_value || is_id(*out_value))
		return true;
	vial_stream_close_error(stream, VIAL_INVALID, "\"%s\" must be 1 to %d letters, digits, - or _", field, VIAL_REQUEST_ID_MAX);
	return false;
}

bool vial_request_integer(struct vial_stream *stream, json_t *request, const char *field, json_int_t minimum, json_int_t maximum, json_int_t fallback,
                          json_int_t *out_value)
{
	json_t *value = json_object_get(request, field);

	if (!value || json_is_null(value)) {
		*out_value = fallback;
		return true;
	}
	if (json_is_integer(value) && json_integer_value(value) >= minimum && json_integer_value(value) <= maximum) {
		*out_value = json_integer_value(value);
		return true;
	}
	vial_stream_close_error(stream, VIAL_INVALID, "the field \"%s\" must be a whole number from %lld to %lld", field, (long long)minimum,
	                        (long long)maximum);
	return false;
}

bool vial_request_bool(struct vial_stream *stream, json_t *request, const char *field, bool *out_value)
{
	json_t *value = json_object_get(request, field);

	if (value && !json_is_null(value) && !json_is_boolean(value)) {
		vial_stream_close_error(stream, VIAL_INVALID, "the field \"%s\" must be true or false", field);
		return false;
	}
	*out_value = json_is_true(value);
	return true;
}
