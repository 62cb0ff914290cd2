/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loading happens in two steps: each source writes its texts over those of lower priority, remembering who it was; then
 * the winning texts are parsed, once, into the struct.
 */
#include "util/config.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/config_table.h"
#include "util/error.h"
#include "util/fd.h"

#define MAX_FILE_BYTES (1024 * 1024)
#define GROUP "vial"

typedef struct {
	char *text;
	char *origin; /* "the flag --listen" */
} Value;

typedef struct {
	Value *values; /* one per setting: the winner so far */
	Value *flags;  /* from the command line, put on top at the end */
	char *file;    /* --config */
} Loader;

static void set_value(Value *value, const char *text, char *origin)
{
	g_free(value->text);
	g_free(value->origin);
	value->text = g_strdup(text);
	value->origin = origin;
}

static char *variable_name(const VialSetting *setting)
{
	if (setting->variable)
		return g_strdup(setting->variable);
	g_autofree char *upper = g_ascii_strup(setting->name, -1);
	return g_strconcat("VIAL_", upper, NULL);
}

static char *flag_name(const VialSetting *setting)
{
	return g_strdelimit(g_strdup(setting->name), "_", '-');
}

static gssize find_setting(const char *name)
{
	/* What a setting was called in an older version. */
	if (strcmp(name, "call_log_days") == 0)
		name = "audit_retention_days";
	for (gsize i = 0; i < vial_n_settings; i++)
		if (strcmp(vial_settings[i].name, name) == 0)
			return (gssize)i;
	return -1;
}

/* ---- the sources ---- */

static void read_defaults(Loader *loader)
{
	for (gsize i = 0; i < vial_n_settings; i++)
		set_value(&loader->values[i], vial_settings[i].initial, g_strdup("the built-in default"));
}

static gboolean take_key(Loader *loader, GKeyFile *keys, const char *path, const char *name, GError **error)
{
	gssize i = find_setting(name);
	g_autofree char *text = NULL;

	if (i < 0)
		return vial_fail(error, VIAL_ERROR_INVALID, "the file %s sets \"%s\", which is not a setting; see viald --help", path, name);
	text = g_key_file_get_string(keys, GROUP, name, error);
	if (!text) {
		g_prefix_error(error, "the file %s: ", path);
		return FALSE;
	}
	set_value(&loader->values[i], g_strstrip(text), g_strdup_printf("the file %s", path));
	return TRUE;
}

/* "key = value" lines; the header [vial] that GKeyFile insists on may be left out. */
static gboolean read_file(Loader *loader, const char *path, gboolean is_required, GError **error)
{
	g_autoptr(GKeyFile) keys = g_key_file_new();
	g_autoptr(GError) problem = NULL;
	gsize n_names = 0;

	g_autofree char *content = vial_file_read_at(AT_FDCWD, path, MAX_FILE_BYTES, NULL, &problem);
	if (!content) {
		if (!is_required && g_error_matches(problem, VIAL_ERROR, VIAL_ERROR_NOT_FOUND))
			return TRUE;
		g_propagate_prefixed_error(error, g_steal_pointer(&problem), "the configuration file: ");
		return FALSE;
	}
	gboolean has_group = g_str_has_prefix(content, "[") || strstr(content, "\n[");
	g_autofree char *full = g_strconcat(has_group ? "" : "[" GROUP "]\n", content, NULL);
	if (!g_key_file_load_from_data(keys, full, strlen(full), G_KEY_FILE_NONE, &problem))
		return vial_fail(error, VIAL_ERROR_INVALID, "the file %s cannot be understood: %s", path, problem->message);
	g_auto(GStrv) groups = g_key_file_get_groups(keys, NULL);
	for (gsize i = 0; groups[i]; i++)
		if (strcmp(groups[i], GROUP) != 0)
			return vial_fail(error, VIAL_ERROR_INVALID, "the file %s has a section [%s]; only [" GROUP "] is known", path, groups[i]);
	g_auto(GStrv) names = g_key_file_get_keys(keys, GROUP, &n_names, NULL);
	for (gsize i = 0; i < n_names; i++)
		if (!take_key(loader, keys, path, names[i], error))
			return FALSE;
	return TRUE;
}

static void read_environment(Loader *loader)
{
	for (gsize i = 0; i < vial_n_settings; i++) {
		g_autofree char *variable = variable_name(&vial_settings[i]);
		const char *text = g_getenv(variable);
		if (text)
			set_value(&loader->values[i], text, g_strdup_printf("the environment (%s)", variable));
	}
}

static gboolean take_flag(const char *flag, const char *text, gpointer data, GError **error)
{
	Loader *loader = data;
	g_autofree char *name = g_strdelimit(g_strdup(flag + 2), "-", '_');
	gssize i = find_setting(name);

	g_assert(i >= 0);
	set_value(&loader->flags[i], text ? text : "true", g_strdup_printf("the flag %s", flag));
	return TRUE;
}

