/* SPDX-License-Identifier: Apache-2.0 */
/* See ctxfiles.h. Only names are taken from the queue; a file's size is what it has when the run ends. */
#include "ctxfiles.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <nettle/sha2.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "fspath.h"
#include "loop.h"
#include "mime.h"
#include "text.h"

#define EVENTS (IN_CREATE | IN_MODIFY | IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_DELETE_SELF | IN_MOVE_SELF)
#define ARRIVALS (IN_CREATE | IN_MOVED_TO)
#define MAX_DIRECTORIES 4096u
#define MAX_DEPTH 32
#define MAX_CHANGED 4096u
#define MAX_REPORTED 1000u
/* Of their JSON: with the other fields a CLOSE must stay below one frame. */
#define MAX_REPORTED_BYTES (160u * 1024u)
/* Of the first so many files, and of no more bytes in all, the hash is told, for the host's records: nobody else is served while we read. */
#define MAX_HASHED 64u
#define MAX_HASHED_BYTES (16u * 1024u * 1024u)
#define MAX_SEARCHED 100000u
/* Nobody else is served while we search. */
#define SEARCH_MS 300
/* How late the time of a run's beginning may have been noted. */
#define LATE_NS 10000000
#define BUCKETS 1024u

struct directory {
	int watch;
	char *path;
};

/*
 * A directory that is being moved, as the queue tells it. Between two looks it may move more than once: then it is not at `path` any more
 * when we hear that it arrived there, and what is in it is missed at `origin`, where it was at the last look.
 */
struct journey {
	enum { NOWHERE, LEFT, ARRIVED } state;
	uint32_t cookie; /* of LEFT: its arrival has the same */
	bool was_watched;
	char path[PATH_MAX], origin[PATH_MAX];
};

/* A path that has changed, and when: `moment` counts runs' beginnings and ends, not time. */
struct change {
	struct change *next;
	uint64_t moment;
	uint64_t new_since; /* when it came into being; 0 when it was there before anybody looked */
	char path[];
};

static int queue_fd = -1;
static struct directory *directories;
static unsigned directory_count;
static struct journey journey;
static struct change *changes[BUCKETS];
static unsigned change_count;
static uint64_t moment = 1;
static unsigned open_runs;
/* The moment of the last loss (an overflow): runs that were open then search. */
static uint64_t lost_moment;
/* The moment at which there were more changes than are kept. */
static uint64_t full_moment;
/* Part of the tree is not watched: every run searches. */
static bool is_partial;
/* When the oldest open run began, for searching. */
static struct timespec oldest_begin;

static bool is_skipped(const char *name)
{
	static const char *const skipped[] = { ".",     "..",           ".git",        ".hg",
		                               ".svn",  "node_modules", "__pycache__", ".ipynb_checkpoints",
		                               ".venv", ".cache",       ".mypy_cache", ".pytest_cache" };

	for (size_t i = 0; i < sizeof(skipped) / sizeof(*skipped); i++) {
		if (strcmp(name, skipped[i]) == 0)
			return true;
	}
	return false;
}

static unsigned hash_of(const char *path)
{
	unsigned hash = 5381;

	while (*path)
		hash = hash * 33 + (unsigned char)*path++;
	return hash % BUCKETS;
}

static void note_change(const char *path, bool is_arrival)
{
	struct change **bucket = &changes[hash_of(path)], *change;

	for (change = *bucket; change; change = change->next) {
		if (strcmp(change->path, path) == 0) {
			change->moment = moment;
			return;
		}
	}
	change = change_count < MAX_CHANGED ? malloc(sizeof(*change) + strlen(path) + 1) : NULL;
	if (!change) {
		full_moment = moment;
		return;
	}
	change->moment = moment;
	change->new_since = is_arrival ? moment : 0;
	strcpy(change->path, path);
	change->next = *bucket;
	*bucket = change;
	change_count++;
}

static void forget_changes(void)
{
	for (unsigned i = 0; i < BUCKETS; i++) {
		while (changes[i]) {
			struct change *change = changes[i];

			changes[i] = change->next;
			free(change);
		}
	}
	change_count = 0;
}

