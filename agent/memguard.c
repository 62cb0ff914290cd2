/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The limit that the host enforces (a cgroup under gVisor, the machine's RAM in a microVM) ends the whole sandbox, or picks its victim without
 * asking. So the guard looks first: as often as memory could run out meanwhile, and above the high mark it kills the process of the zone with
 * the largest resident set. Whoever started that process hears that it was the guard (is_oom). The next one is only killed when the first is gone and
 * has had time to give its memory back. If there is no process whose end would help (shared memory outlives its makers), the whole zone is restarted.
 *
 * Under gVisor the disk lives in the same memory; its use is not the programs' and is taken off, because killing a program would not free it.
 */
#include "memguard.h"

#include <signal.h>
#include <stdbool.h>
#include <string.h>

#include "files.h"
#include "kernelspare.h"
#include "log.h"
#include "loop.h"
#include "procfs.h"
#include "procguard.h"
#include "rootfs.h"
#include "zone.h"

/* As fast as two cores can touch fresh pages here, rounded up. */
#define FILL_RATE_KB_PER_MS (4u * 1024u)
#define MIN_INTERVAL_MS 10
#define MAX_INTERVAL_MS 1000
/* For the process guard, which looks with us. */
#define CROWDED_INTERVAL_MS 250
/* Kill above this part of the limit, or with less than RESERVE_KB left, whichever leaves more to programs. */
#define HIGH_PERCENT 95
#define RESERVE_KB (64u * 1024u)
/* After a kill the memory takes a moment to come back; a second victim before that would be one too many. */
#define SETTLE_MS 200
/* A busy host takes longer over it. As long as the use does not grow meanwhile nobody else is to blame, and waiting is right. */
#define SLOW_SETTLE_MS 3000
/* Killing smaller ones cannot bring us below the mark; so many times in a row and the zone goes. */
#define WORTHWHILE_KB (16u * 1024u)
#define MAX_VAIN 10

static uint64_t limit_kb;
static struct vial_timer timer;
static pid_t victim;
static int64_t killed_at_ms;
static uint64_t used_at_kill_kb;
static unsigned vain_count;

void vial_memguard_usage(uint64_t *out_used_kb, uint64_t *out_limit_kb)
{
	char text[4096];
	uint64_t total_kb, available_kb, used_kb, disk_used_kb, disk_total_kb;

	*out_used_kb = *out_limit_kb = 0;
	if (vial_file_read_at(vial_procfs_fd(), "meminfo", text, sizeof(text)) <= 0)
		return;
	total_kb = vial_procfs_meminfo_kb(text, "MemTotal");
	available_kb = vial_procfs_meminfo_kb(text, "MemAvailable");
	used_kb = total_kb > available_kb ? total_kb - available_kb : 0;
	if (vial_rootfs_disk_is_memory()) {
		vial_rootfs_disk(&disk_used_kb, &disk_total_kb);
		used_kb = used_kb > disk_used_kb ? used_kb - disk_used_kb : 0;
	}
	*out_used_kb = used_kb;
	*out_limit_kb = limit_kb && limit_kb < total_kb ? limit_kb : total_kb;
}

static uint64_t high_mark_kb(uint64_t limit)
{
	uint64_t by_percent = limit * HIGH_PERCENT / 100;
	uint64_t by_reserve = limit > RESERVE_KB ? limit - RESERVE_KB : 0;

	return by_percent > by_reserve ? by_percent : by_reserve;
}

static bool take_larger(const struct vial_process *process, void *data)
{
	struct vial_process *largest = data;
	bool is_ours = process->pid == 1 || process->pid == vial_zone_init_pid();

	if (!is_ours && process->state != 'Z' && process->rss_kb > largest->rss_kb)
		*largest = *process;
	return true;
}

static bool is_settling(uint64_t used_kb)
{
	struct vial_process process;
	int64_t since_ms = vial_loop_now_ms() - killed_at_ms;

	if (victim == 0)
		return false;
	if (vial_procfs_read(victim, &process) == 0 && process.state != 'Z' && since_ms < 10 * SETTLE_MS)
		return true;
	return since_ms < (used_kb <= used_at_kill_kb ? SLOW_SETTLE_MS : SETTLE_MS);
}

static void kill_largest(uint64_t used_kb)
{
	struct vial_process largest = { 0 };

	vial_procfs_for_each(take_larger, &largest);
	if (largest.rss_kb < WORTHWHILE_KB) {
		if (++vain_count < MAX_VAIN)
			return;
		vial_log("warning", "memory guard: no process to blame, restarting the zone");
		vain_count = 0;
		vial_zone_restart(VIAL_ZONE_OUT_OF_MEMORY);
		vial_rootfs_clear_shared_memory();
		victim = vial_zone_init_pid(); /* only for the time to settle */
	} else {
		vial_log("warning", "memory guard: killing a process of %llu kB", (unsigned long long)largest.rss_kb);
		vain_count = 0;
		vial_zone_mark_oom(largest.pid, largest.session);
		kill(largest.pid, SIGKILL);
		victim = largest.pid;
	}
	killed_at_ms = vial_loop_now_ms();
	used_at_kill_kb = used_kb;
}

static void look(struct vial_timer *unused, void *data)
{
	uint64_t used_kb, current_limit_kb, high_kb;
	int64_t interval_ms = MAX_INTERVAL_MS;
	bool is_crowded = vial_procguard_look();

	vial_memguard_usage(&used_kb, &current_limit_kb);
	high_kb = high_mark_kb(current_limit_kb);
	/* Nobody's kernels go long before somebody's process has to. */
	if (current_limit_kb > 0 && used_kb + VIAL_SPARE_ROOM_KB > high_kb)
		vial_spare_give_up();
	if (current_limit_kb > 0 && used_kb >= high_kb) {
		if (!is_settling(used_kb))
			kill_largest(used_kb);
		interval_ms = MIN_INTERVAL_MS;
	} else if (current_limit_kb > 0) {
		vain_count = 0;
		interval_ms = (int64_t)((high_kb - used_kb) / FILL_RATE_KB_PER_MS);
		if (interval_ms < MIN_INTERVAL_MS)
			interval_ms = MIN_INTERVAL_MS;
		if (interval_ms > MAX_INTERVAL_MS)
			interval_ms = MAX_INTERVAL_MS;
	}
	if (is_crowded && interval_ms > CROWDED_INTERVAL_MS)
		interval_ms = CROWDED_INTERVAL_MS;
	vial_timer_set(&timer, interval_ms, look, NULL);
}

/* A sandbox may have less memory than its template was baked with. Its spares go, and have the time that a victim has. */
static void make_room(void)
{
	uint64_t used_kb, current_limit_kb;
	pid_t pid;

	vial_memguard_usage(&used_kb, &current_limit_kb);
	if (current_limit_kb == 0 || used_kb + VIAL_SPARE_ROOM_KB <= high_mark_kb(current_limit_kb))
		return;
	pid = vial_spare_give_up();
	if (pid <= 0)
		return;
	victim = pid;
	killed_at_ms = vial_loop_now_ms();
	used_at_kill_kb = used_kb;
}

void vial_memguard_set_limit(uint64_t new_limit_kb)
{
	limit_kb = new_limit_kb;
	make_room();
	vial_timer_set(&timer, MIN_INTERVAL_MS, look, NULL);
}
