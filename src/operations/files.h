/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files. Paths are never looked at here: the agent acts on them inside the guest with the asked user's rights. Bytes move at the pace of
 * the slower side in both directions, so files may have any size. Entries are {name, path, is_dir, type, size, mode, mtime, user, group, target?,
 * metadata?}.
 */
#pragma once

#include "operations/operation.h"

typedef struct {
	const char *path;
	const char *to;          /* moving */
	const char *user;        /* NULL: the sandbox's */
	const char *mode;        /* writing: octal; NULL: the default */
	json_t *metadata;        /* writing: an object of strings that are kept with the file, in place of those it had; NULL: none are wanted */
	gint64 depth;            /* listing: from 1 to VIAL_LIST_MAX_DEPTH */
	gboolean recursive;      /* removing, watching */
	gboolean only_folder;    /* watching: a file is refused */
	gboolean wants_metadata; /* listing, stat: what is kept with files is told, too */
} VialFileRequest;

typedef struct {
	/* The file is open and has that many bytes; -1 when that cannot be promised. */
	void (*opened)(gint64 size_bytes, gpointer data);
	gboolean (*data)(GBytes *bytes, gpointer data);
	void (*end)(const GError *error, gpointer data);
} VialReadSink;

VialOperation *vial_op_file_read(const VialCaller *caller, const char *sandbox_id, const VialFileRequest *request, const VialReadSink *sink,
                                 gpointer data, GError **error);

/* What is written to the operation goes into the file when it is complete; a cancelled one leaves the file as it was. */
typedef struct {
	void (*begun)(VialOperation *operation, gpointer data); /* may come before the function that began it has returned */
	void (*writable)(gpointer data);
	void (*end)(const char *path, gint64 bytes, const GError *error, gpointer data);
} VialWriteSink;

VialOperation *vial_op_file_write(const VialCaller *caller, const char *sandbox_id, const VialFileRequest *request, const VialWriteSink *sink,
                                  gpointer data, GError **error);

/* {entries: [...], truncated?}: at most VIAL_ANSWER_ENTRIES_BYTES. */
VialOperation *vial_op_file_list(const VialCaller *caller, const char *sandbox_id, const VialFileRequest *request, VialDocumentDone done,
                                 gpointer data, GError **error);
/* An entry. */
gboolean vial_op_file_stat(const VialCaller *caller, const char *sandbox_id, const VialFileRequest *request, VialDocumentDone done, gpointer data,
                           GError **error);
/* Without a document. */
gboolean vial_op_file_mkdir(const VialCaller *caller, const char *sandbox_id, const VialFileRequest *request, VialDocumentDone done, gpointer data,
                            GError **error);
gboolean vial_op_file_move(const VialCaller *caller, const char *sandbox_id, const VialFileRequest *request, VialDocumentDone done, gpointer data,
                           GError **error);
gboolean vial_op_file_remove(const VialCaller *caller, const char *sandbox_id, const VialFileRequest *request, VialDocumentDone done, gpointer data,
                             GError **error);

/* `event` is watching (once, when it is armed), create, modify, delete, move or overflow. */
typedef struct {
	const char *event;
	const char *path;
	const char *from; /* of a move, or NULL */
	gboolean is_dir;
} VialFileChange;

typedef struct {
	void (*begun)(VialOperation *operation, gpointer data); /* may come before the function that began it has returned */
	gboolean (*change)(const VialFileChange *change, gpointer data);
	void (*end)(const GError *error, gpointer data); /* always with an error: a watch has no end of its own */
} VialWatchSink;

VialOperation *vial_op_file_watch(const VialCaller *caller, const char *sandbox_id, const VialFileRequest *request, const VialWatchSink *sink,
                                  gpointer data, GError **error);
