/* SPDX-License-Identifier: Apache-2.0 */
#include "operations/uploads.h"

#include <string.h>

#include "operations/entry.h"
#include "service/build_files.h"
#include "service/quota.h"
#include "util/hash.h"
#include "util/id.h"
#include "util/json.h"
#include "util/time.h"

/* As many as two builds of the most steps there may be. */
#define MAX_PER_PROJECT 256
#define LIFE_MS (3600 * 1000)
#define TICKET_DIGITS 40

typedef struct {
	char *name;
	VialIdentity *identity;
	guint8 digest[VIAL_SHA256_BYTES]; /* of the ticket, which is nowhere here */
	gint64 offered_ms;                /* monotonic */
} Ticket;

struct VialUploads {
	GQueue tickets; /* oldest first */
};

struct VialUpload {
	VialEntry *entry;
	VialBuildUpload *file;
	const VialUploadSink *sink;
	gpointer data;
};

/* Tickets */

static void ticket_free(gpointer data)
{
	Ticket *ticket = data;

	vial_identity_unref(ticket->identity);
	g_free(ticket->name);
	g_free(ticket);
}

static void drop(VialUploads *uploads, GList *link)
{
	ticket_free(link->data);
	g_queue_delete_link(&uploads->tickets, link);
}

VialUploads *vial_uploads_new(void)
{
	VialUploads *uploads = g_new0(VialUploads, 1);

	g_queue_init(&uploads->tickets);
	return uploads;
}

void vial_uploads_free(VialUploads *uploads)
{
	if (!uploads)
		return;
	g_queue_clear_full(&uploads->tickets, ticket_free);
	g_free(uploads);
}

/* What is too old goes, and of a project that has as many as it may, its oldest. */
static void make_room(VialUploads *uploads, const char *project)
{
	gint64 now_ms = vial_time_monotonic_ms();
	GList *oldest = NULL, *next;
	guint count = 0;

	for (GList *link = uploads->tickets.head; link; link = next) {
		const Ticket *ticket = link->data;

		next = link->next;
		if (now_ms - ticket->offered_ms > LIFE_MS || ticket->identity->has_ended) {
			drop(uploads, link);
		} else if (strcmp(ticket->identity->project, project) == 0) {
			oldest = oldest ? oldest : link;
			count++;
		}
	}
	if (count >= MAX_PER_PROJECT)
		drop(uploads, oldest);
}

static gboolean check_name(const char *name, GError **error)
{
	return vial_build_file_is_name(name) ||
	       vial_fail(error, VIAL_ERROR_INVALID, "files of a build are called by 64 hexadecimal digits (0-9, a-f)");
}

/* Whoever makes sandboxes through agents alone builds nothing, and has nothing to send for it. */
static gboolean may_build(const VialCaller *caller, GError **error)
{
	g_autoptr(GError) refusal = NULL;

	if (!vial_operation_admit(caller, VIAL_VERB_TEMPLATE_UPLOAD, NULL, 0, NULL, error))
		return FALSE;
	if (vial_ceiling_agentless(caller->principal, &refusal))
		return TRUE;
	vial_entry_refuse(caller, VIAL_VERB_TEMPLATE_UPLOAD, NULL, NULL, refusal);
	g_propagate_error(error, g_steal_pointer(&refusal));
	return FALSE;
}

/*
 * Names are the client's, and whoever may send can send anything under any of them. So a key that may do less than its project has names of its own:
 * else it could put its files into what another key builds, by calling them as that one calls its own.
 */
static char *kept_name(const VialCaller *caller, const char *name)
{
	const VialIdentity *principal = caller->principal;
	g_autofree char *whole = g_strconcat(principal->id, "/", name, NULL);
	guint8 digest[VIAL_SHA256_BYTES];

	if (!principal->allow && !principal->limits)
		return g_strdup(name);
	vial_sha256(whole, strlen(whole), digest);
	return vial_hex_encode(digest, sizeof(digest));
}

static const char *find(const VialCaller *caller, const char *name)
{
	g_autofree char *kept = kept_name(caller, name);

	return vial_build_files_find(caller->app, caller->principal->project, kept);
}

