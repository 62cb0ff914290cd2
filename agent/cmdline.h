/* SPDX-License-Identifier: Apache-2.0 */
/* A command as lists show it: one line for the eye, of bounded length. */
#pragma once

/* The list of processes must fit one frame. */
#define VIAL_CMDLINE_BYTES 1024

/*
 * The words as a shell line that means the same: a word that a shell would take apart stands in quotes. What does not fit
 * ends in "…". NULL without memory; free() it.
 */
char *vial_cmdline_from_argv(const char *const *argv);
/* A shell line as it is, bounded likewise. */
char *vial_cmdline_from_shell(const char *line);
