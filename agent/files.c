/* SPDX-License-Identifier: Apache-2.0 */
/* See files.h. */
#include "files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int read_all(int fd, char *buffer, size_t size_bytes)
{
	size_t total = 0;

	while (total < size_bytes) {
		ssize_t got = read(fd, buffer + total, size_bytes - total);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (got == 0)
			break;
		total += (size_t)got;
	}
	return (int)total;
}

int vial_file_read(const char *path, size_t max_bytes, char **out_text)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat info;
	char *text = NULL;
	int result = 0;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &info) < 0)
		result = -errno;
	else if (!S_ISREG(info.st_mode))
		result = -EINVAL;
	else if ((size_t)info.st_size > max_bytes)
		result = -EFBIG;
	else if (!(text = malloc((size_t)info.st_size + 1)))
		result = -ENOMEM;
	else
		result = read_all(fd, text, (size_t)info.st_size);
	close(fd);
	if (result < 0) {
		free(text);
		return result;
	}
	text[result] = '\0';
	*out_text = text;
	return 0;
}

int vial_file_read_at(int directory_fd, const char *path, char *buffer, size_t size_bytes)
{
	int fd = openat(directory_fd, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	int result;

	if (fd < 0)
		return -errno;
	result = read_all(fd, buffer, size_bytes - 1);
	close(fd);
	if (result >= 0)
		buffer[result] = '\0';
	return result;
}

int vial_file_write_at(int directory_fd, const char *path, const char *text)
{
	int fd = openat(directory_fd, path, O_WRONLY | O_CLOEXEC | O_NONBLOCK);
	int result = 0;

	if (fd < 0)
		return -errno;
	if (write(fd, text, strlen(text)) < 0)
		result = -errno;
	close(fd);
	return result;
}

int vial_file_replace(const char *path, const char *text, size_t size_bytes, mode_t mode)
{
	char temporary[PATH_MAX];
	int fd, result = 0;

	if (snprintf(temporary, sizeof(temporary), "%s.vial-new", path) >= (int)sizeof(temporary))
		return -ENAMETOOLONG;
	unlink(temporary);
	fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
	if (fd < 0)
		return -errno;
	if (write(fd, text, size_bytes) != (ssize_t)size_bytes)
		result = -ENOSPC;
	else if (fchmod(fd, mode) < 0 || rename(temporary, path) < 0)
		result = -errno;
	close(fd);
	if (result < 0)
		unlink(temporary);
	return result;
}
