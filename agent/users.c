/* SPDX-License-Identifier: Apache-2.0 */
/* See users.h. */
#include "users.h"

#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "files.h"
#include "loop.h"

#define MAX_DATABASE_BYTES (1024 * 1024)
#define MAX_FIELDS 7
#define DEFAULT_USER "user"
#define NAME_CACHE_MS 200

static bool is_entered;

/* Splits one line at its colons, in place; missing fields are empty. Returns the next line or NULL. */
static char *split_line(char *line, char *fields[MAX_FIELDS])
{
	static char empty[1];
	char *end = strchr(line, '\n');
	char *next = end ? end + 1 : NULL;

	if (end)
		*end = '\0';
	for (int i = 0; i < MAX_FIELDS; i++) {
		fields[i] = line ? line : empty;
		line = line && i < MAX_FIELDS - 1 ? strchr(line, ':') : NULL;
		if (line)
			*line++ = '\0';
	}
	return next;
}

static bool parse_id(const char *text, unsigned *out_id)
{
	char *end;
	unsigned long value;

	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	value = strtoul(text, &end, 10);
	/* (uid_t)-1 means "no change" to the kernel: never accept it. */
	if (*end != '\0' || errno != 0 || value >= 0xffffffffUL)
		return false;
	*out_id = (unsigned)value;
	return true;
}

static bool is_member(const char *list, const char *name)
{
	size_t length = strlen(name);

	while (*list) {
		size_t item = strcspn(list, ",");

		if (item == length && memcmp(list, name, length) == 0)
			return true;
		list += item + (list[item] == ',');
	}
	return false;
}

static void find_groups(struct vial_user *user)
{
	char *text, *line, *fields[MAX_FIELDS];

	user->groups[user->group_count++] = user->gid;
	if (vial_file_read("/etc/group", MAX_DATABASE_BYTES, &text) < 0)
		return;
	for (line = text; line && *line;) {
		unsigned gid;

		line = split_line(line, fields);
		if (user->group_count < VIAL_USER_MAX_GROUPS && parse_id(fields[2], &gid) && gid != user->gid && is_member(fields[3], user->name))
			user->groups[user->group_count++] = gid;
	}
	free(text);
}

static bool take_entry(char *fields[MAX_FIELDS], struct vial_user *out_user)
{
	unsigned uid, gid;

	if (!parse_id(fields[2], &uid) || !parse_id(fields[3], &gid))
		return false;
	*out_user = (struct vial_user){ .uid = uid, .gid = gid };
	snprintf(out_user->name, sizeof(out_user->name), "%s", fields[0]);
	snprintf(out_user->home, sizeof(out_user->home), "%s", *fields[5] ? fields[5] : "/");
	snprintf(out_user->shell, sizeof(out_user->shell), "%s", *fields[6] ? fields[6] : "/bin/sh");
	return true;
}

/* By name, or by number when `name` is NULL. */
static int find_entry(const char *name, unsigned uid, struct vial_user *out_user)
{
	char *text, *line, *fields[MAX_FIELDS];
	int result = vial_file_read("/etc/passwd", MAX_DATABASE_BYTES, &text);

	if (result < 0)
		return result;
	result = -ENOENT;
	for (line = text; line && *line && result < 0;) {
		unsigned entry_uid;

		line = split_line(line, fields);
		if (name ? strcmp(fields[0], name) != 0 : !parse_id(fields[2], &entry_uid) || entry_uid != uid)
			continue;
		if (take_entry(fields, out_user))
			result = 0;
	}
	free(text);
	return result;
}

static void unnamed_user(unsigned uid, struct vial_user *out_user)
{
	*out_user = (struct vial_user){ .uid = uid, .gid = uid, .home = "/", .shell = "/bin/sh" };
	snprintf(out_user->name, sizeof(out_user->name), "%u", uid);
}

/* What tells one state of a file from the next; the guest cannot set a ctime. */
struct stamp {
	dev_t device;
	ino_t inode;
	off_t size;
	struct timespec modified, changed;
};

static void read_stamp(const char *path, struct stamp *out_stamp)
{
	struct stat info;

	memset(out_stamp, 0, sizeof(*out_stamp)); /* the gaps too: stamps are compared as bytes */
	if (stat(path, &info) < 0)
		return;
	out_stamp->device = info.st_dev;
	out_stamp->inode = info.st_ino;
	out_stamp->size = info.st_size;
	out_stamp->modified = info.st_mtim;
	out_stamp->changed = info.st_ctim;
}

