/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The limit that the host enforces (a cgroup under gVisor, the machine's RAM in a microVM) ends the whole sandbox, or picks its victim without
 * asking. So the guard looks first: as often as memory could run out meanwhile, and above the high mark it kills the process of the zone with
 * the largest resident set. Whoever started that process hears that it was the guard (is_oom). The next one is only killed when the first is gone and
 * has had time to give its memory back. If there is no process whose end would help (shared memory outlives its makers), the whole zone is restarted.
 *
 * Under gVisor the disk lives in the same memory; its use is not the programs' and is taken off, because killing a program would not free it.
 *
 * How often is often enough? While somebody talks to the sandbox: as often as the programs could reach the mark. In the calm between two operations
 * (calm.h) nobody is served better by a kill a second earlier, but the sandbox must not end: as often as the memory that the host grants could
 * be used up by what wakes up by itself, a timer or a server. Under gVisor that is the programs' and the disk's together, gigabytes away from the
 * mark. In a microVM the guest kernel itself ends a program when memory is gone, and never the agent; a second is soon enough for what it cannot do,
 * restart the zone. A look that finds that the use has grown is followed by quick ones. Where nothing of the user's has ever run nobody looks.
 */
#include "memguard.h"

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "calm.h"
#include "kernelspare.h"
#include "log.h"
#include "loop.h"
#include "procfs.h"
#include "procguard.h"
#include "rootfs.h"
#include "zone.h"

/* As fast as two cores can touch fresh pages, rounded up; and under gVisor, where each takes the Sentry's help: thrice what was ever measured. */
#define FILL_RATE_KB_PER_MS (4u * 1024u)
#define GVISOR_FILL_RATE_KB_PER_MS (2u * 1024u)
#define MIN_INTERVAL_MS 10
#define MAX_INTERVAL_MS 1000
#define MAX_CALM_INTERVAL_MS 5000
/* So much more since the last look, in the calm, is something that runs. */
#define RESTLESS_KB (8u * 1024u)
#define RESTLESS_MS 4000
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
static uint64_t last_used_kb;
static int64_t restless_until_ms;
static bool is_slow; /* the next look is one of the calm's */

struct usage {
	uint64_t used_kb, limit_kb; /* the programs' */
	uint64_t room_kb;           /* what is left until the host, or the guest's kernel, ends something without asking us */
};

/* Opened once: a look that comes every few seconds, for years, is made of as few calls as possible. */
static ssize_t read_meminfo(char *text, size_t size_bytes)
{
	static int fd = -1;
	ssize_t got;

	if (fd < 0)
		fd = openat(vial_procfs_fd(), "meminfo", O_RDONLY | O_CLOEXEC);
	got = fd < 0 ? -1 : pread(fd, text, size_bytes - 1, 0);
	if (got > 0)
		text[got] = '\0';
	return got;
}

static struct usage measure(void)
{
	char text[4096];
	uint64_t total_kb, available_kb, all_kb, disk_used_kb = 0, disk_total_kb = 0;
	struct usage usage = { 0 };

	if (read_meminfo(text, sizeof(text)) <= 0)
		return usage;
	total_kb = vial_procfs_meminfo_kb(text, "MemTotal");
	available_kb = vial_procfs_meminfo_kb(text, "MemAvailable");
	all_kb = total_kb > available_kb ? total_kb - available_kb : 0;
	if (vial_rootfs_disk_is_memory())
		vial_rootfs_disk(&disk_used_kb, &disk_total_kb);
	usage.used_kb = all_kb > disk_used_kb ? all_kb - disk_used_kb : 0;
	usage.limit_kb = limit_kb && limit_kb < total_kb ? limit_kb : total_kb;
	if (usage.limit_kb + disk_total_kb > usage.used_kb + disk_used_kb)
		usage.room_kb = usage.limit_kb + disk_total_kb - usage.used_kb - disk_used_kb;
	return usage;
}

void vial_memguard_usage(uint64_t *out_used_kb, uint64_t *out_limit_kb)
{
	struct usage usage = measure();

	*out_used_kb = usage.used_kb;
	*out_limit_kb = usage.limit_kb;
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
	if (vial_procfs_read(victim, &process) == 0 && process.state != 'Z' && since_ms < 10 * SETTLE_MS) {
		/* What it has taken since, on a busy host that kills slowly, goes with it: nobody else is to blame for that. */
		if (used_kb > used_at_kill_kb)
			used_at_kill_kb = used_kb;
		return true;
	}
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
		/* First: the new zone takes over the mounts that it finds. What the old one's processes still write goes with them. */
		vial_rootfs_clear_shared_memory();
		vial_zone_restart(VIAL_ZONE_OUT_OF_MEMORY);
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

static int64_t clamp(int64_t value, int64_t minimum, int64_t maximum)
{
	return value < minimum ? minimum : value > maximum ? maximum : value;
}

static bool is_restless(uint64_t used_kb)
{
	int64_t now_ms = vial_loop_now_ms();

	if (used_kb > last_used_kb + RESTLESS_KB)
		restless_until_ms = now_ms + RESTLESS_MS;
	last_used_kb = used_kb;
	return now_ms < restless_until_ms;
}

/* Below the high mark. */
static int64_t pace_ms(const struct usage *usage, uint64_t high_kb)
{
	if (!is_slow)
		return clamp((int64_t)((high_kb - usage->used_kb) / FILL_RATE_KB_PER_MS), MIN_INTERVAL_MS, MAX_INTERVAL_MS);
	if (!vial_rootfs_disk_is_memory())
		return clamp((int64_t)(usage->room_kb / FILL_RATE_KB_PER_MS), MAX_INTERVAL_MS, MAX_CALM_INTERVAL_MS);
	return clamp((int64_t)(usage->room_kb / GVISOR_FILL_RATE_KB_PER_MS), MIN_INTERVAL_MS, MAX_CALM_INTERVAL_MS);
}

static void look(struct vial_timer *unused, void *data)
{
	struct usage usage;
	uint64_t high_kb;
	int64_t interval_ms = MAX_INTERVAL_MS;
	bool is_calm = vial_calm(), is_crowded;

	is_slow = false;
	if (is_calm && vial_calm_is_untouched())
		return;
	is_crowded = vial_procguard_look(is_calm);
	usage = measure();
	high_kb = high_mark_kb(usage.limit_kb);
	is_slow = !is_restless(usage.used_kb) && is_calm && !is_crowded && usage.used_kb < high_kb;
	/* Nobody's kernels go long before somebody's process has to. */
	if (usage.limit_kb > 0 && usage.used_kb + VIAL_SPARE_ROOM_KB > high_kb)
		vial_spare_give_up();
	if (usage.limit_kb > 0 && usage.used_kb >= high_kb) {
		if (!is_settling(usage.used_kb))
			kill_largest(usage.used_kb);
		interval_ms = MIN_INTERVAL_MS;
	} else if (usage.limit_kb > 0) {
		vain_count = 0;
		interval_ms = pace_ms(&usage, high_kb);
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
	if (!vial_calm_is_untouched())
		vial_timer_set(&timer, MIN_INTERVAL_MS, look, NULL);
}

void vial_memguard_hasten(void)
{
	if (is_slow || !timer.is_set)
		vial_timer_set(&timer, MIN_INTERVAL_MS, look, NULL);
	is_slow = false;
}
