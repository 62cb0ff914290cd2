/* SPDX-License-Identifier: Apache-2.0 */
/* See files.h. */
#include "files.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

void vial_file_post(int fd)
{
	uint64_t one = 1;

	if (fd >= 0)
		(void)!write(fd, &one, sizeof(one));
}

void vial_file_close(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

int vial_file_open_read(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

	return fd < 0 ? -errno : fd;
}

int vial_file_open_unnamed(const char *directory)
{
	int fd = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	return fd < 0 ? -errno : fd;
}

int vial_file_open_log(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);

	return fd < 0 ? -errno : fd;
}

int vial_file_map(const char *path, size_t max_bytes, struct vial_mapped_file *out_file)
{
	int fd = vial_file_open_read(path);
	struct stat info;
	void *bytes = MAP_FAILED;
	int result = fd < 0 ? fd : 0;

	if (result == 0 && fstat(fd, &info) < 0)
		result = -errno;
	if (result == 0 && (!S_ISREG(info.st_mode) || info.st_size == 0 || (uint64_t)info.st_size > max_bytes))
		result = -EINVAL;
	if (result == 0) {
		bytes = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
		if (bytes == MAP_FAILED)
			result = -errno;
	}
	if (fd >= 0)
		close(fd);
	if (result == 0)
		*out_file = (struct vial_mapped_file){ bytes, (size_t)info.st_size };
	return result;
}

void vial_file_unmap(struct vial_mapped_file *file)
{
	if (file->bytes)
		munmap((void *)(uintptr_t)file->bytes, file->size_bytes);
	*file = (struct vial_mapped_file){ 0 };
}

int vial_file_write_all(int fd, const void *data, size_t length)
{
	const uint8_t *bytes = data;

	while (length > 0) {
		ssize_t part = write(fd, bytes, length);

		if (part < 0 && errno == EINTR)
			continue;
		if (part < 0)
			return -errno;
		bytes += part;
		length -= (size_t)part;
	}
	return 0;
}
