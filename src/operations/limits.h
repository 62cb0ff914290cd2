/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every limit of what may be asked for and of what is answered, whichever surface asks: each is written here and nowhere else.
 * (Limits of a transport, such as the size of HTTP headers, are the transport's: src/http/server.h. Limits of the wire: wire/wire.h.)
 */
#pragma once

/* In a request's number: the client said nothing, so the default holds. No number that may be asked for. */
#define VIAL_UNSAID G_MININT64

/* Code */
#define VIAL_CODE_MAX_BYTES (8 * 1024 * 1024)
/* Code up to this size travels in the OPEN frame; beyond it, as a stream with credit. */
#define VIAL_CODE_INLINE_BYTES (64 * 1024)
#define VIAL_LANGUAGE_MAX_BYTES 32

/* Commands */
#define VIAL_COMMAND_MAX_BYTES (128 * 1024) /* a shell line, or one word of argv */
#define VIAL_ARGV_MAX_WORDS 1024
#define VIAL_RUN_ARGV_MAX_BYTES (64 * 1024) /* a run's words together: they travel in one frame with the code */
#define VIAL_SIGNAL_MAX_BYTES 16
#define VIAL_TERMINAL_MAX_CELLS 4095 /* rows or columns */
#define VIAL_TERMINAL_DEFAULT_ROWS 24
#define VIAL_TERMINAL_DEFAULT_COLS 80
#define VIAL_TERMINAL_READ_BYTES (1024 * 1024) /* in one answer: as much as is kept */
#define VIAL_TERMINAL_WAIT_MS 30000            /* for something to read */

/* Code and commands: the longest time limit one may ask for, a week. 0 is none. */
#define VIAL_TIMEOUT_MAX_MS (7LL * 24 * 3600 * 1000)

/* Environments: of a sandbox, a command, a cell. A name is what environ(7) can hold: not empty, without '=' and NUL. */
#define VIAL_ENV_MAX_PAIRS 256
#define VIAL_ENV_NAME_MAX_BYTES 256
#define VIAL_ENV_VALUE_MAX_BYTES (32 * 1024)

/* Names */
#define VIAL_PATH_MAX_BYTES 4096
#define VIAL_USER_MAX_BYTES 64
#define VIAL_ARCHIVE_EXCLUDES_MAX 1024
#define VIAL_NAME_MAX_BYTES 128 /* of templates and snapshots */
#define VIAL_TREE_ID_MAX_BYTES 64
#define VIAL_HOST_NAME_MAX_BYTES 253

/* Keys */
#define VIAL_KEY_MAX_DAYS 36500 /* of a lifetime in days */

/* Agents */
#define VIAL_AGENT_DESCRIPTION_MAX_BYTES 1024
#define VIAL_SESSION_NAME_MAX_BYTES 128
#define VIAL_SESSION_USER_MAX_BYTES 256
#define VIAL_AGENT_LANGUAGES_MAX 16
#define VIAL_AGENT_FILES_MAX 256
#define VIAL_AGENT_FILES_MAX_BYTES (8 * 1024 * 1024) /* of all of a version together */
#define VIAL_AGENT_PACKAGES_MAX 128                  /* of each kind */
#define VIAL_AGENT_PACKAGE_MAX_BYTES 256
#define VIAL_AGENT_PACKAGES_TIMEOUT_SECONDS 900
#define VIAL_AGENT_PROMPT_REF_MAX_BYTES 1024
#define VIAL_AGENT_VERSIONS_MAX 10000
#define VIAL_AGENTS_MAX 10000                                            /* of a project */
#define VIAL_AGENT_VERSIONS_MAX_BYTES (256 * G_GINT64_CONSTANT(1048576)) /* of all versions of a project: they are kept in memory */
#define VIAL_SESSIONS_PAGE 100                                           /* unless a limit is asked for */

/* Sandboxes */
#define VIAL_METADATA_MAX_PAIRS 64
#define VIAL_METADATA_NAME_MAX_BYTES 128
#define VIAL_METADATA_VALUE_MAX_BYTES 1024
#define VIAL_CPU_MIN 0.1
#define VIAL_CPU_MAX 64.0
#define VIAL_MEMORY_MIN_MB 128
#define VIAL_MEMORY_MAX_MB (64 * 1024)
#define VIAL_DISK_MIN_MB 64
#define VIAL_DISK_MAX_MB (64 * 1024)
#define VIAL_DISK_MAX_GB 64
#define VIAL_LIFETIME_MAX_SECONDS 2147483647 /* ttl_seconds, idle_seconds; 0 is no end */
#define VIAL_TIMEOUT_DEFAULT_SECONDS 300     /* of sandboxes whose clients count with a life this short unless they say (E2B) */
#define VIAL_SPACE_IDLE_SECONDS 300          /* after which one that is to freeze does, where nobody says when (Podflare) */
#define VIAL_PREVIEW_DEFAULT_TTL_SECONDS 3600
#define VIAL_PREVIEW_MAX_TTL_SECONDS (7 * 24 * 3600)

/* Builds of custom templates (a Dockerfile's limits are dockerfile.h's) */
#define VIAL_WARM_MAX_BYTES (64 * 1024)
#define VIAL_BUILD_FORM_MAX_BYTES (320 * 1024) /* of all fields of a form together, names too: a Dockerfile is the largest */

/* Pages and lists */
#define VIAL_PAGE_MAX 1000
#define VIAL_SANDBOXES_PAGE 100 /* of dialects whose lists are always in pages, unless a limit is asked for */
#define VIAL_LIST_MAX_DEPTH 16
#define VIAL_WATCHERS_MAX 64                     /* of a sandbox */
#define VIAL_WATCHER_CHANGES_MAX 10000           /* that are kept of one until somebody asks */
#define VIAL_WATCHER_CHANGES_BYTES (1024 * 1024) /* and how much memory they take: their names are the guest's */
#define VIAL_WATCHER_SILENCE_MS (60 * 60 * 1000) /* after which one that nobody asks ends */
#define VIAL_LOG_MAX_LINES 100000
#define VIAL_LOG_PAGE 1000      /* lines of dialects whose logs are in pages, unless fewer are asked for */
#define VIAL_BUILD_LOG_PAGE 100 /* of a build's */
#define VIAL_NETWORK_EVENTS_MAX 1000
#define VIAL_AUDIT_TEXT_MAX_BYTES 1024 /* of what is looked for */

/*
 * Answers that are collected before they are given: a tenant must not fill the daemon's memory by printing. What goes beyond is
 * left out, the answer says `truncated`, and the agent keeps the rest in a file of the sandbox. Streamed answers have no such
 * limit: they move at the client's pace.
 */
#define VIAL_ANSWER_OUTPUT_BYTES (4 * 1024 * 1024)   /* of each of stdout and stderr */
#define VIAL_ANSWER_RESULTS_BYTES (16 * 1024 * 1024) /* of all results together; the kernels' limit for one is the same */
#define VIAL_ANSWER_MAX_BYTES (2 * VIAL_ANSWER_OUTPUT_BYTES + VIAL_ANSWER_RESULTS_BYTES)
#define VIAL_ANSWER_RESULTS_MAX 10000
#define VIAL_LINE_MAX_BYTES (16 * 1024 * 1024)       /* of output that is told by the line: the rest is another */
#define VIAL_ANSWER_ENTRIES_BYTES (16 * 1024 * 1024) /* of a folder's listing */
/* Of each of stdout and stderr of a cell: unless the request says otherwise when collected, and at most. */
#define VIAL_OUTPUT_DEFAULT_BYTES (1024 * 1024)
#define VIAL_OUTPUT_MAX_BYTES (64 * 1024 * 1024)

/*
 * A guest is told its budgets and keeps to them. One that sends so many times as much, or so many errors of one run, will not stop by itself: the
 * operation ends.
 */
#define VIAL_EXCESS_FACTOR 4
#define VIAL_RUN_MAX_ERRORS 64

/* The body of a request whose text may have VIAL_CODE_MAX_BYTES: every byte may be written as \u00XX, and there are other fields. */
#define VIAL_REQUEST_MAX_BYTES (6 * VIAL_CODE_MAX_BYTES + 2 * 1024 * 1024)

/* How long a guest may take to answer a question. */
#define VIAL_QUESTION_TIMEOUT_MS 60000