static struct directory *find_directory(int watch)
{
	for (unsigned i = 0; i < directory_count; i++) {
		if (directories[i].watch == watch)
			return &directories[i];
	}
	return NULL;
}

static void remember_directory(int watch, const char *path)
{
	struct directory *directory = find_directory(watch), *grown;
	char *copy = strdup(path);

	if (!copy)
		return;
	if (!directory) {
		grown = realloc(directories, (directory_count + 1) * sizeof(*directories));
		if (!grown) {
			free(copy);
			return;
		}
		directories = grown;
		directory = &directories[directory_count++];
		*directory = (struct directory){ .watch = watch };
	}
	/* A directory that was moved keeps its watch. */
	free(directory->path);
	directory->path = copy;
}

static void forget_directory(struct directory *directory)
{
	free(directory->path);
	*directory = directories[--directory_count];
}

static bool is_watched(const char *path)
{
	for (unsigned i = 0; i < directory_count; i++) {
		if (strcmp(directories[i].path, path) == 0)
			return true;
	}
	return false;
}

/* `is_new`: it appeared during a run, so everything in it has changed. `old_path`: where it was before, or NULL; what is in it is missed there. */
static void add_tree(const char *path, int depth, bool is_new, const char *old_path)
{
	struct dirent *entry;
	char child[PATH_MAX], old_child[PATH_MAX];
	DIR *stream;
	int watch;

	if (directory_count >= MAX_DIRECTORIES || depth >= MAX_DEPTH) {
		is_partial = true;
		return;
	}
	watch = inotify_add_watch(queue_fd, path, EVENTS | IN_DONT_FOLLOW | IN_ONLYDIR);
	if (watch < 0) {
		is_partial = is_partial || (errno != ENOENT && errno != ENOTDIR);
		return;
	}
	remember_directory(watch, path);
	stream = opendir(path);
	if (!stream)
		return;
	while ((entry = readdir(stream))) {
		if (is_skipped(entry->d_name) || snprintf(child, sizeof(child), "%s/%s", path, entry->d_name) >= (int)sizeof(child))
			continue;
		if (old_path && snprintf(old_child, sizeof(old_child), "%s/%s", old_path, entry->d_name) >= (int)sizeof(old_child))
			continue;
		if (entry->d_type == DT_DIR)
			add_tree(child, depth + 1, is_new, old_path ? old_child : NULL);
		else if (is_new)
			note_change(child, true);
		if (old_path && entry->d_type != DT_DIR)
			note_change(old_child, false);
	}
	closedir(stream);
}

static int depth_of(const char *path)
{
	int depth = 0;

	for (; *path; path++)
		depth += *path == '/';
	return depth;
}

/* What has left and not arrived is nobody's business any more, and what was in it cannot be asked: it is missed as one. */
static void end_journey(void)
{
	size_t length = strlen(journey.origin);
	bool is_lost = journey.state == LEFT && journey.was_watched;

	journey.state = NOWHERE;
	if (!is_lost)
		return;
	for (unsigned i = 0; i < directory_count; i++) {
		const char *path = directories[i].path;

		/* The kernel answers with IN_IGNORED, which makes us forget it. */
		if (strncmp(path, journey.origin, length) == 0 && (path[length] == '/' || path[length] == '\0'))
			inotify_rm_watch(queue_fd, directories[i].watch);
	}
	if (length + 2 <= sizeof(journey.origin)) {
		memcpy(journey.origin + length, "/", 2);
		note_change(journey.origin, false);
	}
}

static void take_departure(const char *path, uint32_t cookie)
{
	bool goes_on = journey.state == ARRIVED && strcmp(journey.path, path) == 0;

	if (!goes_on) {
		end_journey();
		strcpy(journey.origin, path);
		journey.was_watched = is_watched(path);
	}
	journey.state = LEFT;
	journey.cookie = cookie;
}

static void take_arrival(const char *path, uint32_t cookie)
{
	bool is_expected = journey.state == LEFT && cookie && journey.cookie == cookie;
	struct stat info;

	/* One that we never saw where it was has come into being since the last look: nobody misses it there. */
	add_tree(path, depth_of(path), true, is_expected && journey.was_watched ? journey.origin : NULL);
	if (is_expected) {
		journey.state = lstat(path, &info) < 0 ? ARRIVED : NOWHERE;
		strcpy(journey.path, path);
	}
}

