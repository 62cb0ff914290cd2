/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A folder as one tar archive, out of a sandbox and into it. It is packed and unpacked in the guest, by the image's tar, with no more rights than a
 * command has there: to us it is bytes that pass, of any size, at the pace of the slower side. On record as the reading or writing of that folder.
 */
#pragma once

#include "operations/files.h"

#define VIAL_WORKSPACE "/workspace"

/* All is borrowed for the call. */
typedef struct {
	const char *path;            /* the folder */
	const char *user;            /* NULL: root reads, so that nothing is missing; the sandbox's user writes, so that he owns it */
	const char *const *excludes; /* packing: paths in the folder, relative to it, that are left out; NULL: nothing is */
} VialArchiveRequest;

/*
 * Files, folders and symbolic links, by names that begin with "./"; two names of one file are two files, and what is neither (sockets, devices) is
 * left out: so whatever this gives can be unpacked by anybody. What changes meanwhile is in it as it was found.
 */
VialOperation *vial_op_archive_read(const VialCaller *caller, const char *sandbox_id, const VialArchiveRequest *request, const VialReadSink *sink,
                                    gpointer data, GError **error);

/*
 * What is written to the operation is unpacked while it comes. Members by absolute names land in the folder, those that go up (..) are refused, and
 * no member is written through a symbolic link that the archive brought and that leads out. What was unpacked before an error stays.
 */
typedef struct {
	void (*begun)(VialOperation *operation, gpointer data); /* may come before the function that began it has returned */
	void (*writable)(gpointer data);
	VialOperationDone end;
} VialArchiveSink;

VialOperation *vial_op_archive_write(const VialCaller *caller, const char *sandbox_id, const VialArchiveRequest *request, const VialArchiveSink *sink,
                                     gpointer data, GError **error);
