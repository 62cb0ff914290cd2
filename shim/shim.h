/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vial-shim: the host process of one gVisor sandbox. It owns the pipes to the agent and the runsc child, and outlives
 * viald. One thread, one poll loop (main.c); runsc.c runs runsc's commands, relay.c moves frames.
 */
#pragma once

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "wire/wire.h"

/* Bytes waiting for a slow reader. Past HIGH the other side is not read, so a queue never holds much more than one frame above it. */
#define SHIM_QUEUE_HIGH_BYTES (1024u * 1024u)

struct shim_queue {
	uint8_t *bytes;
	size_t capacity;
	size_t start;
	size_t end;
};

int shim_queue_push(struct shim_queue *queue, const void *bytes, size_t size);
int shim_queue_flush(struct shim_queue *queue, int fd); /* 0, or -errno; -EAGAIN is success */
size_t shim_queue_size(const struct shim_queue *queue);
void shim_queue_clear(struct shim_queue *queue);

enum shim_state { SHIM_NEW, SHIM_CREATED, SHIM_RUNNING, SHIM_PAUSED, SHIM_EXITED };

/* The runsc command under way; at most one. */
struct shim_command {
	pid_t pid; /* 0: none */
	char name[16];
	json_int_t tag;
	enum shim_state state_when_done;
};

struct shim {
	/* from shim.json, fixed */
	char *id;
	char *runsc;
	char *runsc_root;
	char *bundle;
	char *network;     /* none, or sandbox */
	bool is_current;   /* runsc has the flags of 2026 */
	char *netns;       /* NULL, or the network namespace to start runsc in */
	json_t *read_only; /* paths that nothing started here may write to */
	char *processors;  /* NULL, or the file in which runsc looks up how many processors there are */

	enum shim_state state;
	pid_t sandbox_pid;
	int exit_status; /* of the sandbox process, as from wait(2) */
	bool is_stopping;
	bool broke_protocol; /* the guest did: that is why it was stopped */
	struct shim_command command;

	int listen_fd;
	int viald_fd; /* -1: nobody attached */
	uint16_t epoch;
	struct vial_wire_reader viald_reader;
	struct shim_queue to_viald;

	int agent_in_fd;  /* we write */
	int agent_out_fd; /* we read */
	int log_fd;       /* we read: the agent's and runsc's stderr */
	int guest_fds[3]; /* the guest's ends, given to runsc create or restore and then closed */
	struct vial_wire_reader agent_reader;
	struct shim_queue to_agent;

	int log_file_fd;
	size_t log_written;
	char log_tail[1024]; /* the newest of the log: runsc's error message when a command fails */
	bool has_reason;     /* that has come, and what follows explains it to nobody but gVisor's makers */
};

/* relay.c */
void shim_relay_attach(struct shim *shim, int fd);
void shim_relay_detach(struct shim *shim);
int shim_relay_read_viald(struct shim *shim);
int shim_relay_read_agent(struct shim *shim);
int shim_relay_send_host(struct shim *shim, enum vial_wire_type type, json_t *message); /* consumes message */
void shim_relay_announce(struct shim *shim);

/* runsc.c */
int shim_runsc_open_pipes(struct shim *shim);
void shim_runsc_request(struct shim *shim, json_t *request); /* one OPEN of viald */
void shim_runsc_child_exited(struct shim *shim, pid_t pid, int status);
void shim_runsc_stop(struct shim *shim);
