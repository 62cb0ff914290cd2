/* SPDX-License-Identifier: Apache-2.0 */
/* metrics: what the sandbox uses now. */
#include <stdio.h>

#include "cgroup.h"
#include "files.h"
#include "memguard.h"
#include "ops.h"
#include "procfs.h"
#include "rootfs.h"

void vial_op_metrics(struct vial_stream *stream, json_t *request)
{
	uint64_t memory_used_kb, memory_limit_kb, disk_used_kb, disk_total_kb;
	int64_t cpu_ms = vial_cgroup_cpu_ms();
	long processes = vial_cgroup_process_count();
	double load[3] = { 0 };
	char text[128];

	vial_memguard_usage(&memory_used_kb, &memory_limit_kb);
	vial_rootfs_disk(&disk_used_kb, &disk_total_kb);
	if (vial_file_read_at(vial_procfs_fd(), "loadavg", text, sizeof(text)) > 0)
		sscanf(text, "%lf %lf %lf", &load[0], &load[1], &load[2]);
	vial_stream_close_ok(stream, json_pack("{s:I,s:I,s:I,s:I,s:I,s:I,s:[fff]}", "cpu_ms", (json_int_t)(cpu_ms < 0 ? 0 : cpu_ms), "memory_used_kb",
	                                       (json_int_t)memory_used_kb, "memory_limit_kb", (json_int_t)memory_limit_kb, "disk_used_kb",
	                                       (json_int_t)disk_used_kb, "disk_total_kb", (json_int_t)disk_total_kb, "processes",
	                                       (json_int_t)(processes > 0 ? processes - 1 : 0), /* less the zone's init */ "load", load[0], load[1],
	                                       load[2]));
}
