/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nothing leaves before its record is on the disk. Whatever is given to a client (the head of an answer, each write of a
 * streamed one, its end) asks for the ticket of what was recorded and is not on the disk yet, and leaves a mark where it stands
 * in the answer; from the first mark on nothing is handed to libmicrohttpd until its ticket is committed. Marks are in order
 * of both place and ticket, since both only grow. When nothing is uncommitted there are none, and the question is all it costs.
 */
#include <string.h>

#include "http/internal.h"
#include "util/log.h"

static guint64 ask(const VialServer *server)
{
	return server->config.uncommitted ? server->config.uncommitted(server->config.commit_data) : 0;
}

void vial_commit_mark(VialRequest *request, gint64 place)
{
	VialHold *hold = &request->hold;
	guint64 ticket = ask(request->server);

	if (ticket == 0 || (hold->n_marks > 0 && hold->marks[hold->n_marks - 1].ticket == ticket))
		return;
	if (hold->n_marks == 0) {
		hold->link.data = request;
		g_queue_push_tail_link(&request->server->held, &hold->link);
	}
	/* Out of marks, the last one stands for more than it need: what is behind it waits a little longer. */
	if (hold->n_marks == VIAL_COMMIT_MAX_MARKS)
		hold->marks[hold->n_marks - 1].ticket = ticket;
	else
		hold->marks[hold->n_marks++] = (VialMark){ .ticket = ticket, .place = place };
}

gint64 vial_commit_limit(const VialRequest *request)
{
	return request->hold.n_marks > 0 ? request->hold.marks[0].place : VIAL_COMMIT_NO_LIMIT;
}

void vial_commit_forget(VialRequest *request)
{
	if (request->hold.n_marks > 0)
		g_queue_unlink(&request->server->held, &request->hold.link);
	request->hold.n_marks = 0;
}

static void release(VialRequest *request, guint64 ticket)
{
	VialHold *hold = &request->hold;
	guint n = 0;

	while (n < hold->n_marks && hold->marks[n].ticket <= ticket)
		n++;
	if (n == 0)
		return;
	if (n == hold->n_marks)
		g_queue_unlink(&request->server->held, &hold->link);
	hold->n_marks -= n;
	memmove(hold->marks, hold->marks + n, hold->n_marks * sizeof(VialMark));
	vial_reply_wake(request);
}

void vial_server_committed(VialServer *server, guint64 ticket)
{
	for (GList *l = server->held.head, *next; l; l = next) {
		next = l->next;
		release(l->data, ticket);
	}
}

/* With it go the headers that were set for it: they may tell as much. */
static void replace_answer(VialRequest *request)
{
	g_clear_pointer(&request->response, MHD_destroy_response);
	if (request->reply_headers)
		g_array_set_size(request->reply_headers, 0);
	request->is_answered = FALSE;
	vial_request_reply_fail(request, VIAL_ERROR_UNAVAILABLE, "what was done could not be recorded, so its answer is withheld; see viald's log");
	vial_commit_forget(request); /* this one says that there is no record, and waits for none */
	vial_reply_wake(request);
}

static void withhold(VialRequest *request)
{
	gboolean is_complete = !request->stream.is_open && !request->upgrade_ready;

	vial_commit_forget(request);
	if (request->is_gone)
		return;
	if (is_complete)
		replace_answer(request);
	else
		vial_connection_drop(request->connection); /* part of it may have left already */
}

void vial_server_commit_failed(VialServer *server)
{
	guint count = server->held.length;

	if (count == 0)
		return;
	g_autofree char *text = g_strdup_printf("%u", count);
	vial_log_error("http", "answers are withheld, because what they tell of could not be recorded", "count", text);
	/* Those that come meanwhile, from handlers that hear `gone`, are behind these. */
	for (; count > 0 && server->held.length > 0; count--)
		withhold(g_queue_peek_head(&server->held));
}
