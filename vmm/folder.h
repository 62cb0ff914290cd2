/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sandbox's folder, by which viald starts a host process and finds it again, the same for every engine: `vial-vmm DIR` reads DIR/vmm.json (what
 * "start" would say, and "uid" and "gid" of the jail), listens on DIR/shim.sock and says "ready".
 */
#pragma once

#include <jansson.h>

/* Makes DIR the working directory. 0 and the configuration, or -errno and one sentence. */
int vial_folder_enter(const char *path, json_t **out_config, const char **out_error);
/* After listening. Opens exit.json, to be written when the jail has long closed. Returns its descriptor or -errno. */
int vial_folder_announce(void);
void vial_folder_write_exit(int fd, const char *reason);
/* The "restore" object and disk layers for a snapshot in the folder `image`: files state, memory, disk and, perhaps, hot. Changes `config`. */
int vial_folder_use_image(json_t *config, const char *image);
