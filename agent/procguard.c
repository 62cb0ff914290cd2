/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See procguard.h. Under a bomb a look into /proc/PID may take tens of milliseconds, so a census lists everybody (two calls) but looks at a sample,
 * evenly spread, for as long as its budget lasts; what it sees of the sample is taken for the whole.
 */
#include "procguard.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "log.h"
#include "loop.h"
#include "procfs.h"
#include "session.h"
#include "zone.h"

/* What a command needs: a shell and a pipeline. Fewer than this free and the sandbox is full. */
#define PLACES 4u
/* So many processes that always run leave too little of the processor to anybody else. */
#define MANY_RUNNING 32u
/* How long it must go on: several looks, and this time. A program that has only grown too large gives up before. */
#define MIN_LOOKS 3u
#define BOMB_MS 1500
#define ZONE_MS 4000
/* Beyond this times the limit nobody got by accident: the limit is one user's, and there may be many users. */
#define TOLERATED_EXCESS 2u
#define MAX_LISTED 8192u
#define MAX_SESSIONS 1024u
#define BUDGET_MS 150
/* Fewer tell nothing. */
#define MIN_SAMPLE 4u
/* A crowd is paused for so long when a command starts, and then left alone for a while. */
#define PAUSE_MS 3000
#define REST_MS 1000
#define WATCH_MS 100
/* So many more within one look, look after look, is a bomb, or looks like one: it is stopped, and judged when it is let go. */
#define GROWTH 16u
#define GROWING_LOOKS 2u
/* How often a crowd may be found larger after it was let go: workers that were stopped while they were being made are made then. */
#define MAX_RELAPSES 1u
/* How often the end of the condemned is put off for a command. */
#define MAX_DELAYS 20u
/* How long a command counts as starting. */
#define START_MS 4000

struct session {
	pid_t id, newest;
	unsigned tasks, running;
	unsigned orphans; /* whose parents have gone: what a bomb in a shell leaves behind */
};

static struct {
	pid_t pids[MAX_LISTED];
	unsigned listed, sampled; /* of those that are not ours */
	bool is_complete;         /* everybody was looked at */
	struct session sessions[MAX_SESSIONS];
	unsigned session_count;
	struct session all;
	unsigned of_user;
} census;

/* What has been seen of a suspect since it was first seen; id 0 stands for the whole zone. */
struct suspicion {
	pid_t id, newest;
	unsigned looks; /* at which it was forking, or running */
	int64_t since_ms;
};

static unsigned limit = UINT_MAX;
static unsigned own_tasks; /* that are not the zone's */
static struct suspicion largest_suspect, zone_suspect;
static struct vial_timer pause_timer;
static pid_t paused; /* the session that is stopped, 0 */
static bool is_paused_condemned;
static unsigned delays;
/* The one that was stopped last, and how many there were when it was let go. */
static pid_t last_paused;
static unsigned released_tasks, watch_looks, relapses;
/* At the last look, and how often in a row there were many more. */
static unsigned last_tasks, growing_looks;
static pid_t spared;            /* the session that is not to be */
static int64_t wanted_until_ms; /* a command starts until then */

/* --- the census --- */

