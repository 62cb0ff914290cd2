/* SPDX-License-Identifier: Apache-2.0 */
/* The resume hooks that renew what the kernel knows: entropy, clock, host name and the files that repeat it. */
#include "identity.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/random.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "files.h"
#include "hints.h"
#include "log.h"

#define ENTROPY_BYTES 64
/*
 * A HELLO may have waited on its way, so our clock may be that much ahead of its stamp, but hardly behind it. The answer carries our time, and
 * the host knows when it sent and when it heard: it judges exactly.
 */
#define MAX_CLOCK_BEHIND_NS (2 * INT64_C(1000000000))
#define MAX_CLOCK_AHEAD_NS (60 * INT64_C(1000000000))
/* Below this a step would do more harm (to timers of programs) than good. */
#define MIN_CLOCK_STEP_NS (10 * INT64_C(1000000))
#define MAX_HOSTS_BYTES (64 * 1024)
#define HOSTS_TAG "\t# vial\n"

static int random_fd = -1;

int vial_identity_init(void)
{
	struct stat info;

	/* Kept open: guest root may later put something else in /dev. */
	random_fd = open("/dev/random", O_WRONLY | O_CLOEXEC | O_NONBLOCK);
	if (random_fd < 0)
		return -errno;
	return fstat(random_fd, &info) < 0 || !S_ISCHR(info.st_mode) ? -ENODEV : 0;
}

void vial_identity_entropy(struct vial_resume *resume, json_t *hello, bool is_new_generation)
{
	const uint8_t *bytes = vial_resume_entropy(resume);
	/* struct rand_pool_info: bits of entropy, bytes that follow. */
	int pool[2 + ENTROPY_BYTES / sizeof(int)] = { ENTROPY_BYTES * 8, ENTROPY_BYTES };

	memcpy(pool + 2, bytes, ENTROPY_BYTES);
	/*
	 * Linux: credit the bytes, then reseed now rather than at the next interval. gVisor has neither call: its generator is the host's, which
	 * no snapshot contains, and the write below only has to be taken.
	 */
	if (ioctl(random_fd, RNDADDENTROPY, pool) < 0 && write(random_fd, bytes, ENTROPY_BYTES) != ENTROPY_BYTES) {
		vial_resume_done(resume, "the kernel did not take the entropy");
		return;
	}
	ioctl(random_fd, RNDRESEEDCRNG);
	vial_resume_done(resume, NULL);
}

int64_t vial_identity_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void vial_identity_clock(struct vial_resume *resume, json_t *hello, bool is_new_generation)
{
	const char *text = json_string_value(json_object_get(hello, "wall_clock_ns"));
	int64_t wanted_ns = text ? strtoll(text, NULL, 10) : 0;
	int64_t ahead_ns = vial_identity_now_ns() - wanted_ns;
	struct timespec wanted = { .tv_sec = wanted_ns / 1000000000, .tv_nsec = wanted_ns % 1000000000 };

	if (wanted_ns <= 0)
		vial_resume_done(resume, "\"wall_clock_ns\" must be a decimal number in a string");
	else if (llabs(ahead_ns) < MIN_CLOCK_STEP_NS || clock_settime(CLOCK_REALTIME, &wanted) == 0)
		vial_resume_done(resume, NULL);
	else if (ahead_ns >= -MAX_CLOCK_BEHIND_NS && ahead_ns <= MAX_CLOCK_AHEAD_NS) /* the clock is the host's and cannot be set from here */
		vial_resume_done(resume, NULL);
	else
		vial_resume_done(resume, "the wall clock is wrong and cannot be set");
}

/* 128 bits of FNV-1a over the id: the same sandbox keeps its machine id, two sandboxes never share one. */
static void machine_id(const char *sandbox_id, char out_text[34])
{
	uint64_t first = UINT64_C(0xcbf29ce484222325), second = UINT64_C(0x84222325cbf29ce4);

	for (const char *c = sandbox_id; *c; c++) {
		first = (first ^ (uint8_t)*c) * UINT64_C(0x100000001b3);
		second = (second ^ (uint8_t) ~*c) * UINT64_C(0x100000001b3);
	}
	snprintf(out_text, 34, "%016" PRIx64 "%016" PRIx64 "\n", first, second);
}

