/* SPDX-License-Identifier: Apache-2.0 */
/* See kernel.h. */
#include "kernel.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ctxcode.h"
#include "kernelpipe.h"
#include "log.h"
#include "loop.h"
#include "native/native.h"
#include "session.h"
#include "wire/wire.h"

#define OUTPUT_BYTES (128u * 1024u)
/* Larger than the default 64 KiB: a kernel that floods us is woken less often. */
#define PIPE_BYTES (1024 * 1024)
/* A cell's JSON form has at most six bytes for one of its own; the rest is its environment. */
#define MAX_REQUEST_BYTES (6u * VIAL_MAX_CODE_BYTES + 4u * 1024u * 1024u)
/* A kernel that lets this much lie does not listen. */
#define MAX_CONTROL_BYTES (64u * 1024u)
/* A kernel that ends closes its pipes a moment before we hear of its end. */
#define CLOSED_MS 1000
/* A kernel writes a message in one go. One of which nothing more comes, though we read, is none: somebody has written a length of his own. Counted in
 * looks, because a sandbox may sleep in between. */
#define STALL_MS 2500
#define MAX_STALLED_LOOKS 2
#define GARBAGE "the kernel's message pipe carried garbage, so the kernel was ended; variables are lost"
#define MAX_ARGUMENTS 8
/* A kernel's descriptors besides stdin. */
#define THEIRS 6

struct output {
	struct vial_kernel *kernel;
	struct vial_watch watch;
	int fd;
	uint8_t channel;
	size_t owed; /* bytes to hand over before the next message */
};

struct vial_kernel {
	const struct vial_language *language;
	const struct vial_kernel_handlers *handlers;
	void *data;
	struct vial_child *child; /* NULL when it has ended */
	pid_t pid, outer_pid;
	struct output outputs[2];
	int message_fd;
	struct vial_watch message_watch;
	struct vial_message_reader messages;
	struct vial_timer closed; /* the message pipe has ended, the kernel has not */
	struct vial_timer stall;  /* a part of a message has come */
	unsigned stalled_looks;
	struct vial_pipe_writer requests, control;
	int cell_fd; /* bash's memory file, -1 */
	size_t cell_bytes;
	bool is_stopped; /* no room: nothing is read */
	bool is_closed;  /* the message pipe has ended */
	bool is_broken;  /* no message is believed any more */
	bool is_delivering, is_freed, is_exited;
	struct vial_exit exit;
};

/* --- the end --- */

static void destroy(struct vial_kernel *kernel)
{
	for (int i = 0; i < 2; i++) {
		vial_watch_remove(&kernel->outputs[i].watch);
		if (kernel->outputs[i].fd >= 0)
			close(kernel->outputs[i].fd);
	}
	vial_watch_remove(&kernel->message_watch);
	if (kernel->message_fd >= 0)
		close(kernel->message_fd);
	if (kernel->cell_fd >= 0)
		close(kernel->cell_fd);
	vial_timer_clear(&kernel->closed);
	vial_timer_clear(&kernel->stall);
	vial_pipe_writer_close(&kernel->requests);
	vial_pipe_writer_close(&kernel->control);
	vial_message_reader_clear(&kernel->messages);
	free(kernel);
}

void vial_kernel_signal(struct vial_kernel *kernel, int signal)
{
	if (kernel->child)
		vial_child_signal(kernel->child, signal, true);
}

void vial_kernel_kill(struct vial_kernel *kernel)
{
	if (kernel->child)
		vial_child_signal(kernel->child, SIGKILL, true);
	vial_session_kill(kernel->outer_pid);
}

void vial_kernel_free(struct vial_kernel *kernel)
{
	if (!kernel || kernel->is_freed)
		return;
	vial_kernel_kill(kernel);
	if (kernel->child)
		vial_child_forget(kernel->child);
	kernel->child = NULL;
	kernel->is_freed = true;
	if (!kernel->is_delivering)
		destroy(kernel);
}

/* --- what it prints and sends --- */

