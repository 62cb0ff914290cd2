/* SPDX-License-Identifier: Apache-2.0 */
/* The operations of the control socket (control.h, docs/microvm.md), one function and one row of the table each. Control thread. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "control.h"
#include "files.h"
#include "folder.h"
#include "fork.h"
#include "hotset.h"
#include "snapshot.h"

static bool is_alive(const struct vial_control *control)
{
	return control->phase == VIAL_PHASE_RUNNING || control->phase == VIAL_PHASE_PAUSED;
}

static void resume(struct vial_control *control)
{
	vial_machine_resume(control->machine);
	vial_control_set_phase(control, VIAL_PHASE_RUNNING);
}

static int build(struct vial_control *control, const struct vial_config *config, uint16_t *epoch, const char **out_error)
{
	int tap_fd = config->has_net ? vial_control_take_fd(control) : -1;
	int result = vial_machine_build(control->machine, config, tap_fd, epoch, out_error);

	if (result == 0 && control->enter_jail)
		result = control->enter_jail(out_error);
	if (result == 0) {
		*out_error = "the threads cannot be started";
		result = vial_machine_start(control->machine);
	}
	return result;
}

/* What vmm.json says, overlaid with the request; "image" is a folder with a snapshot. A new reference. */
static json_t *complete(const struct vial_control *control, json_t *request)
{
	json_t *config = control->defaults ? json_deep_copy(control->defaults) : json_object();
	const char *image = json_string_value(json_object_get(request, "image"));

	json_object_update(config, request);
	if (image)
		vial_folder_use_image(config, image);
	return config;
}

/* Engines with something to prepare do it here; building a machine takes no longer than asking for it. */
static void op_create(struct vial_control *control, json_t *request, json_int_t tag)
{
	if (control->phase == VIAL_PHASE_NEW)
		vial_control_set_phase(control, VIAL_PHASE_CREATED);
	vial_control_answer(control, tag, NULL);
}

static void op_start(struct vial_control *control, json_t *request, json_int_t tag)
{
	struct vial_config config;
	const char *error = NULL;
	uint64_t began = vial_clock_ns();
	uint16_t epoch = 0;
	int result;

	if (control->has_relay || control->phase > VIAL_PHASE_CREATED) {
		vial_control_refuse(control, tag, "already started", 0);
		return;
	}
	request = complete(control, request);
	result = vial_config_parse(request, &config, &error);
	json_decref(request);
	if (result < 0) {
		vial_control_refuse(control, tag, error, 0);
		return;
	}
	result = build(control, &config, &epoch, &error);
	if (result < 0) {
		vial_control_refuse(control, tag, error, result);
		vial_config_clear(&config);
		/* Half built and perhaps half jailed: of no further use. */
		control->is_stopping = true;
		return;
	}
	if (epoch < control->relay.epoch)
		epoch = control->relay.epoch;
	vial_relay_init(&control->relay, &control->machine->console.to_guest, &control->machine->console.from_guest);
	control->relay.epoch = epoch;
	control->has_relay = true;
	vial_relay_attach(&control->relay);
	control->first_run_ns = vial_clock_ns();
	vial_control_answer(control, tag,
	                    json_pack("{s:I,s:I}", "build_us", (json_int_t)((control->first_run_ns - began) / 1000), "process_us",
	                              (json_int_t)((control->first_run_ns - control->started_ns) / 1000)));
	if (config.runs)
		resume(control);
	else
		vial_control_set_phase(control, VIAL_PHASE_PAUSED);
	vial_config_clear(&config);
}

static void op_pause(struct vial_control *control, json_t *request, json_int_t tag)
{
	int result = vial_machine_pause(control->machine);

	if (result < 0) {
		vial_control_refuse(control, tag, "the machine does not stop", result);
		return;
	}
	vial_control_set_phase(control, VIAL_PHASE_PAUSED);
	vial_control_answer(control, tag, NULL);
}

static void op_resume(struct vial_control *control, json_t *request, json_int_t tag)
{
	resume(control);
	vial_control_answer(control, tag, NULL);
}

/* ---- snapshot ---- */

static void close_fds(int *fds, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		if (fds[i] >= 0)
			close(fds[i]);
	}
}