char *vial_op_upload_offer(const VialCaller *caller, const char *name, gboolean *out_is_present, GError **error)
{
	VialUploads *uploads = caller->app->uploads;
	g_autofree char *text = NULL;
	Ticket *ticket;

	if (!may_build(caller, error) || !check_name(name, error))
		return NULL;
	make_room(uploads, caller->principal->project);
	text = vial_secret_new("", TICKET_DIGITS);
	ticket = g_new0(Ticket, 1);
	*ticket = (Ticket){ .name = g_strdup(name), .identity = vial_identity_ref((VialIdentity *)caller->principal) };
	vial_sha256(text, strlen(text), ticket->digest);
	ticket->offered_ms = vial_time_monotonic_ms();
	g_queue_push_tail(&uploads->tickets, ticket);
	*out_is_present = find(caller, name) != NULL;
	return g_steal_pointer(&text);
}

VialIdentity *vial_uploads_claim(VialApp *app, const char *text, const char *name, GError **error)
{
	VialUploads *uploads = app->uploads;
	guint8 digest[VIAL_SHA256_BYTES];

	vial_sha256(text, strlen(text), digest);
	for (GList *link = uploads->tickets.head; link; link = link->next) {
		Ticket *ticket = link->data;
		VialIdentity *identity;

		if (!vial_constant_time_equal(digest, ticket->digest, sizeof(digest)) || strcmp(name, ticket->name) != 0 ||
		    vial_time_monotonic_ms() - ticket->offered_ms > LIFE_MS)
			continue;
		identity = vial_identity_ref(ticket->identity);
		drop(uploads, link);
		return identity;
	}
	vial_fail(error, VIAL_ERROR_FORBIDDEN,
	          "this address was given to nobody, has been used or is older than an hour: ask for another one to send the files to");
	return NULL;
}

/* Finding */

const char *vial_op_upload_find(const VialCaller *caller, const char *name, GError **error)
{
	if (!may_build(caller, error) || !check_name(name, error))
		return NULL;
	return find(caller, name);
}

/* Sending */

static void on_writable(gpointer data)
{
	VialUpload *upload = data;

	upload->sink->writable(upload->data);
}

static void on_end(const char *hash, gint64 size_bytes, const GError *error, gpointer data)
{
	VialUpload *upload = data;
	g_autoptr(GError) unrecorded = NULL;

	vial_entry_count(upload->entry, (guint64)size_bytes, 0);
	if (hash)
		json_object_set_new(vial_entry_body(upload->entry), "sha256", json_string(hash));
	error = vial_entry_settle(upload->entry, error, &unrecorded);
	upload->sink->end(error, upload->data);
	g_free(upload);
}

VialUpload *vial_op_upload_begin(const VialCaller *caller, const char *name, gint64 size_bytes, const VialUploadSink *sink, gpointer data,
                                 GError **error)
{
	static const VialBuildFileSink file_sink = { .writable = on_writable, .end = on_end };
	g_autofree char *kept = NULL;
	GError *refusal = NULL;
	VialUpload *upload;
	VialEntry *entry;

	if (!may_build(caller, error) || !check_name(name, error) ||
	    !(entry = vial_entry_begin(caller, VIAL_VERB_TEMPLATE_UPLOAD, NULL, json_pack("{s:s}", "files", name), error)))
		return NULL;
	upload = g_new0(VialUpload, 1);
	*upload = (VialUpload){ .entry = entry, .sink = sink, .data = data };
	kept = kept_name(caller, name);
	upload->file = vial_build_files_begin(caller->app, caller->principal->project, kept, size_bytes, &file_sink, upload, &refusal);
	if (upload->file)
		return upload;
	vial_entry_settle(entry, refusal, NULL);
	g_propagate_error(error, refusal);
	g_free(upload);
	return NULL;
}

gboolean vial_upload_write(VialUpload *upload, const void *bytes, gsize size)
{
	return vial_build_upload_write(upload->file, bytes, size);
}

void vial_upload_finish(VialUpload *upload)
{
	vial_build_upload_finish(upload->file);
}

void vial_upload_cancel(VialUpload *upload)
{
	if (!upload)
		return;
	vial_build_upload_abort(upload->file);
	vial_entry_end(upload->entry, "cancelled", NULL, NULL);
	g_free(upload);
}
