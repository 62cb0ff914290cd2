/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every sub-command of `vial` is given, and what it may say to the user. One thread; the process lives for one command.
 */
#pragma once

#include <glib.h>
#include <jansson.h>

#include "cli/http.h"
#include "cli/options.h"

/* Exit statuses, as docs/cli.md promises them. A command that runs something remote passes that thing's status through. */
enum {
	VIAL_EXIT_OK = 0,
	VIAL_EXIT_ERROR = 1,
	VIAL_EXIT_USAGE = 2,
	VIAL_EXIT_TIMEOUT = 124,     /* the remote command ran into its time limit */
	VIAL_EXIT_REMOTE = 125,      /* exec, sh, run: vial itself failed, so 1 stays the remote command's */
	VIAL_EXIT_INTERRUPTED = 130, /* Ctrl-C */
	VIAL_EXIT_PIPE = 141,        /* whoever read our output left */
};

typedef struct VialCommand VialCommand;
typedef struct VialVerb VialVerb;

typedef struct {
	char *url;        /* scheme://host:port without a path, or unix:/path */
	char *key;        /* NULL: none found */
	char *key_source; /* where the key came from, for doctor; NULL with no key */
	char *cacert;
	gboolean is_json;
	gboolean is_quiet;
	gboolean has_color_out, has_color_err;
	const VialCommand *command;
	const VialVerb *verb; /* NULL: the command has none */
	VialHttp *http;
} VialCli;

/* `argv` holds what is left after options: `argc` strings, NULL after them. Returns the exit status. */
typedef int (*VialRunFunc)(VialCli *cli, int argc, char **argv);

/* One of several things that a command does: `vial key rotate`. Each has its own arguments and options, and refuses those of the others. */
struct VialVerb {
	const char *name; /* NULL ends a table; "": what the command does when no verb is named */
	const char *arguments;
	const char *summary;
	VialRunFunc run; /* gets what follows the verb */
	const VialOption *options;
	int min_arguments, max_arguments;
	const char *completes;      /* what the first argument is, see VialOption.values; NULL: nothing to offer */
	const char *completes_more; /* what the others are; NULL: the same */
};

/* How a command is called. Lives beside its run function; help, man page and completion are made from it. */
typedef struct {
	const char *arguments;            /* "ID [--] COMMAND [ARG...]" */
	const char *description;          /* paragraphs; lines starting with two blanks are examples */
	const VialOption *options;        /* NULL: none of its own */
	int verbatim_after;               /* from this positional on (counted from 1) nothing is an option any more; 0: never */
	int min_arguments, max_arguments; /* max -1: any number */
	const char *completes;            /* what the arguments are: see VialOption.values */
	const VialVerb *verbs;            /* NULL: it does one thing. Otherwise each says its own options and arguments */
} VialSyntax;

/* One row of the table in main.c; a row without `syntax` is a heading of the help page. `run` is NULL where there are verbs. */
struct VialCommand {
	const char *name;
	const char *summary;
	VialRunFunc run;
	const VialSyntax *syntax;
};

const VialCommand *vial_commands(void); /* the table; ends with a row whose summary is NULL */
const VialCommand *vial_command_find(const char *name);
const VialVerb *vial_verb_find(const VialCommand *command, const char *name); /* NULL: it has none of that name */
const VialOption *vial_global_options(void);