static unsigned take_fds(struct vial_control *control, int *fds, unsigned count)
{
	unsigned taken = 0;

	for (unsigned i = 0; i < count; i++) {
		fds[i] = vial_control_take_fd(control);
		taken += fds[i] >= 0;
	}
	return taken;
}

static int save(struct vial_control *control, struct vial_state_writer *writer)
{
	const struct vial_wire_reader *reader = &control->relay.from_guest;
	struct vial_saved_wire wire = {
		.epoch = control->relay.epoch,
		.unparsed = reader->buffer + reader->start,
		.unparsed_bytes = reader->end - reader->start,
	};

	vial_state_begin(writer);
	return vial_machine_save(control->machine, &wire, writer);
}

/* The memory is written by a forked process: it sees the paused instant, the machine may go on meanwhile, and so may this loop. */
static int start_writer(struct vial_control *control, const struct vial_state_writer *state, const struct vial_snapshot_fds *fds)
{
	struct vial_snapshot_result outcome;
	uint8_t *touched;
	int ends[2];
	pid_t pid;

	if (pipe(ends) < 0)
		return -errno;
	touched = vial_snapshot_touched(&control->machine->memory, control->machine->pagemap_fd);
	pid = vial_fork();
	if (pid == 0) {
		vial_snapshot_write(control->machine, state, touched, fds, &outcome);
		(void)!write(ends[1], &outcome, sizeof(outcome));
		_exit(0);
	}
	free(touched);
	close(ends[1]);
	if (pid < 0) {
		close(ends[0]);
		return (int)pid;
	}
	control->writer_pid = pid;
	control->writer_fd = ends[0];
	return 0;
}

static int begin_snapshot(struct vial_control *control, const struct vial_snapshot_fds *fds, int *overlays, bool resumes)
{
	struct vial_state_writer state = { 0 };
	int result = vial_machine_pause(control->machine);

	if (result == 0)
		result = save(control, &state);
	if (result == 0)
		result = start_writer(control, &state, fds);
	/* After the fork: the writer reads the disk as it was, we write to a fresh layer. */
	if (result == 0 && resumes)
		result = vial_fork_freeze_disks(control->machine, overlays);
	vial_state_clear(&state);
	return result;
}

static void op_snapshot(struct vial_control *control, json_t *request, json_int_t tag)
{
	unsigned disks = vial_machine_writable_disks(control->machine);
	bool resumes = json_is_true(json_object_get(request, "resume")) || json_is_true(json_object_get(request, "leave_running")),
	     was_running = control->machine->is_running;
	int fds[2 + 2 * VIAL_MAX_DISKS];
	unsigned expected = 2 + disks + (resumes ? disks : 0);
	struct vial_snapshot_fds targets;
	int result;

	if (control->writer_fd >= 0) {
		vial_control_refuse(control, tag, "a snapshot is being written", 0);
		return;
	}
	if (take_fds(control, fds, expected) != expected) {
		close_fds(fds, expected);
		vial_control_refuse(control, tag, "snapshot needs descriptors: state, memory, one per writable disk, and with resume an overlay each",
		                    0);
		return;
	}
	targets = (struct vial_snapshot_fds){ .state = fds[0], .memory = fds[1] };
	memcpy(targets.disks, fds + 2, disks * sizeof(int));
	result = begin_snapshot(control, &targets, fds + 2 + disks, resumes);
	close_fds(fds, expected); /* what the disks took over is -1 by now */
	if (result < 0 || resumes) {
		if (was_running)
			vial_machine_resume(control->machine);
	}
	vial_control_set_phase(control, control->machine->is_running ? VIAL_PHASE_RUNNING : VIAL_PHASE_PAUSED);
	if (result < 0)
		vial_control_refuse(control, tag, "the machine cannot be saved", result);
	else
		control->writer_tag = tag;
}

void vial_control_writer_done(struct vial_control *control)
{
	struct vial_snapshot_result outcome;
	ssize_t got = read(control->writer_fd, &outcome, sizeof(outcome));

	close(control->writer_fd);
	control->writer_fd = -1;
	if (got != sizeof(outcome))
		vial_control_refuse(control, control->writer_tag, "the snapshot's writer died", 0);
	else if (outcome.result < 0)
		vial_control_refuse(control, control->writer_tag, "the snapshot cannot be written", outcome.result);
	else
		vial_control_answer(control, control->writer_tag,
		                    json_pack("{s:I,s:I,s:I}", "memory_bytes", (json_int_t)outcome.memory_bytes, "disk_bytes",
		                              (json_int_t)outcome.disk_bytes, "duration_us", (json_int_t)outcome.duration_us));
}

