/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which files under /workspace a run has made, changed or removed, by inotify: exact whatever the clock's granularity, and free for runs that change
 * nothing. The queue is only looked at when a run begins and ends; if it has overflowed meanwhile, the tree is searched for what is
 * younger than the run instead. Directories that tools fill by the thousand (.git, node_modules, __pycache__) are left out.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

/* From now on; the value is for vial_changes_end(). */
uint64_t vial_changes_begin(void);
/* Soon after it, where it keeps nobody waiting (it is a system call): the time of day, in case there has to be a search. */
void vial_changes_note_time(void);
/* [{"path","size","mime","deleted"?}], at most 1000, by path. *out_is_cut (may be NULL): there may be more, whichever limit was met. */
json_t *vial_changes_end(uint64_t since, bool *out_is_cut);
