/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does what was typed so far want another line? A guess from brackets, quotes, blocks and continuations, made here so that Enter
 * answers at once. A wrong "no" is a syntax error from the kernel, a wrong "yes" one more Enter; nothing is lost either way.
 */
#pragma once

#include <glib.h>

/* `language` is python, javascript or bash. */
gboolean vial_is_complete(const char *language, const char *code);
/* The blanks that the next line of a block begins with. Free it. */
char *vial_next_indent(const char *language, const char *code);