static char *describe(const VialSetting *setting)
{
	static const char *const kinds[] = {
		[VIAL_SETTING_TEXT] = "TEXT",         [VIAL_SETTING_PATH] = "PATH", [VIAL_SETTING_NUMBER] = "N",
		[VIAL_SETTING_SWITCH] = "true|false", [VIAL_SETTING_CHOICE] = NULL, [VIAL_SETTING_LIST] = "LIST",
	};

	return setting->choices ? g_strjoinv("|", (char **)setting->choices) : g_strdup(kinds[setting->type]);
}

static char *help_text(const VialSetting *setting)
{
	g_autofree char *variable = variable_name(setting);

	return g_strdup_printf("%s [%s%s%s]", setting->help, variable, setting->initial[0] ? ", default " : "", setting->initial);
}

static gboolean read_flags(Loader *loader, int *argc, char ***argv, const GOptionEntry *extra, GError **error)
{
	g_autoptr(GOptionContext) context = g_option_context_new(NULL);
	g_autoptr(GPtrArray) strings = g_ptr_array_new_with_free_func(g_free);
	g_autofree GOptionEntry *entries = g_new0(GOptionEntry, vial_n_settings + 2);
	GOptionGroup *group = g_option_group_new("vial", "", "", loader, NULL);

	for (gsize i = 0; i < vial_n_settings; i++) {
		const VialSetting *setting = &vial_settings[i];
		char *texts[] = { flag_name(setting), help_text(setting), describe(setting) };
		for (gsize t = 0; t < G_N_ELEMENTS(texts); t++)
			g_ptr_array_add(strings, texts[t]);
		entries[i] = (GOptionEntry){
			.long_name = texts[0],
			.flags = setting->type == VIAL_SETTING_SWITCH ? G_OPTION_FLAG_OPTIONAL_ARG : 0,
			.arg = G_OPTION_ARG_CALLBACK,
			.arg_data = (gpointer)take_flag,
			.description = texts[1],
			.arg_description = texts[2],
		};
	}
	entries[vial_n_settings] = (GOptionEntry){ "config",
		                                   'c',
		                                   0,
		                                   G_OPTION_ARG_FILENAME,
		                                   &loader->file,
		                                   "settings, one \"name = value\" per line [VIAL_CONFIG, default " VIAL_CONFIG_DEFAULT_FILE "]",
		                                   "FILE" };
	g_option_group_add_entries(group, entries);
	if (extra)
		g_option_group_add_entries(group, extra);
	g_option_context_set_main_group(context, group);
	g_option_context_set_summary(context, "The Vial daemon: sandboxes for code, over HTTP. Settings come from the file, then the\n"
	                                      "environment, then flags; the last one wins.");
	g_autoptr(GError) problem = NULL;
	if (!g_option_context_parse(context, argc, argv, &problem))
		return vial_fail(error, VIAL_ERROR_INVALID, "%s; see --help", problem->message);
	return TRUE;
}

/* ---- from text to value ---- */

static gboolean refuse(const VialSetting *setting, const Value *value, GError **error, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	g_autofree char *wanted = g_strdup_vprintf(format, args);
	va_end(args);
	return vial_fail(error, VIAL_ERROR_INVALID, "%s from %s is \"%s\", but must be %s", setting->name, value->origin, value->text, wanted);
}

static gboolean parse_switch(const char *text, gboolean *out)
{
	static const char *const words[] = { "false", "true", "no", "yes", "off", "on", "0", "1" };

	for (gsize i = 0; i < G_N_ELEMENTS(words); i++) {
		if (g_ascii_strcasecmp(text, words[i]) == 0) {
			*out = i % 2;
			return TRUE;
		}
	}
	return FALSE;
}

static char **parse_list(const char *text)
{
	g_auto(GStrv) parts = g_strsplit(text, ",", -1);
	g_autoptr(GStrvBuilder) builder = g_strv_builder_new();

	for (gsize i = 0; parts[i]; i++)
		if (*g_strstrip(parts[i]))
			g_strv_builder_add(builder, parts[i]);
	return g_strv_builder_end(builder);
}

static gboolean parse(const VialSetting *setting, const Value *value, VialConfig *config, GError **error)
{
	gpointer place = (char *)config + setting->offset;

	if (!g_utf8_validate(value->text, -1, NULL))
		return vial_fail(error, VIAL_ERROR_INVALID, "%s from %s is not UTF-8", setting->name, value->origin);
	switch (setting->type) {
	case VIAL_SETTING_PATH:
		if (value->text[0] && !g_path_is_absolute(value->text))
			return refuse(setting, value, error, "an absolute path");
		*(char **)place = g_strdup(value->text);
		return TRUE;
	case VIAL_SETTING_TEXT:
		*(char **)place = g_strdup(value->text);
		return TRUE;
	case VIAL_SETTING_CHOICE:
		if (!g_strv_contains(setting->choices, value->text)) {
			g_autofree char *choices = g_strjoinv(", ", (char **)setting->choices);
			return refuse(setting, value, error, "one of %s", choices);
		}
		*(char **)place = g_strdup(value->text);
		return TRUE;
	case VIAL_SETTING_NUMBER:
		if (!g_ascii_string_to_signed(value->text, 10, setting->min, setting->max, place, NULL))
			return refuse(setting, value, error, "a number between %" G_GINT64_FORMAT " and %" G_GINT64_FORMAT, setting->min,
			              setting->max);
		return TRUE;
	case VIAL_SETTING_SWITCH:
		if (!parse_switch(value->text, place))
			return refuse(setting, value, error, "true or false");
		return TRUE;
	case VIAL_SETTING_LIST:
		*(char ***)place = parse_list(value->text);
		return TRUE;
	}
	g_assert_not_reached();
}

