/* SPDX-License-Identifier: Apache-2.0 */
#include "util/config_table.h"

#define AT(member) G_STRUCT_OFFSET(VialConfig, member)
#define YEAR_SECONDS (366 * 24 * 3600)

static const char *const engines[] = { "auto", "gvisor", "microvm", NULL };
static const char *const levels[] = { "error", "warning", "info", "debug", NULL };
static const char *const formats[] = { "text", "json", NULL };

const VialSetting vial_settings[] = {
	{ .name = "data_dir", .type = VIAL_SETTING_PATH, .offset = AT(data_dir), .initial = "/var/lib/vial",
	  .variable = "VIAL_DATA", .help = "database, keys, images, snapshots, sandboxes" },
	{ .name = "run_dir", .type = VIAL_SETTING_PATH, .offset = AT(run_dir), .initial = "/run/vial",
	  .help = "sockets and state that end with the machine" },
	{ .name = "images_dir", .type = VIAL_SETTING_PATH, .offset = AT(images_dir), .initial = "",
	  .help = "guest images and templates; by default images/ in data_dir" },
	{ .name = "program_dir", .type = VIAL_SETTING_PATH, .offset = AT(program_dir), .initial = "",
	  .help = "vial-shim, vial-agent; by default the directory of viald" },

	{ .name = "listen", .type = VIAL_SETTING_TEXT, .offset = AT(listen), .initial = "127.0.0.1:7070",
	  .help = "host:port, [ipv6]:port or unix:/path" },
	{ .name = "allow_public", .type = VIAL_SETTING_SWITCH, .offset = AT(allow_public), .initial = "false",
	  .help = "permit a listen address other machines can reach" },
	{ .name = "tls_cert", .type = VIAL_SETTING_PATH, .offset = AT(tls_cert), .initial = "",
	  .help = "certificate chain in PEM; with tls_key makes the API HTTPS" },
	{ .name = "tls_key", .type = VIAL_SETTING_PATH, .offset = AT(tls_key), .initial = "", .help = "its private key in PEM" },
	{ .name = "cors_origins", .type = VIAL_SETTING_LIST, .offset = AT(cors_origins), .initial = "",
	  .help = "web origins whose pages may use the API, or *" },
	{ .name = "preview_domain", .type = VIAL_SETTING_TEXT, .offset = AT(preview_domain), .initial = "localhost",
	  .help = "ports are reached as {port}-{id}.DOMAIN" },

	{ .name = "engine", .type = VIAL_SETTING_CHOICE, .offset = AT(engine), .initial = "auto", .choices = engines,
	  .help = "auto takes microvm where it really works, else gvisor" },
	{ .name = "runsc", .type = VIAL_SETTING_TEXT, .offset = AT(runsc), .initial = "runsc",
	  .help = "gVisor's program: a path, or a name in PATH" },
	{ .name = "default_template", .type = VIAL_SETTING_TEXT, .offset = AT(default_template),
	  .initial = "code-interpreter", .help = "for sandboxes that name none" },
	{ .name = "pool_size", .type = VIAL_SETTING_NUMBER, .offset = AT(pool_size), .initial = "2", .max = 1000,
	  .help = "sandboxes kept ready per template" },
	{ .name = "pool_blanks", .type = VIAL_SETTING_NUMBER, .offset = AT(pool_blanks), .initial = "4", .max = 1000,
	  .help = "empty sandboxes prepared per template behind the pool" },
	{ .name = "snapshot_quota_mb", .type = VIAL_SETTING_NUMBER, .offset = AT(snapshot_quota_mb), .initial = "51200", .max = 100000000,
	  .help = "disk space that all snapshots together may take" },
	{ .name = "resolvers", .type = VIAL_SETTING_LIST, .offset = AT(resolvers), .initial = "",
	  .help = "address or address#port that names are resolved with; by default the host's" },
	{ .name = "network_rate_mbit", .type = VIAL_SETTING_NUMBER, .offset = AT(network_rate_mbit), .initial = "1000", .min = 1,
	  .max = 100000, .help = "bandwidth of a sandbox each way; it may ask for less" },
	{ .name = "network_max_connections", .type = VIAL_SETTING_NUMBER, .offset = AT(network_max_connections), .initial = "512",
	  .min = 1, .max = 65535, .help = "connections of a sandbox at a time; it may ask for fewer" },
	{ .name = "max_sandboxes", .type = VIAL_SETTING_NUMBER, .offset = AT(max_sandboxes), .initial = "1000", .min = 1,
	  .max = 100000, .help = "more are refused with 429" },
	{ .name = "default_ttl_seconds", .type = VIAL_SETTING_NUMBER, .offset = AT(default_ttl_seconds), .initial = "3600",
	  .max = YEAR_SECONDS, .help = "life of a sandbox that asks for none; 0 is for ever" },
	{ .name = "max_ttl_seconds", .type = VIAL_SETTING_NUMBER, .offset = AT(max_ttl_seconds), .initial = "0",
	  .max = YEAR_SECONDS, .help = "longest life one may ask for; 0 is no limit" },
	{ .name = "default_idle_seconds", .type = VIAL_SETTING_NUMBER, .offset = AT(default_idle_seconds), .initial = "0",
	  .max = YEAR_SECONDS, .help = "end or hibernate after this long unused; 0 is never" },
	{ .name = "call_log_days", .type = VIAL_SETTING_NUMBER, .offset = AT(call_log_days), .initial = "30", .max = 36500,
	  .help = "how long the record of calls is kept; 0 is for ever" },

	{ .name = "time_scale", .type = VIAL_SETTING_NUMBER, .offset = AT(time_scale), .initial = "1", .min = 1, .max = 100,
	  .help = "how many times longer than usual to wait for guests, on emulated or overloaded machines" },

	{ .name = "log_level", .type = VIAL_SETTING_CHOICE, .offset = AT(log_level), .initial = "info", .choices = levels,
	  .help = "how much to say on standard error" },
	{ .name = "log_format", .type = VIAL_SETTING_CHOICE, .offset = AT(log_format), .initial = "text", .choices = formats,
	  .help = "key=value text, or one JSON object per line" },
};

const gsize vial_n_settings = G_N_ELEMENTS(vial_settings);