static void stop_reading(struct vial_kernel *kernel)
{
	kernel->is_stopped = true;
	vial_watch_remove(&kernel->outputs[0].watch);
	vial_watch_remove(&kernel->outputs[1].watch);
	vial_watch_remove(&kernel->message_watch);
}

/* Hands over what one read(2) brings, at most `limit`. False when there is no room; then reading has stopped. */
static bool read_output(struct output *output, size_t limit)
{
	static uint8_t buffer[OUTPUT_BYTES];
	struct vial_kernel *kernel = output->kernel;
	size_t room = kernel->handlers->room(kernel->data);
	ssize_t count;

	if (room == 0) {
		stop_reading(kernel);
		return false;
	}
	if (limit > room)
		limit = room;
	count = read(output->fd, buffer, limit < sizeof(buffer) ? limit : sizeof(buffer));
	if (count > 0) {
		output->owed -= output->owed < (size_t)count ? output->owed : (size_t)count;
		kernel->handlers->on_output(output->channel, buffer, (size_t)count, kernel->data);
		return true;
	}
	if (count < 0 && errno == EINTR)
		return true;
	output->owed = 0;
	/* The end of a pipe comes when the kernel and all who inherited it are gone, or have closed it. */
	if (count == 0)
		vial_watch_remove(&output->watch);
	return true;
}

static bool drain_owed(struct vial_kernel *kernel)
{
	for (int i = 0; i < 2; i++) {
		while (kernel->outputs[i].owed > 0 && !kernel->is_freed) {
			if (!read_output(&kernel->outputs[i], kernel->outputs[i].owed))
				return false;
		}
	}
	return true;
}

/*
 * Whatever lies in the pipes now must be handed over before what is read from the message pipe after this. Not the other way round: a kernel that was
 * not answered in time prints on behind its message. Mostly there is nothing, and one look at both is one system call.
 */
static void count_owed(struct vial_kernel *kernel)
{
	struct pollfd pipes[2] = { { .fd = kernel->outputs[0].fd, .events = POLLIN }, { .fd = kernel->outputs[1].fd, .events = POLLIN } };

	if (poll(pipes, 2, 0) <= 0)
		return;
	for (int i = 0; i < 2; i++) {
		int pending = 0;

		if ((pipes[i].revents & POLLIN) && ioctl(pipes[i].fd, FIONREAD, &pending) == 0 && pending > 0)
			kernel->outputs[i].owed = (size_t)pending;
	}
}

/* Whoever waits for its answer hears the reason when it has ended. */
static void break_off(struct vial_kernel *kernel, const char *reason)
{
	if (kernel->is_broken || kernel->is_exited)
		return;
	vial_log("warning", "a %s kernel is ended: %s", kernel->language->name, reason);
	kernel->is_broken = true;
	vial_timer_clear(&kernel->stall);
	vial_watch_remove(&kernel->message_watch);
	vial_message_reader_clear(&kernel->messages);
	kernel->handlers->on_broken(reason, kernel->data);
	vial_kernel_kill(kernel);
}

static void handle_message(struct vial_kernel *kernel, const struct vial_message *message)
{
	json_t *answer;

	if (message->type != VIAL_MESSAGE_SYNC) {
		kernel->handlers->on_message(message, kernel->data);
		return;
	}
	answer = json_pack("{s:s,s:O}", "type", "sync", "number", json_object_get(message->json, "number"));
	vial_pipe_write_json(&kernel->control, answer);
	json_decref(answer);
}

static void finish_exit(struct vial_kernel *kernel)
{
	struct vial_exit how = kernel->exit;

	kernel->is_freed = true;
	vial_session_kill(kernel->outer_pid);
	kernel->handlers->on_exit(&how, kernel->data);
}

