/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options that say what sandbox to make, shared by `create` and by the commands that make one for themselves and remove
 * it at the end.
 */
#pragma once

#include "cli/cli.h"
#include "cli/network.h"

extern char *vial_create_template, *vial_create_engine, *vial_create_tier, *vial_create_network, *vial_create_from;
extern double vial_create_cpu;
extern gint64 vial_create_memory_mib, vial_create_rate_mbit, vial_create_max_connections;
extern GPtrArray *vial_create_allow, *vial_create_deny;

#define VIAL_CREATE_OPTIONS                                                                                                                               \
	{ 't',        "template", VIAL_OPTION_STRING, &vial_create_template, "NAME", "what the sandbox is made from (`vial templates` lists them)",       \
	  "@template" },                                                                                                                                  \
		{ 0, "from", VIAL_OPTION_STRING, &vial_create_from, "SNAPSHOT", "start from a snapshot instead of a template", "@snapshot" },             \
		{ 0, "engine", VIAL_OPTION_STRING, &vial_create_engine, "NAME", "microvm, gvisor, or auto", "auto microvm gvisor" },                      \
		{ 0,                                                                                                                                      \
		  "tier",                                                                                                                                 \
		  VIAL_OPTION_STRING,                                                                                                                     \
		  &vial_create_tier,                                                                                                                      \
		  "NAME",                                                                                                                                 \
		  "its size by name, such as 2x4 for 2 CPUs and 4 GB (`vial tiers` lists them)",                                                          \
		  "2x2 2x4 2x8 2x16 4x2 4x4 4x8 4x16" },                                                                                                  \
		{ 0, "cpu", VIAL_OPTION_NUMBER, &vial_create_cpu, "N", "virtual CPUs, such as 2 or 0.5", NULL },                                          \
		{ 0, "memory", VIAL_OPTION_MEMORY, &vial_create_memory_mib, "SIZE", "memory, such as 512M or 2G", NULL },                                 \
		{ 0, "network", VIAL_OPTION_STRING, &vial_create_network, "MODE", "disabled (the default), filtered or open", "disabled filtered open" }, \
		{ 0, "allow", VIAL_OPTION_LIST, &vial_create_allow, "WHAT", "let out to this address, CIDR, name or *.name; means filtered", NULL },      \
		{ 0, "deny", VIAL_OPTION_LIST, &vial_create_deny, "WHAT", "do not let out to this one", NULL },                                           \
		VIAL_NETWORK_LIMIT_OPTIONS(vial_create_rate_mbit, vial_create_max_connections, "to the network ")

/* The body of POST /sandboxes so far. NULL with *error when the options contradict each other. */
json_t *vial_create_body(GError **error);
/* POST /sandboxes; `body` is consumed. NULL with *error. */
json_t *vial_create_sandbox(VialCli *cli, json_t *body, GError **error);

/* A sandbox for the time of one command. Ends by itself if we are killed, and is removed by free. */
typedef struct VialEphemeral VialEphemeral;
/* `given` is the user's --sandbox or argument: then nothing is made and nothing removed. NULL: make one. */
VialEphemeral *vial_ephemeral_new(VialCli *cli, const char *given, GError **error);
void vial_ephemeral_free(VialEphemeral *ephemeral);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(VialEphemeral, vial_ephemeral_free)
const char *vial_ephemeral_id(const VialEphemeral *ephemeral);
gboolean vial_ephemeral_is_ours(const VialEphemeral *ephemeral);
void vial_ephemeral_keep(VialEphemeral *ephemeral); /* do not remove it after all */
