/* SPDX-License-Identifier: Apache-2.0 */
/* See env.h. Built as a JSON object, where "later wins" is one call, then flattened. */
#include "env.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hints.h"

#define DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

static json_t *sandbox_env;
static char sandbox_id[128];

/* Who has no network need not try again; pip would for nine seconds, npm for minutes. */
static void give_up_soon(json_t *env)
{
	json_object_set_new(env, "PIP_RETRIES", json_string("0"));
	json_object_set_new(env, "PIP_DISABLE_PIP_VERSION_CHECK", json_string("1"));
	json_object_set_new(env, "npm_config_fetch_retries", json_string("0"));
	json_object_set_new(env, "npm_config_update_notifier", json_string("false"));
}

static json_t *defaults(const struct vial_user *user, bool is_tty)
{
	json_t *env = json_object();

	json_object_set_new(env, "PATH", json_string(DEFAULT_PATH));
	json_object_set_new(env, "HOME", json_string(user->home));
	json_object_set_new(env, "USER", json_string(user->name));
	json_object_set_new(env, "LOGNAME", json_string(user->name));
	json_object_set_new(env, "SHELL", json_string(user->shell));
	json_object_set_new(env, "LANG", json_string("C.UTF-8"));
	json_object_set_new(env, "TERM", json_string(is_tty ? "xterm-256color" : "dumb"));
	json_object_set_new(env, "VIAL_SANDBOX_ID", json_string(sandbox_id));
	if (vial_hints_is_offline())
		give_up_soon(env);
	return env;
}

static bool is_good_name(const char *name)
{
	return *name && !strchr(name, '=');
}

bool vial_env_check(struct vial_stream *stream, json_t *env)
{
	const char *name;
	json_t *value;

	if (env && !json_is_null(env) && !json_is_object(env)) {
		vial_stream_close_error(stream, VIAL_INVALID, "the field \"env\" must be an object");
		return false;
	}
	json_object_foreach (env, name, value) {
		if (!is_good_name(name)) {
			vial_stream_close_error(stream, VIAL_INVALID, "env has a name that no environment variable can have: \"%.256s\"", name);
			return false;
		}
		if (json_is_object(value) || json_is_array(value)) {
			vial_stream_close_error(stream, VIAL_INVALID, "the value of \"%.256s\" in env must be a string", name);
			return false;
		}
	}
	return true;
}

/* Scalars are turned into text, as every shell user expects of {"PORT": 8080}; null removes the variable. */
static int set_one(json_t *env, const char *name, json_t *value)
{
	char number[64];

	if (!is_good_name(name))
		return -EINVAL;
	if (json_is_null(value)) {
		json_object_del(env, name);
		return 0;
	}
	if (json_is_string(value))
		return json_object_set(env, name, value) < 0 ? -ENOMEM : 0;
	if (json_is_integer(value))
		snprintf(number, sizeof(number), "%lld", (long long)json_integer_value(value));
	else if (json_is_boolean(value))
		snprintf(number, sizeof(number), "%s", json_is_true(value) ? "true" : "false");
	else if (json_is_real(value))
		snprintf(number, sizeof(number), "%g", json_real_value(value));
	else
		return -EINVAL;
	return json_object_set_new(env, name, json_string(number)) < 0 ? -ENOMEM : 0;
}

static int set_all(json_t *env, json_t *extra)
{
	const char *name;
	json_t *value;

	if (extra && !json_is_null(extra) && !json_is_object(extra))
		return -EINVAL;
	json_object_foreach (extra, name, value) {
		int result = set_one(env, name, value);

		if (result < 0)
			return result;
	}
	return 0;
}

json_t *vial_env_texts(json_t *env)
{
	json_t *texts = json_object_size(env) > 0 ? json_object() : NULL, *value;
	const char *name;

	if (!texts || set_all(texts, env) < 0) {
		json_decref(texts);
		return NULL;
	}
	json_object_foreach (env, name, value) {
		if (json_is_null(value))
			json_object_set(texts, name, value);
	}
	return texts;
}

int vial_env_set_sandbox(json_t *hello)
{
	const char *id = json_string_value(json_object_get(hello, "sandbox_id"));
	json_t *env = json_object();
	int result = env ? set_all(env, json_object_get(hello, "env")) : -ENOMEM;

	if (result < 0) {
		json_decref(env);
		return result;
	}
	json_decref(sandbox_env);
	sandbox_env = env;
	snprintf(sandbox_id, sizeof(sandbox_id), "%s", id ? id : "");
	return 0;
}

static int flatten(json_t *env, char ***out_env)
{
	char **list = calloc(json_object_size(env) + 1, sizeof(*list));
	size_t count = 0;
	const char *name;
	json_t *value;

	if (!list)
		return -ENOMEM;
	json_object_foreach (env, name, value) {
		if (asprintf(&list[count], "%s=%s", name, json_string_value(value)) < 0) {
			list[count] = NULL;
			vial_env_free(list);
			return -ENOMEM;
		}
		count++;
	}
	*out_env = list;
	return 0;
}

int vial_env_build(const struct vial_user *user, json_t *extra, bool is_tty, char ***out_env)
{
	json_t *env = defaults(user, is_tty);
	int result = set_all(env, sandbox_env);

	if (result == 0)
		result = set_all(env, extra);
	if (result == 0)
		result = flatten(env, out_env);
	json_decref(env);
	return result;
}

void vial_env_free(char **env)
{
	for (char **entry = env; entry && *entry; entry++)
		free(*entry);
	free(env);
}

json_t *vial_env_object(char **env)
{
	json_t *object = json_object();

	for (; *env; env++) {
		const char *value = strchr(*env, '=');
		json_t *text = value ? json_string(value + 1) : NULL;

		if (text)
			json_object_setn_new(object, *env, (size_t)(value - *env), text);
	}
	return object;
}