/* Messages whose turn has come, each after the output before it. Handlers may free the kernel under way. */
static void deliver_all(struct vial_kernel *kernel)
{
	struct vial_message message;
	int result = 0;

	while (!kernel->is_freed && vial_message_is_complete(&kernel->messages)) {
		if (!drain_owed(kernel))
			return;
		if (kernel->handlers->room(kernel->data) == 0) {
			stop_reading(kernel);
			return;
		}
		result = vial_message_next(&kernel->messages, &message);
		if (result < 0)
			break;
		handle_message(kernel, &message);
		vial_message_clear(&message);
	}
	if (kernel->is_freed)
		return;
	if (result < 0) {
		vial_message_reader_clear(&kernel->messages);
		break_off(kernel, GARBAGE);
	}
	if (kernel->is_exited && !kernel->is_stopped && drain_owed(kernel) && !kernel->is_freed)
		finish_exit(kernel);
}

static void deliver(struct vial_kernel *kernel)
{
	if (kernel->is_delivering)
		return;
	kernel->is_delivering = true;
	deliver_all(kernel);
	kernel->is_delivering = false;
	if (kernel->is_freed)
		destroy(kernel);
}

static void on_closed(struct vial_timer *timer, void *data)
{
	break_off(data, "the kernel closed its message pipe, so it was ended; variables are lost");
}

static void on_stall(struct vial_timer *timer, void *data)
{
	struct vial_kernel *kernel = data;

	if (vial_message_reader_is_empty(&kernel->messages) || kernel->is_exited)
		return;
	/* What we do not read cannot come. */
	if (!kernel->is_stopped && ++kernel->stalled_looks > MAX_STALLED_LOOKS)
		break_off(kernel, GARBAGE);
	else
		vial_timer_set(&kernel->stall, STALL_MS, on_stall, kernel);
}

static void on_messages(struct vial_watch *watch, uint32_t events, void *data)
{
	struct vial_kernel *kernel = data;
	ssize_t count;

	count_owed(kernel);
	count = vial_message_read(&kernel->messages, kernel->message_fd);
	kernel->stalled_looks = 0;
	if (!kernel->stall.is_set)
		vial_timer_set(&kernel->stall, STALL_MS, on_stall, kernel);
	if (count == 0 || (count < 0 && count != -EAGAIN)) {
		kernel->is_closed = true;
		vial_watch_remove(&kernel->message_watch);
		vial_timer_set(&kernel->closed, CLOSED_MS, on_closed, kernel);
	}
	deliver(kernel);
}

static void on_output(struct vial_watch *watch, uint32_t events, void *data)
{
	struct output *output = data;
	struct vial_kernel *kernel = output->kernel;

	kernel->is_delivering = true;
	read_output(output, OUTPUT_BYTES);
	kernel->is_delivering = false;
	if (kernel->is_freed)
		destroy(kernel);
}

static void watch_all(struct vial_kernel *kernel)
{
	for (int i = 0; i < 2; i++) {
		struct output *output = &kernel->outputs[i];

		if (output->fd >= 0 && !output->watch.is_added)
			vial_watch_add(&output->watch, output->fd, EPOLLIN, on_output, output);
	}
	if (kernel->message_fd >= 0 && !kernel->is_closed && !kernel->is_broken && !kernel->is_exited && !kernel->message_watch.is_added)
		vial_watch_add(&kernel->message_watch, kernel->message_fd, EPOLLIN, on_messages, kernel);
}

void vial_kernel_continue(struct vial_kernel *kernel)
{
	if (!kernel->is_stopped || kernel->is_freed)
		return;
	kernel->is_stopped = false;
	watch_all(kernel);
	deliver(kernel);
}

/* --- start --- */

static void on_started(struct vial_child *child, void *data)
{
	struct vial_kernel *kernel = data;

	kernel->pid = vial_child_pid(child);
	kernel->outer_pid = vial_child_outer_pid(child);
	kernel->handlers->on_started(kernel->data);
}

static void on_failed(struct vial_child *child, enum vial_spawn_stage stage, int error, void *data)
{
	struct vial_kernel *kernel = data;

	kernel->child = NULL;
	kernel->handlers->on_failed(stage, error, kernel->data);
	destroy(kernel);
}