static void take_event(const struct inotify_event *event)
{
	struct directory *directory = find_directory(event->wd);
	char path[PATH_MAX];

	if (event->mask & IN_Q_OVERFLOW)
		lost_moment = moment;
	if (!directory)
		return;
	if (event->mask & IN_IGNORED) {
		forget_directory(directory);
		return;
	}
	if (event->len == 0 || is_skipped(event->name) || snprintf(path, sizeof(path), "%s/%s", directory->path, event->name) >= (int)sizeof(path))
		return;
	if (!(event->mask & IN_ISDIR))
		note_change(path, event->mask & ARRIVALS);
	else if (event->mask & IN_MOVED_FROM)
		take_departure(path, event->cookie);
	else if (event->mask & ARRIVALS)
		take_arrival(path, event->cookie);
}

static void drain(void)
{
	static char buffer[64 * 1024] __attribute__((aligned(__alignof__(struct inotify_event))));
	ssize_t size;

	while (queue_fd >= 0 && (size = read(queue_fd, buffer, sizeof(buffer))) > 0) {
		for (ssize_t at = 0; at < size;) {
			const struct inotify_event *event = (const void *)(buffer + at);

			take_event(event);
			at += (ssize_t)(sizeof(*event) + event->len);
		}
	}
	end_journey();
}

/* Watches the tree from its root, also after somebody has removed and remade it. */
static void ensure_watching(void)
{
	if (queue_fd < 0)
		queue_fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	if (queue_fd < 0) {
		is_partial = true;
		return;
	}
	if (!is_watched(VIAL_WORKSPACE))
		add_tree(VIAL_WORKSPACE, 0, false, NULL);
}

uint64_t vial_changes_begin(void)
{
	drain();
	if (open_runs == 0)
		forget_changes();
	ensure_watching();
	open_runs++;
	return ++moment;
}

void vial_changes_note_time(void)
{
	if (open_runs != 1)
		return;
	clock_gettime(CLOCK_REALTIME_COARSE, &oldest_begin);
	oldest_begin.tv_nsec -= LATE_NS;
	if (oldest_begin.tv_nsec < 0) {
		oldest_begin.tv_nsec += 1000000000;
		oldest_begin.tv_sec--;
	}
}

/* --- the answer --- */

struct answer {
	json_t *list;
	size_t size_bytes;
	unsigned hashed;
	size_t hashed_bytes;
	unsigned left; /* names to look at in a search */
	int64_t end_ms;
	bool is_cut;
};

/* What is in it at this moment, as hexadecimal text; false when it is no plain file any more, or changes while it is read. */
static bool hash_file(const char *path, off_t size, char out[2 * SHA256_DIGEST_SIZE + 1])
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	uint8_t buffer[64 * 1024], digest[SHA256_DIGEST_SIZE];
	struct sha256_ctx context;
	struct stat info;
	off_t left = size;
	ssize_t n = 0;
	bool is_whole = fd >= 0 && fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_size == size;

	sha256_init(&context);
	while (is_whole && left > 0 && (n = read(fd, buffer, left < (off_t)sizeof(buffer) ? (size_t)left : sizeof(buffer))) > 0) {
		sha256_update(&context, (size_t)n, buffer);
		left -= n;
	}
	if (fd >= 0)
		close(fd);
	sha256_digest(&context, sizeof(digest), digest);
	for (size_t i = 0; i < sizeof(digest); i++)
		snprintf(out + 2 * i, 3, "%02x", digest[i]);
	return is_whole && left == 0;
}

static void tell_hash(struct answer *answer, json_t *file, const char *path, off_t size)
{
	char text[2 * SHA256_DIGEST_SIZE + 1];

	if (answer->hashed == MAX_HASHED || size > (off_t)(MAX_HASHED_BYTES - answer->hashed_bytes))
		return;
	answer->hashed++;
	answer->hashed_bytes += (size_t)size;
	if (hash_file(path, size, text))
		json_object_set_new(file, "sha256", json_string(text));
}