static int look_up(const char *name, struct vial_user *out_user)
{
	unsigned uid = 0;
	bool is_number = parse_id(name, &uid);
	int result = find_entry(is_number ? NULL : name, uid, out_user);

	if (result < 0 && (is_number || strcmp(name, "root") == 0)) {
		/* Root exists even if the guest has broken its passwd: somebody must be able to mend it. */
		unnamed_user(uid, out_user);
		result = 0;
	}
	if (result == 0)
		find_groups(out_user);
	return result;
}

/* Every command asks, nearly always for the same one, and opening two files in a guest takes longer than all else before the fork. */
int vial_user_find(const char *name_or_number, struct vial_user *out_user)
{
	static struct {
		struct vial_user user;
		char name[sizeof(((struct vial_user *)0)->name)]; /* as it was asked for; empty: nothing is known */
		struct stamp stamps[2];
	} last;
	const char *name = name_or_number ? name_or_number : DEFAULT_USER;
	struct stamp stamps[2];
	int result;

	read_stamp("/etc/passwd", &stamps[0]);
	read_stamp("/etc/group", &stamps[1]);
	if (*name && strcmp(last.name, name) == 0 && memcmp(last.stamps, stamps, sizeof(stamps)) == 0) {
		*out_user = last.user;
		return 0;
	}
	result = look_up(name, out_user);
	if (result == 0 && strlen(name) < sizeof(last.name)) {
		strcpy(last.name, name);
		memcpy(last.stamps, stamps, sizeof(stamps));
		last.user = *out_user;
	}
	return result;
}

int vial_user_from_json(json_t *request, struct vial_user *out_user)
{
	json_t *value = json_object_get(request, "user");
	char number[32];

	if (!value || json_is_null(value))
		return vial_user_find(NULL, out_user);
	if (json_is_string(value))
		return vial_user_find(json_string_value(value), out_user);
	if (!json_is_integer(value) || json_integer_value(value) < 0)
		return -EINVAL;
	snprintf(number, sizeof(number), "%lld", (long long)json_integer_value(value));
	return vial_user_find(number, out_user);
}

static void look_up_name(const char *database, unsigned id, char *out_name, size_t size_bytes)
{
	char *text, *line, *fields[MAX_FIELDS];

	snprintf(out_name, size_bytes, "%u", id);
	if (vial_file_read(database, MAX_DATABASE_BYTES, &text) < 0)
		return;
	for (line = text; line && *line;) {
		unsigned entry_id;

		line = split_line(line, fields);
		if (parse_id(fields[2], &entry_id) && entry_id == id) {
			snprintf(out_name, size_bytes, "%s", fields[0]);
			break;
		}
	}
	free(text);
}

/* The last answer, good for a moment: a listing asks the same question for every entry. */
struct name_cache {
	unsigned id;
	int64_t until_ms;
	char name[64];
};

static void find_name(struct name_cache *cache, const char *database, unsigned id, char *out_name, size_t size_bytes)
{
	int64_t now_ms = vial_loop_now_ms();

	if (cache->id != id || cache->until_ms <= now_ms) {
		look_up_name(database, id, cache->name, sizeof(cache->name));
		cache->id = id;
		cache->until_ms = now_ms + NAME_CACHE_MS;
	}
	snprintf(out_name, size_bytes, "%s", cache->name);
}

void vial_user_name(uid_t uid, char *out_name, size_t size_bytes)
{
	static struct name_cache cache;

	find_name(&cache, "/etc/passwd", uid, out_name, size_bytes);
}

void vial_group_name(gid_t gid, char *out_name, size_t size_bytes)
{
	static struct name_cache cache;

	find_name(&cache, "/etc/group", gid, out_name, size_bytes);
}

/* The raw calls: the agent has one thread, and glibc's wrappers would go looking for others. */
int vial_user_enter(const struct vial_user *user)
{
	if (is_entered)
		abort();
	if (user->uid == 0 && user->gid == 0)
		return 0;
	if (syscall(SYS_setgroups, user->group_count, user->groups) < 0)
		return -errno;
	if (syscall(SYS_setresgid, -1, user->gid, -1) < 0 || syscall(SYS_setresuid, -1, user->uid, -1) < 0) {
		int error = errno;

		is_entered = true;
		vial_user_leave();
		return -error;
	}
	is_entered = true;
	return 0;
}

void vial_user_leave(void)
{
	if (!is_entered)
		return;
	is_entered = false;
	/* Cannot fail: the saved ids are root's. If it ever does, going on with unknown rights is worse than ending. */
	if (syscall(SYS_setresuid, -1, 0, -1) < 0 || syscall(SYS_setresgid, -1, 0, -1) < 0 || syscall(SYS_setgroups, 0, NULL) < 0)
		abort();
}
