/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For LD_PRELOAD: the wall clock, moved by as many seconds as the file says that VIAL_TEST_CLOCK names (eight bytes, mapped, so that a test can move
 * it while the program runs). The monotonic clock is left alone, as it is when somebody sets a real one.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *offset;

__attribute__((constructor)) static void find_offset(void)
{
	const char *path = getenv("VIAL_TEST_CLOCK");
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	void *mapped = fd >= 0 ? mmap(NULL, sizeof(*offset), PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;

	if (fd >= 0)
		close(fd);
	if (mapped != MAP_FAILED)
		offset = mapped;
}

int clock_gettime(clockid_t clock, struct timespec *out)
{
	int status = (int)syscall(SYS_clock_gettime, clock, out);

	if (status == 0 && offset && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
		out->tv_sec += *offset;
	return status;
}

int gettimeofday(struct timeval *restrict out, void *restrict zone)
{
	struct timespec now;
	int status = clock_gettime(CLOCK_REALTIME, &now);

	(void)zone;
	out->tv_sec = now.tv_sec;
	out->tv_usec = now.tv_nsec / 1000;
	return status;
}

time_t time(time_t *out)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	if (out)
		*out = now.tv_sec;
	return now.tv_sec;
}
