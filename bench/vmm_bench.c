/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the monitor itself costs, with a payload of five instructions on this machine's /dev/kvm: start, snapshot, restore, fork. One JSON object on
 * standard output, times in milliseconds. Guests with a kernel are measured in the lab (scripts/lab).
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "tests/vmm/payload.h"
#include "vmm/fingerprint.h"
#include "vmm/fork.h"
#include "vmm/snapshot.h"

#define ROUNDS 15
#define TIMEOUT_MS 20000
#define FORK_MEMORY_MB 512
#define RESTORE_MEMORY_MB 64

static struct vial_machine machine;

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

/* The median, and the best: on a busy machine the difference is what others took. */
static void put(json_t *out, const char *name, double *values)
{
	qsort(values, ROUNDS, sizeof(*values), compare);
	json_object_set_new(out, name, json_pack("{s:f,s:f}", "median", values[ROUNDS / 2], "best", values[0]));
}

static double ms_since(uint64_t began)
{
	return (double)(vial_clock_ns() - began) / 1e6;
}

static void must(bool condition, const char *what)
{
	if (condition)
		return;
	fprintf(stderr, "vmm_bench: %s\n", what);
	exit(1);
}

/* Every page of the guest resident, with something in it. */
static void fill(struct vial_machine *target)
{
	for (uint64_t at = 0x400000; at < target->memory.size_bytes; at += VIAL_PAGE_BYTES)
		memset(target->memory.base + at, (int)(at >> 12 & 0xff) | 1, 64);
}

static void bench_start(json_t *out)
{
	double values[ROUNDS];

	for (int i = 0; i < ROUNDS; i++) {
		uint64_t began = vial_clock_ns();

		must(payload_boot(&machine, payload_count, sizeof(payload_count), RESTORE_MEMORY_MB) == 0 && vial_machine_start(&machine) == 0,
		     "boot");
		vial_machine_resume(&machine);
		must(payload_wait_beyond(&machine, 0, TIMEOUT_MS), "the guest does not run");
		values[i] = ms_since(began);
		vial_machine_close(&machine);
	}
	put(out, "build_to_first_instruction_ms", values);
}

static void bench_restore(json_t *out)
{
	char state_path[] = "/tmp/vial-bench.XXXXXX", memory_path[] = "/tmp/vial-bench.XXXXXX";
	struct vial_snapshot_fds fds = { mkstemp(state_path), mkstemp(memory_path), { -1 } };
	struct vial_saved_wire wire = { 0 };
	struct vial_snapshot_result result;
	struct vial_state_writer state;
	double values[ROUNDS];

	must(payload_boot(&machine, payload_count, sizeof(payload_count), RESTORE_MEMORY_MB) == 0 && vial_machine_start(&machine) == 0, "boot");
	fill(&machine);
	vial_machine_resume(&machine);
	must(payload_wait_beyond(&machine, 0, TIMEOUT_MS) && vial_machine_pause(&machine) == 0, "the guest does not run");
	vial_state_begin(&state);
	must(vial_machine_save(&machine, &wire, &state) == 0, "save");
	vial_snapshot_write(&machine, &state, NULL, &fds, &result);
	must(result.result == 0, "write the snapshot");
	json_object_set_new(out, "snapshot_write_64mib_ms", json_real((double)result.duration_us / 1000));
	json_object_set_new(out, "state_bytes", json_integer((json_int_t)state.size_bytes));
	for (int i = 0; i < ROUNDS; i++) {
		struct vial_machine copy;
		uint16_t epoch;
		uint64_t began = vial_clock_ns(), counter = payload_counter(&machine);
		json_t *json = json_pack("{s:i,s:i,s:{s:s,s:s}}", "memory_mb", RESTORE_MEMORY_MB, "vcpus", 1, "restore", "state", state_path,
		                         "memory", memory_path);

		must(payload_build(&copy, json, &epoch) == 0 && vial_machine_start(&copy) == 0, "restore");
		vial_machine_resume(&copy);
		must(payload_wait_beyond(&copy, counter, TIMEOUT_MS), "the restored guest does not run");
		values[i] = ms_since(began);
		vial_machine_close(&copy);
	}
	put(out, "restore_64mib_to_first_instruction_ms", values);
	vial_state_clear(&state);
	vial_machine_close(&machine);
	unlink(state_path);
	unlink(memory_path);
}

struct shared {
	uint64_t child_running_ns;
};

static void live(const struct vial_state_writer *state, uint64_t counter, struct shared *shared)
{
	struct vial_fork_child ends = { -1, { -1 }, -1, -1 };
	const char *error;

	alarm(30);
	if (vial_fork_become(&machine, state, &ends, &error) < 0)
		_exit(1);
	vial_machine_resume(&machine);
	if (payload_wait_beyond(&machine, counter, TIMEOUT_MS))
		shared->child_running_ns = vial_clock_ns();
	_exit(0);
}

static void bench_fork(json_t *out)
{
	double child[ROUNDS], parent[ROUNDS], call[ROUNDS];
	struct shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	must(payload_boot(&machine, payload_count, sizeof(payload_count), FORK_MEMORY_MB) == 0 && vial_machine_start(&machine) == 0, "boot");
	fill(&machine);
	vial_machine_resume(&machine);
	for (int i = 0; i < ROUNDS; i++) {
		struct vial_state_writer state;
		uint64_t began, called, counter;
		pid_t pid;

		must(payload_wait_beyond(&machine, payload_counter(&machine), TIMEOUT_MS), "the guest does not run");
		shared->child_running_ns = 0;
		began = vial_clock_ns();
		must(vial_machine_pause(&machine) == 0, "pause");
		vial_state_begin(&state);
		must(vial_fork_save(&machine, &state) == 0, "save");
		counter = payload_counter(&machine);
		called = vial_clock_ns();
		pid = vial_fork();
		if (pid == 0)
			live(&state, counter, shared);
		call[i] = ms_since(called);
		vial_machine_resume(&machine);
		must(payload_wait_beyond(&machine, counter, TIMEOUT_MS), "the parent does not go on");
		parent[i] = ms_since(began);
		must(pid > 0 && waitpid(pid, NULL, 0) == pid && shared->child_running_ns, "the child does not run");
		child[i] = (double)(shared->child_running_ns - began) / 1e6;
		vial_state_clear(&state);
	}
	put(out, "fork_512mib_child_first_instruction_ms", child);
	put(out, "fork_512mib_parent_resumed_ms", parent);
	put(out, "fork_512mib_system_call_ms", call);
	vial_machine_close(&machine);
}

int main(void)
{
	struct vial_fingerprint host;
	struct vial_kvm kvm;
	const char *reason;
	struct stat info;
	const char *binary = getenv("VIAL_VMM");
	json_t *out = json_object();

	if (vial_kvm_open(&kvm, &reason) < 0) {
		printf("{\"skipped\":\"%s\"}\n", reason);
		return 77;
	}
	vial_fingerprint_get(&kvm, &host);
	vial_kvm_close(&kvm);
	vial_vcpu_init_signal();
	json_object_set_new(out, "environment",
	                    json_sprintf("tiny payload on this machine's /dev/kvm, kernel %s, CPU %s %x", host.kernel, host.vendor, host.signature));
	if (binary && stat(binary, &info) == 0)
		json_object_set_new(out, "binary_bytes", json_integer(info.st_size));
	bench_start(out);
	bench_restore(out);
	bench_fork(out);
	json_dumpf(out, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(4));
	putchar('\n');
	json_decref(out);
	return 0;
}