static void on_child_exit(struct vial_child *child, const struct vial_exit *how, void *data)
{
	struct vial_kernel *kernel = data;

	kernel->child = NULL;
	kernel->exit = *how;
	kernel->is_exited = true;
	vial_timer_clear(&kernel->closed);
	vial_watch_remove(&kernel->message_watch);
	count_owed(kernel);
	/* Its last words. A process that it has left behind may hold the pipe and write on: no more than a full pipe. */
	for (size_t got = 0; !kernel->is_broken && got < PIPE_BYTES;) {
		ssize_t count = vial_message_read(&kernel->messages, kernel->message_fd);

		if (count <= 0)
			break;
		got += (size_t)count;
	}
	deliver(kernel);
}

static const struct vial_child_handlers child_handlers = {
	.on_started = on_started,
	.on_failed = on_failed,
	.on_exit = on_child_exit,
};

/* Our end does not block, the kernel's does. `ours` is 0 for the reading end and 1 for the writing end. */
static int make_pipe(int ours, int *out_ours, int *out_theirs)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	fcntl(fds[ours], F_SETFL, O_NONBLOCK);
	fcntl(fds[ours], F_SETPIPE_SZ, PIPE_BYTES);
	*out_ours = fds[ours];
	*out_theirs = fds[!ours];
	return 0;
}

/* One memory file for all kernels that want it; they cannot change it. -1 when it cannot be made: they do without. */
static int open_module(void)
{
	static int fd = -1;

	if (fd < 0) {
		fd = memfd_create("reseed.node", MFD_CLOEXEC | MFD_ALLOW_SEALING);
		if (fd >= 0 && write(fd, vial_reseed_module, vial_reseed_module_size) != (ssize_t)vial_reseed_module_size) {
			close(fd);
			fd = -1;
		}
		if (fd >= 0)
			fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
	}
	return fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 3);
}

/* theirs[] are the kernel's descriptors from 1 on. */
static int make_pipes(struct vial_kernel *kernel, int theirs[THEIRS])
{
	int result = make_pipe(0, &kernel->outputs[0].fd, &theirs[0]);

	if (result == 0)
		result = make_pipe(0, &kernel->outputs[1].fd, &theirs[1]);
	if (result == 0)
		result = make_pipe(1, &kernel->requests.fd, &theirs[2]);
	if (result == 0)
		result = make_pipe(0, &kernel->message_fd, &theirs[3]);
	if (result == 0 && kernel->language->has_control)
		return make_pipe(1, &kernel->control.fd, &theirs[4]);
	if (result < 0)
		return result;
	kernel->cell_fd = memfd_create("cell", MFD_CLOEXEC);
	theirs[4] = kernel->cell_fd < 0 ? -1 : fcntl(kernel->cell_fd, F_DUPFD_CLOEXEC, 3);
	return theirs[4] < 0 ? -errno : 0;
}

static int spawn(struct vial_kernel *kernel, const struct vial_kernel_options *options, const int theirs[THEIRS])
{
	const char *argv[MAX_ARGUMENTS];
	size_t count = 0;
	struct vial_spawn request = {
		.argv = argv,
		.env = options->env,
		.cwd = options->cwd,
		.user = options->user,
		.fds = { -1, theirs[0], theirs[1], theirs[2], theirs[3], theirs[4], theirs[5] },
		.fd_count = kernel->language->has_module ? 7 : 6,
	};

	for (const char *const *argument = kernel->language->argv; *argument; argument++)
		argv[count++] = *argument;
	if (options->warmth != VIAL_COLD) /* NULL for bash */
		argv[count++] = options->warmth == VIAL_WARM ? kernel->language->warm : kernel->language->light;
	argv[count] = NULL;
	return vial_spawn(&request, &child_handlers, kernel, &kernel->child);
}

int vial_kernel_start(const struct vial_kernel_options *options, const struct vial_kernel_handlers *handlers, void *data,
                      struct vial_kernel **out_kernel)
{
	struct vial_kernel *kernel = calloc(1, sizeof(*kernel));
	int theirs[THEIRS] = { -1, -1, -1, -1, -1, -1 };
	int result;