/* ---- fork ---- */

static void become_child(struct vial_control *control, const struct vial_state_writer *state, const struct vial_fork_child *child, bool runs)
{
	const char *error = NULL;
	int result;

	vial_control_become_child(control, child->listen_fd, child->exit_fd);
	result = vial_fork_become(control->machine, state, child, &error);
	if (result < 0) {
		fprintf(stderr, "vial-vmm: fork: %s: %s\n", error, strerror(-result));
		_exit(1);
	}
	control->phase = VIAL_PHASE_PAUSED;
	if (runs)
		resume(control);
}

static void take_child(struct vial_control *control, struct vial_fork_child *child, unsigned disks, bool has_exit_file)
{
	child->listen_fd = vial_control_take_fd(control);
	take_fds(control, child->overlay_fds, disks);
	child->tap_fd = control->machine->has_net ? vial_control_take_fd(control) : -1;
	child->exit_fd = has_exit_file ? vial_control_take_fd(control) : -1;
}

static void close_child(struct vial_fork_child *child, unsigned disks)
{
	close_fds(&child->listen_fd, 1);
	close_fds(child->overlay_fds, disks);
	close_fds(&child->tap_fd, 1);
	close_fds(&child->exit_fd, 1);
}

/* True in a child, which has then nothing more to do with this request. */
static bool fork_children(struct vial_control *control, const struct vial_state_writer *state, json_t *request, json_t *pids, int *out_result)
{
	json_int_t count = json_integer_value(json_object_get(request, "count"));
	bool runs = !json_is_false(json_object_get(request, "run")), has_exit_files = json_is_true(json_object_get(request, "exit_files"));
	unsigned disks = vial_machine_writable_disks(control->machine);

	*out_result = 0;
	for (json_int_t i = 0; i < count && *out_result == 0; i++) {
		struct vial_fork_child child = { 0 };
		pid_t pid;

		take_child(control, &child, disks, has_exit_files);
		pid = vial_fork();
		if (pid == 0) {
			become_child(control, state, &child, runs);
			return true;
		}
		close_child(&child, disks);
		if (pid < 0)
			*out_result = (int)pid;
		else
			json_array_append_new(pids, json_integer(pid));
	}
	return false;
}

static void op_fork(struct vial_control *control, json_t *request, json_int_t tag)
{
	unsigned disks = vial_machine_writable_disks(control->machine);
	json_int_t count = json_integer_value(json_object_get(request, "count"));
	unsigned per_child = 1 + disks + control->machine->has_net + json_is_true(json_object_get(request, "exit_files"));
	bool was_running = control->machine->is_running;
	uint64_t began = vial_clock_ns();
	struct vial_state_writer state;
	json_t *pids = json_array();
	int overlays[VIAL_MAX_DISKS];
	int result;

	if (count < 1 || count > (json_int_t)VIAL_MAX_FORKS || control->fd_count != disks + (unsigned)count * per_child) {
		json_decref(pids);
		vial_control_refuse(control, tag,
		                    "fork needs a count of 1 to 32 and descriptors: an overlay per writable disk for the parent, then per child a "
		                    "listening socket, an overlay per writable disk, with a net device a TAP, with exit_files a file",
		                    0);
		return;
	}
	take_fds(control, overlays, disks);
	vial_state_begin(&state);
	result = vial_machine_pause(control->machine);
	if (result == 0)
		result = vial_fork_save(control->machine, &state);
	if (result == 0)
		result = vial_fork_freeze_disks(control->machine, overlays);
	if (result == 0 && fork_children(control, &state, request, pids, &result)) {
		vial_state_clear(&state);
		json_decref(pids);
		return;
	}
	if (was_running)
		vial_machine_resume(control->machine);
	vial_state_clear(&state);
	close_fds(overlays, disks);
	/* Some may have been born before one was not: those are told. */
	if (result < 0 && json_array_size(pids) == 0) {
		json_decref(pids);
		vial_control_refuse(control, tag, "the machine cannot be forked", result);
		return;
	}
	vial_control_answer(control, tag, json_pack("{s:o,s:I}", "pids", pids, "pause_us", (json_int_t)((vial_clock_ns() - began) / 1000)));
}