static void list_pids(void)
{
	int fd = openat(vial_procfs_fd(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *directory = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;

	census.listed = 0;
	while (directory && census.listed < MAX_LISTED && (entry = readdir(directory))) {
		pid_t pid = isdigit((unsigned char)*entry->d_name) ? (pid_t)atoi(entry->d_name) : 0;

		if (pid > 1 && pid != vial_zone_init_pid())
			census.pids[census.listed++] = pid;
	}
	if (directory)
		closedir(directory);
	else if (fd >= 0)
		close(fd);
}

static void count_in(struct session *session, const struct vial_process *process)
{
	session->tasks += process->threads;
	session->running += process->state == 'R';
	session->orphans += process->parent == vial_zone_init_pid() && process->pid != process->session;
	if (process->pid > session->newest)
		session->newest = process->pid;
}

static bool is_of_user(pid_t pid, uid_t uid)
{
	struct stat info;
	char name[16];

	snprintf(name, sizeof(name), "%d", (int)pid);
	return fstatat(vial_procfs_fd(), name, &info, 0) == 0 && info.st_uid == uid;
}

static void look_at(pid_t pid, const uid_t *uid)
{
	struct vial_process process;
	unsigned i = 0;

	if (vial_procfs_read(pid, &process) < 0)
		return;
	/* A guest kernel's own threads have no session. */
	if (process.session <= 1 || process.state == 'Z')
		return;
	count_in(&census.all, &process);
	if (uid && is_of_user(pid, *uid))
		census.of_user += process.threads;
	while (i < census.session_count && census.sessions[i].id != process.session)
		i++;
	if (i == MAX_SESSIONS)
		return;
	if (i == census.session_count)
		census.sessions[census.session_count++] = (struct session){ .id = process.session };
	count_in(&census.sessions[i], &process);
}

/* The order of a sample: every eighth, then those between them. */
static void take_census(const uid_t *uid)
{
	int64_t end_ms = vial_loop_clock_ms() + BUDGET_MS;
	unsigned newest = 0;

	list_pids();
	census.sampled = census.session_count = census.of_user = 0;
	census.all = (struct session){ 0 };
	census.is_complete = true;
	for (unsigned start = 0; start < 8 && census.is_complete; start++) {
		for (unsigned i = start; i < census.listed && census.is_complete; i += 8) {
			look_at(census.pids[i], uid);
			census.is_complete = ++census.sampled < MIN_SAMPLE || vial_loop_clock_ms() < end_ms || census.sampled == census.listed;
		}
	}
	for (unsigned i = 0; i < census.listed; i++)
		newest = census.pids[i] > (pid_t)newest ? (unsigned)census.pids[i] : newest;
	if (!census.is_complete)
		census.all.newest = (pid_t)newest;
}

/* From the sample to the whole. */
static unsigned estimate(unsigned tasks)
{
	if (census.is_complete || census.sampled == 0)
		return tasks;
	return (unsigned)((uint64_t)tasks * census.listed / census.sampled);
}

static const struct session *largest_session(void)
{
	const struct session *largest = &census.all;

	for (unsigned i = 0; i < census.session_count; i++) {
		if (largest == &census.all || census.sessions[i].tasks > largest->tasks)
			largest = &census.sessions[i];
	}
	return largest;
}

/* --- judging --- */

/* True when it has gone on for long enough. */
static bool suspect(struct suspicion *suspicion, const struct session *session, int64_t limit_ms)
{
	/* Who forks is seen exactly only when everybody is looked at. */
	pid_t newest = census.is_complete ? session->newest : census.all.newest;
	/* A smaller number after a larger one: they have come round. */
	bool has_forked = newest > suspicion->newest || newest < suspicion->newest / 2;

	if (suspicion->looks == 0 || suspicion->id != session->id)
		*suspicion = (struct suspicion){ .id = session->id, .looks = 1, .since_ms = vial_loop_now_ms() };
	else if (has_forked || estimate(session->running) >= MANY_RUNNING)
		suspicion->looks++;
	suspicion->newest = newest;
	return suspicion->looks >= MIN_LOOKS && vial_loop_now_ms() - suspicion->since_ms >= limit_ms;
}

static void forget_suspects(void)
{
	largest_suspect.looks = zone_suspect.looks = 0;
}

static void stop_session(const struct session *session, bool is_condemned);

static void judge(void)
{
	const struct session *largest;
	unsigned tasks;

	take_census(NULL);
	tasks = estimate(census.all.tasks);
	largest = largest_session();
	if (tasks + PLACES < limit) {
		/* A sample may be a little off; somebody who is there in full is not. */
		if (census.is_complete)
			forget_suspects();
		return;
	}
	if (2 * estimate(largest->tasks) >= limit && suspect(&largest_suspect, largest, BOMB_MS)) {
		stop_session(&(struct session){ .id = largest->id, .tasks = estimate(largest->tasks) }, true);
		forget_suspects();
	} else if (suspect(&zone_suspect, &census.all, ZONE_MS) || tasks > limit * TOLERATED_EXCESS) {
		vial_log("warning", "process guard: about %u processes and nobody to blame, restarting the zone", tasks);
		forget_suspects();
		vial_zone_restart(VIAL_ZONE_PROCESS_LIMIT);
	}
}

/* Cheap: this is asked before every command. */
static unsigned task_count(void)
{
	struct sysinfo info;

	return sysinfo(&info) == 0 && info.procs > own_tasks ? info.procs - own_tasks : 0;
}

/* The guest kernel's threads, which are counted with the others; a template's life begins with this, so that no sandbox waits for it. */
static void count_own(void)
{
	struct sysinfo info;

	take_census(NULL);
	if (sysinfo(&info) == 0 && census.is_complete)
		own_tasks = info.procs > census.all.tasks ? info.procs - census.all.tasks : 0;
}

void vial_procguard_set_limit(unsigned new_limit)
{
	limit = new_limit;
	if (own_tasks == 0)
		count_own();
}

static bool is_near_limit(void)
{
	return task_count() + PLACES >= limit;
}

/* --- making way --- */

static void on_paused(struct vial_timer *timer, void *data);

/* From now, not from when the loop last looked at its clock: under a bomb a census and a signal to all take seconds. */
static void set_pause_timer(int64_t delay_ms, vial_timer_fn *fn)
{
	vial_timer_set(&pause_timer, vial_loop_clock_ms() - vial_loop_now_ms() + delay_ms, fn, NULL);
}

/* A crowd of workers is as large as it is, or is soon; a bomb that is let go grows at once, each time, and is caught while we can still move. */
static void on_released(struct vial_timer *timer, void *data)
{
	unsigned tasks = task_count(), growth = tasks > released_tasks ? tasks - released_tasks : 0;
	/* Whoever takes the last places while others wait for one has had his second chance. */
	bool has_filled_up = growth >= GROWTH && is_near_limit();

	if (has_filled_up || growth >= released_tasks / 4 + GROWTH) {
		stop_session(&(struct session){ .id = last_paused, .tasks = tasks }, ++relapses > MAX_RELAPSES || has_filled_up);
		return;
	}
	/* While it is set nobody is paused again. */
	if (++watch_looks * WATCH_MS < REST_MS)
		set_pause_timer(WATCH_MS, on_released);
}

/*
 * The end of hundreds of processes is work for the processor too, and a command may be on its way: the condemned are stopped first, which is one
 * call, and killed when nobody waits. But where they have all places they are in the command's way: a shell that cannot fork tries again after
 * one second, then after two, four and eight.
 */
static void on_paused(struct vial_timer *timer, void *data)
{
	pid_t session = paused;

	if (is_paused_condemned && !is_near_limit() && vial_loop_now_ms() < wanted_until_ms && ++delays < MAX_DELAYS) {
		vial_session_signal(session, SIGSTOP);
		set_pause_timer(REST_MS, on_paused);
		return;
	}
	paused = 0;
	if (is_paused_condemned) {
		vial_session_kill(session);
		return;
	}
	released_tasks = task_count();
	watch_looks = 0;
	kill(-session, SIGCONT);
	set_pause_timer(WATCH_MS, on_released);
}

static void stop_session(const struct session *session, bool is_condemned)
{
	if (is_condemned) {
		vial_log("warning", "process guard: ending a session of about %u processes", session->tasks);
		vial_zone_mark_process_limit(session->id);
	}
	is_paused_condemned = is_condemned;
	delays = 0;
	paused = last_paused = session->id;
	vial_session_signal(paused, SIGSTOP);
	/* A pause helps nobody where there is no place. */
	set_pause_timer(is_near_limit() ? 0 : PAUSE_MS, on_paused);
}

static void pause_crowd(void)
{
	const struct session *largest;
	unsigned crowd;

	if (paused > 1) {
		/* Those that were being forked when the others were stopped. */
		vial_session_signal(paused, SIGSTOP);
		return;
	}
	if (pause_timer.is_set || task_count() < MANY_RUNNING || is_near_limit())
		return;
	take_census(NULL);
	largest = largest_session();
	crowd = largest->running + (growing_looks >= GROWING_LOOKS ? largest->orphans : 0);
	if (largest->id == spared && vial_loop_now_ms() < wanted_until_ms)
		return;
	if (largest->id <= 1 || estimate(crowd) < MANY_RUNNING)
		return;
	relapses = 0;
	stop_session(largest, false);
}

void vial_procguard_make_way(pid_t own_session)
{
	spared = own_session;
	wanted_until_ms = vial_loop_now_ms() + START_MS;
	pause_crowd();
}

void vial_procguard_spare(pid_t own_session)
{
	spared = own_session;
}

bool vial_procguard_look(bool is_calm)
{
	unsigned tasks = task_count();
	bool is_steady = is_calm && tasks == last_tasks;

	growing_looks = tasks >= last_tasks + GROWTH ? growing_looks + 1 : 0;
	last_tasks = tasks;
	/* A crowd may gather while the command is on its way. */
	if (paused > 1 || vial_loop_now_ms() < wanted_until_ms || growing_looks >= GROWING_LOOKS)
		pause_crowd();
	if (paused > 1)
		return true;
	if (!is_near_limit()) {
		forget_suspects();
		return growing_looks > 0 || (tasks >= MANY_RUNNING && !is_steady);
	}
	judge();
	return true;
}

bool vial_procguard_has_room(uid_t uid)
{
	if (!is_near_limit())
		return true;
	take_census(&uid);
	return estimate(census.of_user) + PLACES < limit;
}
