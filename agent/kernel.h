/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One language kernel: a process in the zone and five pipes to it. docs/kernels.md has the protocol.
 *
 *   1, 2  its stdout and stderr, also those of its children
 *   3     requests to it       4  messages from it: length in decimal, newline, JSON
 *   5     control messages to it while it is busy (reseed, interrupt, sync); for bash a memory file with the cell
 *   6     for JavaScript: a module that stirs OpenSSL's generator (native/reseed.c), a memory file
 *
 * What it prints and what it sends come out here in the order in which they happened: before a message is handed over, everything that lay
 * in the other two pipes when it was read has been handed over.
 *
 * Everything from a kernel is hostile (kernelmsg.h): garbage on the message pipe, or its end before the kernel's, ends the kernel, and after it no
 * message is believed.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "kernellang.h"
#include "kernelmsg.h"
#include "spawn.h"
#include "users.h"

struct vial_kernel;

struct vial_kernel_handlers {
	/* How much output may be handed over now; 0 stops all reading until vial_kernel_continue(). */
	size_t (*room)(void *data);
	void (*on_output)(uint8_t channel, const uint8_t *bytes, size_t size_bytes, void *data);
	/* Borrowed. Of every type but VIAL_MESSAGE_SYNC, which is answered here. */
	void (*on_message)(const struct vial_message *message, void *data);
	/* It broke the protocol and is being killed; `reason` is a literal. on_exit follows. */
	void (*on_broken)(const char *reason, void *data);
	/* The process exists. */
	void (*on_started)(void *data);
	/* It never ran. The kernel is gone after the call. */
	void (*on_failed)(enum vial_spawn_stage stage, int error, void *data);
	/* It has ended and everything it wrote has been handed over. The kernel is gone after the call. */
	void (*on_exit)(const struct vial_exit *exit, void *data);
};

struct vial_kernel_options {
	const struct vial_language *language;
	const struct vial_user *user;
	const char *cwd;
	const char *const *env;
	enum vial_warmth warmth;
};

/* 0 or -errno; then nothing is called. */
int vial_kernel_start(const struct vial_kernel_options *options, const struct vial_kernel_handlers *handlers, void *data,
                      struct vial_kernel **out_kernel);

/* Whatever it says from now on it says to somebody else. */
void vial_kernel_hand_over(struct vial_kernel *kernel, const struct vial_kernel_handlers *handlers, void *data);

struct vial_kernel_request {
	const char *execution_id; /* letters, digits, - and _ only */
	unsigned number;          /* of the run in its context: what an interrupt is meant for */
	json_t *code;
	json_t *environment; /* changes to the kernel's own environment, null removes; may be NULL */
	json_t *env;         /* for this run only; may be NULL */
	json_t *argv;        /* likewise: the program's name and its arguments */
	const char *cwd;     /* it is to be there from now on, if it can; NULL: where it is */
	bool is_typescript, is_ansi, wants_images;
	size_t max_text_bytes;
};
/* 0 or -errno. */
int vial_kernel_run(struct vial_kernel *kernel, const struct vial_kernel_request *request);
/* SIGINT to its group, and word to those kernels that cannot hear it while they are busy. */
void vial_kernel_interrupt(struct vial_kernel *kernel, unsigned number);
/* Asks for new random state. True when a "reseeded" message with that number will come. */
bool vial_kernel_reseed(struct vial_kernel *kernel, const uint8_t *seed, size_t size_bytes, unsigned number);
/* Has it walk the way of a run without leaving a trace. True when a "touched" message will come. */
bool vial_kernel_touch(struct vial_kernel *kernel);
/* To its group. */
void vial_kernel_signal(struct vial_kernel *kernel, int signal);
/* The process, its group and its session; on_exit follows. */
void vial_kernel_kill(struct vial_kernel *kernel);
/* Kills it and forgets it: nothing is called any more. */
void vial_kernel_free(struct vial_kernel *kernel);
void vial_kernel_continue(struct vial_kernel *kernel);

pid_t vial_kernel_pid(const struct vial_kernel *kernel);
pid_t vial_kernel_outer_pid(const struct vial_kernel *kernel);
