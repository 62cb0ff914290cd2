/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's settings. Each comes, in rising priority, from the built-in default, the configuration file, the
 * environment, or a command-line flag; an error says which of them it was. config_table.c has one row per setting, from
 * which the file's keys, VIAL_* variables, flags and --help all follow. docs/configuration.md explains them.
 */
#pragma once

#include <glib.h>

#define VIAL_CONFIG_DEFAULT_FILE "/etc/vial/vial.conf"

typedef struct VialConfig {
	/* where */
	char *data_dir;
	char *run_dir;
	char *images_dir;  /* "" in the table: <data_dir>/images */
	char *program_dir; /* "" in the table: where this program is; vial-shim, vial-agent and the kernels are near it */

	/* the API */
	char *listen;
	gboolean allow_public;
	char *tls_cert; /* "" for none */
	char *tls_key;
	char **cors_origins;
	char *preview_domain;
	char **host_names;

	/* sandboxes */
	char *engine; /* auto, gvisor, microvm */
	char *runsc;  /* a path, a name looked up in PATH, or auto: what scripts/get-runsc brought, else the one in PATH */
	char *default_template;
	char **template_aliases; /* ALIAS=NAME */
	gint64 pool_size;
	gint64 pool_blanks;
	gint64 pool_idle_seconds; /* 0: never */
	gint64 snapshot_quota_mb;
	gint64 undo_points; /* 0: none are kept */
	gint64 undo_quota_mb;
	char **resolvers; /* empty: those of /etc/resolv.conf */
	gint64 network_rate_mbit;
	gint64 network_max_connections;
	char *frozen_webhook_url, *frozen_webhook_secret_file;
	char *pandastack_network, *podflare_network, *e2b_network, *cloudflare_network; /* of those surfaces' sandboxes */
	gint64 max_sandboxes;
	gint64 max_cpu_percent;
	gint64 memory_overcommit_percent; /* 0: no limit */
	gint64 max_builds;
	gint64 max_builds_waiting;
	gint64 max_builds_waiting_project;
	gint64 max_build_seconds;
	gint64 max_build_file_mb;
	gint64 max_build_files_mb;
	gint64 default_ttl_seconds;
	gint64 max_ttl_seconds; /* 0: no limit */
	gint64 default_idle_seconds;
	gint64 time_scale; /* how many times longer than usual guests are waited for */

	/* the audit */
	gboolean audit;
	gboolean audit_sync;
	gint64 audit_code_max_kb;
	gint64 audit_retention_days; /* of bodies; 0: for ever */
	gint64 audit_head_records;
	gint64 audit_head_seconds;
	char **audit_heads_to;
	char *audit_key_file;     /* "": keys/audit.key, which is made */
	char *audit_secrets_file; /* "" for none */

	/* traces */
	char *otlp_endpoint;     /* "": none are exported */
	char **otlp_headers;     /* name=value */
	char *otlp_headers_file; /* "" for none */
	char *otlp_service_name;

	/* people */
	char *oidc_issuer; /* "": they have none, only keys */
	char **oidc_audience;
	char *oidc_jwks_file; /* "": the keys are fetched */
	char **oidc_rules;
	gint64 oidc_clock_skew_seconds;
	char *oidc_ca_file; /* "": the system's certificates */
	gboolean oidc_allow_http;

	/* messages */
	char *log_level;
	char *log_format;
} VialConfig;

/*
 * Reads everything and takes the flags out of argv; what is left there is not ours. `extra` (NULL-terminated, may be NULL)
 * are flags of the program itself, shown in the same --help. Prints --help and exits if asked.
 */
VialConfig *vial_config_load(int *argc, char ***argv, const GOptionEntry *extra, GError **error);
void vial_config_free(VialConfig *config); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC(VialConfig, vial_config_free)