/* False when the answer is full. `was_there`: when the run began, so that it is missed if it is gone. */
static bool report(struct answer *answer, const char *path, bool was_there)
{
	struct stat info = { 0 };
	bool is_gone = lstat(path, &info) < 0 && errno == ENOENT;
	json_t *file;

	if (is_gone ? !was_there : !S_ISREG(info.st_mode))
		return true;
	file = json_pack("{s:o,s:I,s:s}", "path", vial_json_text(path), "size", (json_int_t)info.st_size, "mime",
	                 path[strlen(path) - 1] == '/' ? "inode/directory" : vial_mime_of(path));
	if (is_gone)
		json_object_set_new(file, "deleted", json_true());
	else
		tell_hash(answer, file, path, info.st_size);
	answer->size_bytes += json_dumpb(file, NULL, 0, JSON_COMPACT) + 1;
	if (json_array_size(answer->list) >= MAX_REPORTED || answer->size_bytes > MAX_REPORTED_BYTES) {
		answer->is_cut = true;
		json_decref(file);
		return false;
	}
	json_array_append_new(answer->list, file);
	return true;
}

static bool is_younger(const struct timespec *time)
{
	return time->tv_sec > oldest_begin.tv_sec || (time->tv_sec == oldest_begin.tv_sec && time->tv_nsec >= oldest_begin.tv_nsec);
}

static void search(struct answer *answer, const char *path, int depth)
{
	DIR *stream = depth < MAX_DEPTH ? opendir(path) : NULL;
	struct dirent *entry;
	char child[PATH_MAX];
	struct stat info;

	/* Gone meanwhile is no loss; too deep, or closed to us, may be. */
	answer->is_cut = answer->is_cut || (!stream && (depth >= MAX_DEPTH || errno != ENOENT));
	while (stream && !answer->is_cut && (entry = readdir(stream))) {
		if (is_skipped(entry->d_name))
			continue;
		if (snprintf(child, sizeof(child), "%s/%s", path, entry->d_name) >= (int)sizeof(child) || answer->left-- == 0 ||
		    vial_loop_clock_ms() > answer->end_ms)
			answer->is_cut = true;
		else if (entry->d_type == DT_DIR)
			search(answer, child, depth + 1);
		else if (lstat(child, &info) == 0 && (is_younger(&info.st_mtim) || is_younger(&info.st_ctim)))
			report(answer, child, false);
	}
	if (stream)
		closedir(stream);
}

static int compare_paths(const void *a, const void *b)
{
	return strcmp((*(const struct change *const *)a)->path, (*(const struct change *const *)b)->path);
}

static void report_changes(struct answer *answer, uint64_t since)
{
	const struct change **found = malloc((change_count + 1) * sizeof(*found));
	unsigned count = 0, next = 0;

	for (unsigned i = 0; found && i < BUCKETS; i++) {
		for (struct change *change = changes[i]; change; change = change->next) {
			if (change->moment >= since)
				found[count++] = change;
		}
	}
	if (count > 1)
		qsort(found, count, sizeof(*found), compare_paths);
	while (next < count && report(answer, found[next]->path, found[next]->new_since < since))
		next++;
	answer->is_cut = answer->is_cut || !found;
	free(found);
}

/* The queue has not told everything: a search finds all that is younger than the run, if it gets to its end. */
static void find_rest(struct answer *answer)
{
	struct answer found = { .list = json_array(), .left = MAX_SEARCHED, .end_ms = vial_loop_clock_ms() + SEARCH_MS };

	search(&found, VIAL_WORKSPACE, 0);
	answer->is_cut = found.is_cut;
	if (!found.is_cut || json_array_size(found.list) > json_array_size(answer->list)) {
		json_decref(answer->list);
		answer->list = found.list;
	} else {
		json_decref(found.list);
	}
}

json_t *vial_changes_end(uint64_t since, bool *out_is_cut)
{
	struct answer answer = { .list = json_array() };

	drain();
	report_changes(&answer, since);
	if (!answer.is_cut && (is_partial || lost_moment >= since || full_moment >= since))
		find_rest(&answer);
	moment++;
	if (open_runs > 0)
		open_runs--;
	if (out_is_cut)
		*out_is_cut = answer.is_cut;
	return answer.list;
}
