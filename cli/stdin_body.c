/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/stdin_body.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "cli/api.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/transfer.h"

enum {
	INLINE_MAX_BYTES = 512 * 1024, /* well below viald's limit for a JSON body, escapes included */
	HINT_AFTER_MS = 3000,
};

static gboolean fail_interrupted(GError **error)
{
	g_set_error_literal(error, VIAL_HTTP_ERROR, VIAL_HTTP_INTERRUPTED, "interrupted");
	return FALSE;
}

/* A script's stdin is often a pipe that nobody ever closes: say what we are waiting for. */
static gboolean wait_for_first_byte(VialCli *cli, GError **error)
{
	struct pollfd wait[] = { { .fd = STDIN_FILENO, .events = POLLIN }, { .fd = vial_interrupt_fd(), .events = POLLIN } };
	if (poll(wait, 2, HINT_AFTER_MS) == 0) {
		vial_output_note(cli, "waiting for standard input to end (--no-stdin goes without)");
		while (poll(wait, 2, -1) < 0 && errno == EINTR && !vial_interrupt_pending())
			;
	}
	return vial_interrupt_pending() ? fail_interrupted(error) : TRUE;
}

/* Up to the inline limit and one byte more, by which the caller sees that there is more. */
static gboolean read_start(GByteArray *start, gboolean *out_ended, GError **error)
{
	char buffer[64 * 1024];
	*out_ended = FALSE;
	while (start->len <= INLINE_MAX_BYTES && !*out_ended) {
		ssize_t size = read(STDIN_FILENO, buffer, sizeof buffer);
		if (size < 0 && errno == EINTR && !vial_interrupt_pending())
			continue;
		if (size < 0 && errno == EINTR)
			return fail_interrupted(error);
		if (size < 0) {
			g_set_error(error, VIAL_HTTP_ERROR, VIAL_HTTP_FAILED, "standard input cannot be read: %s", g_strerror(errno));
			return FALSE;
		}
		g_byte_array_append(start, (const guint8 *)buffer, (guint)size);
		*out_ended = size == 0;
	}
	return TRUE;
}

/* The command of `body`, behind a shell that opens the file as stdin, removes its name and becomes the command. */
static void redirect(json_t *body, const char *file)
{
	static const char script[] = "exec <\"$0\" || exit 125; rm -f -- \"$0\"; exec \"$@\"";
	json_t *argv = json_pack("[ssss]", "/bin/sh", "-c", script, file);
	const char *line = vial_api_string(body, "cmd");
	if (line) {
		json_array_append_new(argv, json_string("/bin/bash"));
		json_array_append_new(argv, json_string("-lc"));
		json_array_append_new(argv, json_string(line));
		json_object_del(body, "cmd");
	} else {
		json_array_extend(argv, json_object_get(body, "argv"));
	}
	json_object_set_new(body, "argv", argv);
}

/* What was read already, then the rest of stdin: one stream. */
typedef struct {
	const GByteArray *start;
	gsize sent;
	VialProgress *progress;
} Upload;

static gssize on_read(void *buffer, gsize size, gpointer data, GError **error)
{
	Upload *upload = data;
	gsize ready = MIN(size, upload->start->len - upload->sent);
	if (ready > 0) {
		memcpy(buffer, upload->start->data + upload->sent, ready);
		upload->sent += ready;
		vial_progress_add(upload->progress, ready);
		return (gssize)ready;
	}
	gssize got;
	do
		got = read(STDIN_FILENO, buffer, size);
	while (got < 0 && errno == EINTR && !vial_interrupt_pending());
	if (got < 0)
		g_set_error(error, VIAL_HTTP_ERROR, vial_interrupt_pending() ? VIAL_HTTP_INTERRUPTED : VIAL_HTTP_FAILED,
		            "standard input cannot be read: %s", g_strerror(errno));
	else
		vial_progress_add(upload->progress, (gsize)got);
	return got;
}

static gboolean upload(VialCli *cli, const char *sandbox_id, const char *user, const GByteArray *start, const char *file, GError **error)
{
	g_autoptr(VialProgress) progress = vial_progress_new(cli);
	Upload flow = { .start = start, .progress = progress };
	g_autofree char *base = vial_api_path("/sandboxes/%s/fs?path=%s&mode=0600", sandbox_id, file);
	g_autofree char *as = user ? g_uri_escape_string(user, NULL, FALSE) : NULL;
	g_autofree char *path = g_strconcat(base, as ? "&user=" : NULL, as, NULL);
	g_auto(VialHttpRequest) request = { .method = "PUT", .path = path, .on_read = on_read, .upload_size = -1, .data = &flow };
	vial_progress_begin(progress, "standard input", -1);
	return vial_http_perform(cli->http, &request, error);
}

gboolean vial_stdin_attach(VialCli *cli, const char *sandbox_id, const char *user, json_t *body, GError **error)
{
	g_autoptr(GByteArray) start = g_byte_array_new();
	gboolean has_ended = FALSE;
	if (!wait_for_first_byte(cli, error) || !read_start(start, &has_ended, error))
		return FALSE;
	if (has_ended && start->len == 0)
		return TRUE;
	if (has_ended && g_utf8_validate_len((const char *)start->data, start->len, NULL)) { /* also refuses NUL */
		json_object_set_new(body, "stdin", json_stringn((const char *)start->data, start->len));
		return TRUE;
	}
	g_autofree char *file = g_strdup_printf("/tmp/.vial-stdin-%08x%08x", g_random_int(), g_random_int());
	if (!upload(cli, sandbox_id, user, start, file, error))
		return FALSE;
	redirect(body, file);
	return TRUE;
}