/* ---- the rest ---- */

static void op_stats(struct vial_control *control, json_t *request, json_int_t tag)
{
	struct vial_machine *machine = control->machine;
	uint64_t exits = 0, disk = 0, reads = 0, writes = 0;

	for (unsigned i = 0; i < machine->vcpu_count; i++)
		exits += atomic_load(&machine->vcpus[i].exits);
	for (unsigned i = 0; i < machine->disk_count; i++) {
		disk += vial_disk_private_bytes(&machine->blks[i].disk);
		reads += machine->blks[i].read_bytes;
		writes += machine->blks[i].written_bytes;
	}
	vial_control_answer(control, tag,
	                    json_pack("{s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I}", "exits", (json_int_t)exits, "disk_private_bytes", (json_int_t)disk,
	                              "disk_read_bytes", (json_int_t)reads, "disk_written_bytes", (json_int_t)writes, "memory_returned_bytes",
	                              (json_int_t)machine->balloon.returned_bytes, "memory_bytes", (json_int_t)machine->memory.size_bytes,
	                              "net_in_bytes", (json_int_t)machine->net.in_bytes, "net_out_bytes", (json_int_t)machine->net.out_bytes,
	                              "console_in_bytes", (json_int_t)machine->console.in_bytes, "console_out_bytes",
	                              (json_int_t)machine->console.out_bytes));
}

static void op_hotset(struct vial_control *control, json_t *request, json_int_t tag)
{
	int fd = vial_control_take_fd(control);
	uint64_t bytes = 0;
	int result = -EINVAL;

	if (fd >= 0 && control->machine->pagemap_fd >= 0 && control->machine->memory.is_file)
		result = vial_hotset_record(&control->machine->memory, control->machine->pagemap_fd, fd, &bytes);
	vial_file_close(&fd);
	if (result < 0)
		vial_control_refuse(control, tag, "hotset needs a descriptor and a machine restored with record_hot", result);
	else
		vial_control_answer(control, tag, json_pack("{s:I}", "bytes", (json_int_t)bytes));
}

static void op_stop(struct vial_control *control, json_t *request, json_int_t tag)
{
	if (control->has_relay)
		vial_machine_pause(control->machine);
	if (!control->end_reason)
		control->end_reason = "stopped";
	vial_control_set_phase(control, VIAL_PHASE_EXITED);
	vial_control_answer(control, tag, NULL);
	control->is_stopping = true;
}

static const struct {
	const char *name;
	void (*run)(struct vial_control *control, json_t *request, json_int_t tag);
	bool needs_machine;
	bool has_fds;
} ops[] = {
	{ "create", op_create, false, false },
	{ "start", op_start, false, true },
	{ "pause", op_pause, true, false },
	{ "resume", op_resume, true, false },
	{ "snapshot", op_snapshot, true, true },
	{ "checkpoint", op_snapshot, true, true }, /* by its name in the engine seam, with leave_running for resume */
	{ "fork", op_fork, true, true },
	{ "stats", op_stats, true, false },
	{ "hotset", op_hotset, true, true },
	{ "stop", op_stop, false, false },
};

void vial_control_dispatch(struct vial_control *control, const uint8_t *payload, size_t length)
{
	json_t *request = json_loadb((const char *)payload, length, JSON_REJECT_DUPLICATES, NULL);
	json_int_t tag = json_integer_value(json_object_get(request, "tag"));
	const char *name = json_string_value(json_object_get(request, "op"));
	size_t i = 0;

	while (i < sizeof(ops) / sizeof(*ops) && (!name || strcmp(ops[i].name, name) != 0))
		i++;
	if (i == sizeof(ops) / sizeof(*ops))
		vial_control_refuse(control, tag, "there is no such operation", 0);
	else if (ops[i].needs_machine && !is_alive(control))
		vial_control_refuse(control, tag, "there is no machine running", 0);
	else
		ops[i].run(control, request, tag);
	/* What a refusal left must not be taken for the next request's. */
	if (i < sizeof(ops) / sizeof(*ops) && ops[i].has_fds)
		vial_control_drop_fds(control);
	json_decref(request);
}