static const char *origin_of(const Loader *loader, const char *name)
{
	return loader->values[find_setting(name)].origin;
}

/* What one setting alone cannot tell. */
static gboolean check_together(const Loader *loader, const VialConfig *config, GError **error)
{
	if (!config->data_dir[0] || !config->run_dir[0])
		return vial_fail(error, VIAL_ERROR_INVALID, "data_dir and run_dir must not be empty");
	if (!config->tls_cert[0] != !config->tls_key[0])
		return vial_fail(error, VIAL_ERROR_INVALID, "%s is set by %s, so %s must be set too", config->tls_cert[0] ? "tls_cert" : "tls_key",
		                 origin_of(loader, config->tls_cert[0] ? "tls_cert" : "tls_key"), config->tls_cert[0] ? "tls_key" : "tls_cert");
	if (config->max_ttl_seconds > 0 && (config->default_ttl_seconds == 0 || config->default_ttl_seconds > config->max_ttl_seconds))
		return vial_fail(error, VIAL_ERROR_INVALID, "default_ttl_seconds (from %s) is longer than max_ttl_seconds (from %s) allows",
		                 origin_of(loader, "default_ttl_seconds"), origin_of(loader, "max_ttl_seconds"));
	return TRUE;
}

static gboolean derive(VialConfig *config, GError **error)
{
	if (!config->images_dir[0]) {
		g_free(config->images_dir);
		config->images_dir = g_build_filename(config->data_dir, "images", NULL);
	}
	if (!config->program_dir[0]) {
		g_autofree char *self = g_file_read_link("/proc/self/exe", NULL);
		if (!self)
			return vial_fail(error, VIAL_ERROR_INTERNAL, "cannot find this program's own directory; set program_dir");
		g_free(config->program_dir);
		config->program_dir = g_path_get_dirname(self);
	}
	return TRUE;
}

static VialConfig *build(const Loader *loader, GError **error)
{
	g_autoptr(VialConfig) config = g_new0(VialConfig, 1);

	for (gsize i = 0; i < vial_n_settings; i++)
		if (!parse(&vial_settings[i], &loader->values[i], config, error))
			return NULL;
	if (!check_together(loader, config, error) || !derive(config, error))
		return NULL;
	return g_steal_pointer(&config);
}

static gboolean read_sources(Loader *loader, int *argc, char ***argv, const GOptionEntry *extra, GError **error)
{
	/* Flags first, because one of them names the file; they are put on top last. */
	if (!read_flags(loader, argc, argv, extra, error))
		return FALSE;
	const char *file = loader->file ? loader->file : g_getenv("VIAL_CONFIG");
	read_defaults(loader);
	if (!read_file(loader, file ? file : VIAL_CONFIG_DEFAULT_FILE, file != NULL, error))
		return FALSE;
	read_environment(loader);
	for (gsize i = 0; i < vial_n_settings; i++)
		if (loader->flags[i].text)
			set_value(&loader->values[i], loader->flags[i].text, g_steal_pointer(&loader->flags[i].origin));
	return TRUE;
}

VialConfig *vial_config_load(int *argc, char ***argv, const GOptionEntry *extra, GError **error)
{
	Loader loader = { .values = g_new0(Value, vial_n_settings), .flags = g_new0(Value, vial_n_settings) };
	VialConfig *config = NULL;

	if (read_sources(&loader, argc, argv, extra, error))
		config = build(&loader, error);
	for (gsize i = 0; i < vial_n_settings; i++) {
		g_free(loader.values[i].text);
		g_free(loader.values[i].origin);
		g_free(loader.flags[i].text);
		g_free(loader.flags[i].origin);
	}
	g_free(loader.values);
	g_free(loader.flags);
	g_free(loader.file);
	return config;
}

void vial_config_free(VialConfig *config)
{
	if (!config)
		return;
	for (gsize i = 0; i < vial_n_settings; i++) {
		gpointer place = (char *)config + vial_settings[i].offset;
		if (vial_settings[i].type == VIAL_SETTING_LIST)
			g_strfreev(*(char ***)place);
		else if (vial_settings[i].type != VIAL_SETTING_NUMBER && vial_settings[i].type != VIAL_SETTING_SWITCH)
			g_free(*(char **)place);
	}
	g_free(config);
}
