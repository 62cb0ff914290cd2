/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the commands of a build have in common, its steps and the start of its template: they may print as much as they like, and what the agent says
 * of their end is believed as little as anything of a guest.
 */
#pragma once

#include "engine/channel.h"
#include "service/build_log.h"

/* Of a command that failed, so much is told. */
#define VIAL_COMMAND_TAIL_BYTES 4096

/*
 * Takes what one command prints into the log. Once that is full, or where there is none, output is read no faster than a steady pace, so that it
 * holds up nobody else. Zeroed, with `log` set, it is ready; both are borrowed, and the stream must live until vial_command_output_clear().
 */
typedef struct {
	VialBuildLog *log; /* NULL: nobody reads it */
	VialStream *stream;
	gsize owed; /* printed bytes whose credit is not given back yet */
	guint pace;
} VialCommandOutput;

void vial_command_output_take(VialCommandOutput *output, VialStream *stream, unsigned channel, GBytes *bytes);
void vial_command_output_clear(VialCommandOutput *output);

/* Keeps the end of what is added. */
void vial_command_tail_add(GString *tail, const void *bytes, gsize size);
/* As valid text, without a first line that was cut, which may have been half a secret. Free it. */
char *vial_command_tail_text(const GString *tail);

/* "it exited with 3", new; NULL when it ended well. FALSE: that is no command's end. Outputs are written when it returns TRUE. */
gboolean vial_command_end_read(const json_t *result, int *out_exit_code, char **out_how);
