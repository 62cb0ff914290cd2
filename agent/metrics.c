/* SPDX-License-Identifier: Apache-2.0 */
/* metrics: what the sandbox uses now. */
#include <stdio.h>

#include "files.h"
#include "memguard.h"
#include "ops.h"
#include "procfs.h"
#include "rootfs.h"
#include "zone.h"

struct sums {
	uint64_t cpu_ms;
	long count;
};

static bool add(const struct vial_process *process, void *data)
{
	struct sums *sums = data;

	/* Ended processes live on in their parents' sums, in the end in the zone's init's. */
	sums->cpu_ms += process->cpu_ms + process->reaped_cpu_ms;
	sums->count += process->pid != 1 && process->pid != vial_zone_init_pid();
	return true;
}

void vial_op_metrics(struct vial_stream *stream, json_t *request)
{
	uint64_t memory_used_kb, memory_limit_kb, disk_used_kb, disk_total_kb;
	struct sums sums = { 0 };
	double load[3] = { 0 };
	char text[128];

	vial_procfs_for_each(add, &sums);
	vial_memguard_usage(&memory_used_kb, &memory_limit_kb);
	vial_rootfs_disk(&disk_used_kb, &disk_total_kb);
	if (vial_file_read_at(vial_procfs_fd(), "loadavg", text, sizeof(text)) > 0)
		sscanf(text, "%lf %lf %lf", &load[0], &load[1], &load[2]);
	vial_stream_close_ok(stream,
			     json_pack("{s:I,s:I,s:I,s:I,s:I,s:I,s:[fff]}", "cpu_ms", (json_int_t)sums.cpu_ms, "memory_used_kb",
				       (json_int_t)memory_used_kb, "memory_limit_kb", (json_int_t)memory_limit_kb, "disk_used_kb",
				       (json_int_t)disk_used_kb, "disk_total_kb", (json_int_t)disk_total_kb, "processes",
				       (json_int_t)sums.count, "load", load[0], load[1], load[2]));
}
