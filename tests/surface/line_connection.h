/* SPDX-License-Identifier: Apache-2.0 */
/* One client of the line surface: its socket, what it still has to read, and the operation it waits for. */
#pragma once

#include "operations/operation.h"

typedef struct {
	int refs;
	VialApp *app;
	VialIdentity *identity; /* NULL until it has shown a key */
	int fd;                 /* -1 once it has gone */
	guint source;
	GIOCondition condition;
	GByteArray *in, *out;
	gboolean was_full;
	gboolean is_busy; /* a command is under way: the next one waits */
	VialOperation *operation;
} VialLineConnection;

/* Above it the client has enough for now. */
#define VIAL_LINE_FULL_BYTES (64 * 1024)

VialLineConnection *vial_line_connection_new(VialApp *app, int fd);
void vial_line_connection_close(VialLineConnection *connection);
VialLineConnection *vial_line_connection_ref(VialLineConnection *connection);
void vial_line_connection_unref(VialLineConnection *connection);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(VialLineConnection, vial_line_connection_unref)

/* TRUE when it has enough for now. */
gboolean vial_line_send(VialLineConnection *connection, const char *format, ...) G_GNUC_PRINTF(2, 3);
gboolean vial_line_send_block(VialLineConnection *connection, const char *name, const void *bytes, gsize size);
/* The command is answered. */
void vial_line_refuse(VialLineConnection *connection, const GError *error);
void vial_line_done(VialLineConnection *connection);

/* line_commands.c: one whole command; FALSE when more of it is to come. */
gboolean vial_line_take_command(VialLineConnection *connection);
