/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sudo, where setuid programs cannot work. gVisor ignores setuid bits and file capabilities, so nothing a user starts can become root by
 * itself. Instead the zone's init starts a server, as root; the images' /usr/bin/sudo is this same program, which passes a command line, its
 * environment and its standard descriptors to the server and waits for the end. Where setuid works (a microVM), it becomes the real sudo,
 * and there is no server. Which of the two it is, only a setuid program can tell: runsc of 2024 reads no_new_privs as 1, that of 2026 as 0,
 * and neither lets one become root.
 *
 * The sandbox is the boundary, not the user in it: whoever is root or `user` may do anything, as the image's sudoers file says.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define VIAL_SUDO_SERVER_ARGUMENT "--sudo-server"
/* Abstract: no file that a user could remove, and none to clean up. */
#define VIAL_SUDO_SOCKET "\0vial-sudo"
#define VIAL_SUDO_MAX_BODY_BYTES (4u * 1024u * 1024u)
#define VIAL_SUDO_MAX_STRINGS 65536u

/* Client to server, with three descriptors (SCM_RIGHTS). Followed by group_count gid_t, then cwd, argv and env as NUL-ended
 * strings. After that each byte from the client is a signal for the command; end of file means the client is gone. */
struct vial_sudo_request {
	uint32_t uid, gid;
	uint32_t group_count;
	uint32_t argument_count, env_count;
	uint32_t mode_mask;
	uint32_t body_bytes;
};

/* Server to client, once. */
struct vial_sudo_answer {
	int32_t error;  /* errno why it did not start, or 0 */
	int32_t status; /* as waitpid() gives it */
};

/* Was the program called by the name of sudo? */
bool vial_sudo_is_called(const char *argv0);
/* Does the image's own sudo work, as a setuid program has to? Blocks while one runs. */
bool vial_sudo_is_real(void);
/* The client: main() under that name. */
int vial_sudo_main(int argc, char **argv);
/* The server: serves until it is killed. Returns 0 where none is needed, else it could not be made. */
int vial_sudo_server_main(void);