	if (!kernel)
		return -ENOMEM;
	*kernel = (struct vial_kernel){ .language = options->language,
		                        .handlers = handlers,
		                        .data = data,
		                        .message_fd = -1,
		                        .cell_fd = -1,
		                        .requests = { .fd = -1, .max_pending_bytes = MAX_REQUEST_BYTES },
		                        .control = { .fd = -1, .max_pending_bytes = MAX_CONTROL_BYTES } };
	kernel->outputs[0] = (struct output){ .kernel = kernel, .fd = -1, .channel = VIAL_WIRE_STDOUT };
	kernel->outputs[1] = (struct output){ .kernel = kernel, .fd = -1, .channel = VIAL_WIRE_STDERR };
	/* Whoever makes a pipe owns it, and only the owner may open it again as /dev/stdout. */
	result = vial_user_enter(options->user);
	if (result == 0) {
		result = make_pipes(kernel, theirs);
		vial_user_leave();
	}
	if (result == 0 && kernel->language->has_module)
		theirs[5] = open_module();
	if (result == 0)
		result = spawn(kernel, options, theirs);
	for (int i = 0; i < THEIRS; i++) {
		if (theirs[i] >= 0)
			close(theirs[i]);
	}
	if (result < 0) {
		destroy(kernel);
		return result;
	}
	watch_all(kernel);
	*out_kernel = kernel;
	return 0;
}

void vial_kernel_hand_over(struct vial_kernel *kernel, const struct vial_kernel_handlers *handlers, void *data)
{
	kernel->handlers = handlers;
	kernel->data = data;
}

/* --- requests --- */

/* In single quotes, where bash takes everything but the quote itself as it is. */
static void put_quoted(FILE *file, const char *text)
{
	fputc('\'', file);
	for (; *text; text++) {
		if (*text == '\'')
			fputs("'\\\''", file);
		else
			fputc(*text, file);
	}
	fputc('\'', file);
}

/* An environment may have any name, a shell's variables may not; these would be somebody else's code to bash. */
static bool is_shell_name(const char *name)
{
	if (!isalpha((unsigned char)*name) && *name != '_')
		return false;
	while (isalnum((unsigned char)*name) || *name == '_')
		name++;
	return *name == '\0';
}

/* An array of names and values in turn; null is a name with a minus before it. */
static void put_variables(FILE *file, const char *array, json_t *object)
{
	const char *name;
	json_t *value;

	fprintf(file, "%s=(", array);
	json_object_foreach (object, name, value) {
		if (!is_shell_name(name))
			continue;
		fprintf(file, " %s", json_is_null(value) ? "-" : "");
		put_quoted(file, name);
		fputc(' ', file);
		put_quoted(file, json_is_string(value) ? json_string_value(value) : "");
	}
	fputs(")\n", file);
}

static void put_words(FILE *file, const char *array, json_t *words)
{
	json_t *word;
	size_t i;

	fprintf(file, "%s=(", array);
	json_array_foreach (words, i, word) {
		fputc(' ', file);
		put_quoted(file, json_string_value(word));
	}
	fputs(")\n", file);
}

/* The kernel reads where the file's one position is, which it has from us. */
static bool rewrite_cell(struct vial_kernel *kernel, const char *bytes, size_t size_bytes)
{
	size_t written = 0;

	if (size_bytes < kernel->cell_bytes && ftruncate(kernel->cell_fd, 0) < 0)
		return false;
	kernel->cell_bytes = size_bytes;
	while (written < size_bytes) {
		ssize_t count = pwrite(kernel->cell_fd, bytes + written, size_bytes - written, (off_t)written);

		if (count <= 0 && errno != EINTR)
			return false;
		written += count > 0 ? (size_t)count : 0;
	}
	return lseek(kernel->cell_fd, 0, SEEK_SET) == 0;
}