/* /etc/hosts with our one line, which ends in HOSTS_TAG, replaced or added. */
static void rewrite_hosts(const char *hostname)
{
	char *old = NULL, *text = NULL;
	size_t size, length = 0;
	FILE *out;

	if (vial_file_read("/etc/hosts", MAX_HOSTS_BYTES, &old) < 0 && !(old = strdup("127.0.0.1\tlocalhost\n")))
		return;
	out = open_memstream(&text, &size);
	for (char *line = old; out && *line; line += length) {
		char *end = strchr(line, '\n');

		length = end ? (size_t)(end - line) + 1 : strlen(line);
		if (length < strlen(HOSTS_TAG) || memcmp(line + length - strlen(HOSTS_TAG), HOSTS_TAG, strlen(HOSTS_TAG)) != 0)
			fwrite(line, 1, length, out);
	}
	if (out) {
		fprintf(out, "127.0.1.1\t%s" HOSTS_TAG, hostname);
		fclose(out);
		vial_file_replace("/etc/hosts", text, strlen(text), 0644);
	}
	free(text);
	free(old);
}

/* The files only repeat the identity; a sandbox whose disk is full must still wake up, so failing here is not fatal. */
static void rewrite_files(const char *hostname, const char *sandbox_id)
{
	char text[256];
	int result;

	snprintf(text, sizeof(text), "%s\n", hostname);
	result = vial_file_replace("/etc/hostname", text, strlen(text), 0644);
	if (sandbox_id && *sandbox_id) {
		machine_id(sandbox_id, text);
		vial_file_replace("/etc/machine-id", text, strlen(text), 0444);
	}
	rewrite_hosts(hostname);
	if (result < 0)
		vial_log("warning", "cannot rewrite /etc/hostname (errno %d)", -result);
}

/* Without a network it need not try again, which takes it seconds; it has a file for that, and no variable (env.c has those of others). */
static void tell_apt(bool is_offline)
{
	static const char path[] = "/etc/apt/apt.conf.d/95vial-no-network", text[] = "Acquire::Retries \"0\";\n";

	if (is_offline)
		vial_file_replace(path, text, strlen(text), 0644);
	else
		unlink(path);
}

/* The sandbox's one resolver, or none at all: the host decides with the network policy, and has none where nothing is allowed. Absent: left as it is.
 */
static void rewrite_resolver(json_t *nameserver)
{
	char text[128] = "";

	if (!nameserver)
		return;
	if (json_is_string(nameserver) && json_string_length(nameserver) < 64)
		snprintf(text, sizeof(text), "nameserver %s\n", json_string_value(nameserver));
	vial_file_replace("/etc/resolv.conf", text, strlen(text), 0644);
	if (json_is_null(nameserver) != vial_hints_is_offline())
		tell_apt(json_is_null(nameserver));
	vial_hints_set_offline(json_is_null(nameserver));
}

/* Another policy for a living sandbox. */
void vial_op_net_resolver(struct vial_stream *stream, json_t *request)
{
	rewrite_resolver(json_object_get(request, "nameserver"));
	vial_stream_close_ok(stream, NULL);
}

static bool is_hostname(const char *name)
{
	size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.");

	return length > 0 && length <= 63 && name[length] == '\0';
}

void vial_identity_hostname(struct vial_resume *resume, json_t *hello, bool is_new_generation)
{
	const char *hostname = json_string_value(json_object_get(hello, "hostname"));
	const char *sandbox_id = json_string_value(json_object_get(hello, "sandbox_id"));

	if (!hostname || !is_hostname(hostname)) {
		vial_resume_done(resume, "\"hostname\" must be 1 to 63 letters, digits, dots and dashes");
		return;
	}
	if (sethostname(hostname, strlen(hostname)) < 0) {
		vial_resume_done(resume, "the kernel did not take the host name");
		return;
	}
	rewrite_files(hostname, sandbox_id);
	rewrite_resolver(json_object_get(hello, "nameserver"));
	vial_resume_done(resume, NULL);
}
