/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of operations (docs/wire.md): one name, one handler. A new op is a new file, a declaration here and a line in
 * ops.c. And the resume hooks, which must all be done before a HELLO is confirmed.
 */
#pragma once

#include <stdbool.h>

#include <jansson.h>

#include "stream.h"

/* `request` is borrowed: json_incref() it to keep it. The handler closes the stream now or later. */
typedef void vial_op_fn(struct vial_stream *stream, json_t *request);

struct vial_op {
	const char *name;
	vial_op_fn *fn;
	bool is_ours; /* runs nothing of the user's: a sandbox that has had no other is as it was made */
};

/* The longest time limit of a run or a command, here as on the host: more is a mistake in the unit. */
#define VIAL_MAX_TIMEOUT_MS (INT64_C(7) * 24 * 3600 * 1000)

/* NULL when there is none of that name. */
const struct vial_op *vial_op_find(const char *name);

vial_op_fn vial_op_exec, vial_op_proc_attach, vial_op_proc_list, vial_op_proc_read, vial_op_proc_resize, vial_op_proc_signal, vial_op_proc_stdin;
vial_op_fn vial_op_fs_read, vial_op_fs_write, vial_op_fs_list, vial_op_fs_stat, vial_op_fs_mkdir, vial_op_fs_move, vial_op_fs_remove,
	vial_op_fs_watch;
vial_op_fn vial_op_tcp, vial_op_ports, vial_op_metrics, vial_op_net_resolver, vial_op_layer;
vial_op_fn vial_op_ctx_create, vial_op_ctx_delete, vial_op_ctx_interrupt, vial_op_ctx_list, vial_op_ctx_restart, vial_op_ctx_run, vial_op_warm;

/*
 * Resume hooks. At each HELLO every hook of the table in ops.c is started with the parsed HELLO (borrowed); each calls vial_resume_done()
 * once, now or later: error NULL when the module has reseeded and adjusted everything it owns, else a sentence. When all
 * are done the agent confirms; one error, or VIAL_RESUME_TIMEOUT_MS, and the HELLO is answered with an error (fail closed).
 */
#define VIAL_RESUME_TIMEOUT_MS 5000
#define VIAL_RESUME_TIMEOUT_MAX_MS 600000
/* The limit of this HELLO: a host may grant a slow machine more. */
int64_t vial_resume_timeout_ms(json_t *hello);

struct vial_resume;
typedef void vial_resume_fn(struct vial_resume *resume, json_t *hello, bool is_new_generation);
struct vial_resume_hook {
	const char *name; /* what "confirmed" lists */
	vial_resume_fn *fn;
};
extern const struct vial_resume_hook vial_resume_hooks[]; /* ends with a NULL name */

/* 64 fresh bytes from the HELLO for whoever reseeds; derive, do not hand out as they are. */
const uint8_t *vial_resume_entropy(const struct vial_resume *resume);
void vial_resume_done(struct vial_resume *resume, const char *error);

/* Field readers shared by the handlers. Each returns false after closing the stream with `invalid` and the field's name. */
bool vial_request_string(struct vial_stream *stream, json_t *request, const char *field, bool is_required, const char **out_value);
#define VIAL_REQUEST_ID_MAX 64
/* One that may become part of a file's name: 1 to VIAL_REQUEST_ID_MAX letters, digits, - or _. */
bool vial_request_id(struct vial_stream *stream, json_t *request, const char *field, bool is_required, const char **out_value);
bool vial_request_integer(struct vial_stream *stream, json_t *request, const char *field, json_int_t minimum, json_int_t maximum, json_int_t fallback,
                          json_int_t *out_value);
bool vial_request_bool(struct vial_stream *stream, json_t *request, const char *field, bool *out_value);