/* bash cannot parse JSON, and reads a pipe byte by byte; a file it reads at once. functions.sh has the form. */
static int write_cell(struct vial_kernel *kernel, const struct vial_kernel_request *request)
{
	char *text = NULL;
	size_t size = 0;
	FILE *file = open_memstream(&text, &size);
	bool is_written;

	if (!file)
		return -ENOMEM;
	fprintf(file, "__vial_id=%s\n", request->execution_id);
	put_variables(file, "__vial_environment", request->environment);
	put_variables(file, "__vial_env", request->env);
	put_words(file, "__vial_argv", request->argv);
	if (request->cwd) {
		fputs("builtin cd -- ", file);
		put_quoted(file, request->cwd);
		fputc('\n', file);
	}
	fputc('\0', file);
	fputs(json_string_value(request->code), file);
	fputc('\0', file);
	fclose(file);
	is_written = text && rewrite_cell(kernel, text, size);
	free(text);
	if (!is_written)
		return -EIO;
	return vial_pipe_write(&kernel->requests, "\n", 1);
}

int vial_kernel_run(struct vial_kernel *kernel, const struct vial_kernel_request *request)
{
	json_t *message;
	int result;

	if (kernel->cell_fd >= 0)
		return write_cell(kernel, request);
	message = json_pack("{s:s,s:s,s:i,s:O,s:O*,s:O*,s:b,s:I}", "type", "run", "id", request->execution_id, "number", (int)request->number, "code",
	                    request->code, "environment", request->environment, "env", request->env, "raw_ansi", request->is_ansi, "max_text_bytes",
	                    (json_int_t)request->max_text_bytes);
	if (message && request->argv)
		json_object_set(message, "argv", request->argv);
	if (message && request->cwd)
		json_object_set_new(message, "cwd", json_string(request->cwd));
	if (message && request->is_typescript)
		json_object_set_new(message, "language", json_string("typescript"));
	if (message && request->wants_images)
		json_object_set_new(message, "images", json_true());
	result = vial_pipe_write_json(&kernel->requests, message);
	json_decref(message);
	return result;
}

void vial_kernel_interrupt(struct vial_kernel *kernel, unsigned number)
{
	if (kernel->language->has_control) {
		json_t *message = json_pack("{s:s,s:i}", "type", "interrupt", "number", (int)number);

		vial_pipe_write_json(&kernel->control, message);
		json_decref(message);
	}
	if (kernel->child)
		vial_child_signal(kernel->child, SIGINT, true);
}

bool vial_kernel_reseed(struct vial_kernel *kernel, const uint8_t *seed, size_t size_bytes, unsigned number)
{
	char hex[2 * 64 + 1];
	json_t *message;
	int result;

	if (kernel->language->is_reseeded_by_signal) {
		/* The trap runs before the shell's next command: from here on it cannot draw an old number. */
		if (kernel->child)
			vial_child_signal(kernel->child, SIGURG, true);
		return false;
	}
	for (size_t i = 0; i < size_bytes && i < 64; i++)
		snprintf(hex + 2 * i, 3, "%02x", seed[i]);
	message = json_pack("{s:s,s:s,s:i}", "type", "reseed", "seed", hex, "number", (int)number);
	result = vial_pipe_write_json(&kernel->control, message);
	json_decref(message);
	/* A control pipe that takes no more belongs to a kernel that will not answer: waiting for it ends it. */
	(void)result;
	return true;
}

bool vial_kernel_touch(struct vial_kernel *kernel)
{
	json_t *message;
	int result;

	if (kernel->cell_fd >= 0) /* bash: small as it is */
		return false;
	message = json_pack("{s:s}", "type", "touch");
	result = vial_pipe_write_json(&kernel->requests, message);
	json_decref(message);
	return result == 0;
}

pid_t vial_kernel_pid(const struct vial_kernel *kernel)
{
	return kernel ? kernel->pid : 0;
}

pid_t vial_kernel_outer_pid(const struct vial_kernel *kernel)
{
	return kernel ? kernel->outer_pid : 0;
}
