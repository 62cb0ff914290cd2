/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A template's start command and ready command. The first is started while the template is baked and goes on running in every sandbox made of it, the
 * second tells by its exit code when that may be: it is run again and again until it succeeds. Either may be there alone.
 *
 *     vial_start_begin() -> started -> ready command, pause, ready command, … -> done(NULL)
 *            \-> any failure, or out of time ----------------------------------> done(problem)
 *
 * The start command is an ordinary background command of the sandbox: it is in the list of its processes, and ends with nobody. Main thread.
 */
#pragma once

#include "engine/channel.h"
#include "service/build_log.h"

/* What it may take at most, whatever the build's own time is. */
#define VIAL_START_MAX_SECONDS 300

typedef struct {
	const char *command; /* a line for bash as a login shell; NULL: there is only the ready command */
	const char *ready;   /* another; NULL: it is ready some seconds after it was started */
	const char *user;    /* who runs both; NULL: `user` */
	const char *workdir; /* NULL: where the sandbox's commands start */
	json_t *env;         /* above the sandbox's own; NULL: none */
	gint64 limit_seconds;
	VialBuildLog *log; /* what they print; NULL: nobody reads it */
	/* The guest's, asked for whenever something is said to it; NULL when it has ended. */
	VialChannel *(*channel)(gpointer data);
	/* Once, from the loop; `problem` is NULL or what the template's owner should read. The start may be freed in it. */
	void (*done)(const char *problem, gpointer data);
	gpointer data;
} VialStartSpec;

typedef struct VialStart VialStart;

/* What `spec` points to must live until the start is freed. */
VialStart *vial_start_begin(const VialStartSpec *spec);
/* Its time is over, whatever its own limit says: `done`, at once, with what it waited for. */
void vial_start_expire(VialStart *start);
/* Before it is done the commands are ended, or left to the guest's end; afterwards the start command goes on. Accepts NULL. */
void vial_start_free(VialStart *start);
