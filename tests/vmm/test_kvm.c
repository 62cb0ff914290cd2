/* SPDX-License-Identifier: Apache-2.0 */
/* Run, pause, save, restore and fork of a machine with a tiny payload, on whatever /dev/kvm this machine has. Skips, with the reason, where none
 * works. */
#undef NDEBUG
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "payload.h"
#include "vmm/fork.h"
#include "vmm/hotset.h"
#include "vmm/relay.h"
#include "vmm/snapshot.h"

#define TIMEOUT_MS 20000

static struct vial_machine machine;

static void it_runs_and_pauses(void)
{
	uint64_t before;

	vial_machine_resume(&machine);
	assert(payload_wait_beyond(&machine, 1000, TIMEOUT_MS));
	assert(vial_machine_pause(&machine) == 0);
	before = payload_counter(&machine);
	usleep(50000);
	assert(payload_counter(&machine) == before);
	for (int i = 0; i < 200; i++) {
		vial_machine_resume(&machine);
		assert(payload_wait_beyond(&machine, before, TIMEOUT_MS) && vial_machine_pause(&machine) == 0);
		before = payload_counter(&machine);
	}
}

/* The register and its copy in memory differ by at most the round under way: no access is lost or done twice at a pause. */
static void registers_are_exact(void)
{
	struct kvm_regs regs;
	uint64_t counter = payload_counter(&machine);

	assert(vial_ioctl(machine.vcpus[0].fd, KVM_GET_REGS, &regs) >= 0);
	assert(regs.rbx == counter || regs.rbx == counter + 1);
}

static void save(struct vial_state_writer *state)
{
	struct vial_saved_wire wire = { .epoch = 7, .unparsed = (const uint8_t *)"half a frame", .unparsed_bytes = 12 };

	vial_state_begin(state);
	assert(vial_machine_save(&machine, &wire, state) == 0);
}

static void a_snapshot_is_restored_twice(void)
{
	char state_path[] = "/tmp/vial-state.XXXXXX", memory_path[] = "/tmp/vial-memory.XXXXXX";
	struct vial_snapshot_fds fds = { mkstemp(state_path), mkstemp(memory_path), { -1 } };
	struct vial_snapshot_result result;
	struct vial_state_writer state;
	uint64_t saved = payload_counter(&machine);

	save(&state);
	vial_snapshot_write(&machine, &state, NULL, &fds, &result);
	assert(result.result == 0 && result.memory_bytes > 0 && result.memory_bytes < 8 << 20);
	vial_machine_resume(&machine);
	for (int i = 0; i < 2; i++) {
		struct vial_machine copy;
		char bytes[16];
		uint16_t epoch = 0;
		json_t *json = json_pack("{s:i,s:i,s:{s:s,s:s,s:b}}", "memory_mb", 64, "vcpus", 1, "restore", "state", state_path, "memory",
		                         memory_path, "record_hot", 1);

		assert(payload_build(&copy, json, &epoch) == 0 && epoch == 7);
		assert(payload_counter(&copy) == saved);
		assert(vial_pipe_take(&copy.console.from_guest, bytes, sizeof(bytes)) == 12 && memcmp(bytes, "half a frame", 12) == 0);
		assert(vial_machine_start(&copy) == 0);
		vial_machine_resume(&copy);
		assert(payload_wait_beyond(&copy, saved + 1000, TIMEOUT_MS) && vial_machine_pause(&copy) == 0);
		if (copy.pagemap_fd >= 0) {
			uint64_t bytes_recorded = 0, bytes_fetched = 0;
			int list = memfd_create("hot", MFD_CLOEXEC);
			uint8_t content[4096];
			ssize_t size;

			assert(vial_hotset_record(&copy.memory, copy.pagemap_fd, list, &bytes_recorded) == 0);
			size = pread(list, content, sizeof(content), 0);
			assert(size > 16 && bytes_recorded > 0);
			assert(vial_hotset_fetch(&copy.memory, content, (size_t)size, &bytes_fetched) == 0);
			content[0] ^= 1;
			assert(vial_hotset_fetch(&copy.memory, content, (size_t)size, &bytes_fetched) == -EPROTO);
			close(list);
		}
		vial_machine_close(&copy);
	}
	assert(vial_machine_pause(&machine) == 0);
	vial_state_clear(&state);
	unlink(state_path);
	unlink(memory_path);
	close(fds.state);
	close(fds.memory);
}

/* In a child: go on from the parent's instant, count, and fork again down to `depth` 0. The exit status tells. */
static void live_as_child(struct vial_state_writer *state, uint64_t saved, int depth)
{
	struct vial_fork_child ends = { -1, { -1 }, -1, -1 };
	pid_t pid = 0;

	for (; pid == 0; depth--) {
		const char *error = "";

		alarm(60);
		if (vial_fork_become(&machine, state, &ends, &error) < 0) {
			fprintf(stderr, "child: %s\n", error);
			_exit(2);
		}
		if (payload_counter(&machine) != saved)
			_exit(3);
		vial_machine_resume(&machine);
		if (!payload_wait_beyond(&machine, saved + 5000, TIMEOUT_MS))
			_exit(4);
		if (vial_machine_pause(&machine) < 0)
			_exit(5);
		if (depth == 0)
			_exit(0);
		vial_state_begin(state);
		if (vial_fork_save(&machine, state) < 0)
			_exit(6);
		saved = payload_counter(&machine);
		pid = vial_fork();
	}
	if (waitpid(pid, &(int){ 0 }, 0) != pid || payload_counter(&machine) != saved)
		_exit(7);
	_exit(0);
}

static void it_forks_four_times_and_three_deep(void)
{
	struct vial_state_writer state;
	uint64_t saved = payload_counter(&machine);
	pid_t pids[4];

	vial_state_begin(&state);
	assert(vial_fork_save(&machine, &state) == 0);
	for (int i = 0; i < 4; i++) {
		pids[i] = vial_fork();
		assert(pids[i] >= 0);
		if (pids[i] == 0)
			live_as_child(&state, saved, i == 0 ? 2 : 0);
	}
	vial_machine_resume(&machine);
	assert(payload_wait_beyond(&machine, saved + 1000, TIMEOUT_MS));
	for (int i = 0; i < 4; i++) {
		int status;

		assert(waitpid(pids[i], &status, 0) == pids[i]);
		if (status != 0)
			fprintf(stderr, "child %d: status %x\n", i, status);
		assert(status == 0);
	}
	assert(vial_machine_pause(&machine) == 0);
	vial_state_clear(&state);
}

int main(void)
{
	static const struct {
		const uint8_t *code;
		size_t length;
	} payloads[] = { { payload_count, sizeof(payload_count) }, { payload_count_io, sizeof(payload_count_io) } };
	struct vial_kvm kvm;
	const char *reason;

	if (vial_kvm_open(&kvm, &reason) < 0) {
		printf("skipped: %s\n", reason);
		return 77;
	}
	vial_kvm_close(&kvm);
	vial_vcpu_init_signal();
	for (size_t i = 0; i < 2; i++) {
		assert(payload_boot(&machine, payloads[i].code, payloads[i].length, 64) == 0 && vial_machine_start(&machine) == 0);
		it_runs_and_pauses();
		registers_are_exact();
		a_snapshot_is_restored_twice();
		it_forks_four_times_and_three_deep();
		vial_machine_close(&machine);
	}
	puts("8 machine tests passed on this machine's /dev/kvm");
	return 0;
}
