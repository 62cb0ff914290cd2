/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A module for Node: reseed(bytes) stirs OpenSSL's generator in the process. Node has no call for that, and OpenSSL notices a fork by its process id,
 * which a restored sandbox has kept: without this, two copies of a warm kernel would make the same TLS keys.
 *
 * Built without libc and without Node's headers (the few declarations of its stable C interface are below), so that it loads in any guest. The agent
 * carries it and hands it to the JavaScript kernel as a memory file.
 */
#include <stddef.h>

typedef struct napi_env__ *napi_env;
typedef struct napi_value__ *napi_value;
typedef struct napi_callback_info__ *napi_callback_info;
typedef napi_value (*napi_callback)(napi_env env, napi_callback_info info);

int napi_get_cb_info(napi_env env, napi_callback_info info, size_t *count, napi_value *arguments, napi_value *self, void **data);
int napi_get_buffer_info(napi_env env, napi_value value, void **data, size_t *length);
int napi_create_function(napi_env env, const char *name, size_t length, napi_callback callback, void *data, napi_value *result);
int napi_set_named_property(napi_env env, napi_value object, const char *name, napi_value value);
int napi_get_boolean(napi_env env, _Bool value, napi_value *result);

/* OpenSSL's, which Node brings with it. All generators of all threads follow the one that this reseeds. */
__attribute__((weak)) void RAND_add(const void *bytes, int count, double entropy);

napi_value napi_register_module_v1(napi_env env, napi_value exports);

static napi_value reseed(napi_env env, napi_callback_info info)
{
	napi_value argument = NULL, result = NULL;
	size_t count = 1, length = 0;
	void *bytes = NULL;
	_Bool is_done = 0;

	if (napi_get_cb_info(env, info, &count, &argument, NULL, NULL) == 0 && count == 1 &&
	    napi_get_buffer_info(env, argument, &bytes, &length) == 0 && RAND_add && length > 0 && length < 4096) {
		RAND_add(bytes, (int)length, (double)length);
		is_done = 1;
	}
	napi_get_boolean(env, is_done, &result);
	return result;
}

napi_value napi_register_module_v1(napi_env env, napi_value exports)
{
	napi_value function;

	if (napi_create_function(env, "reseed", 6, reseed, NULL, &function) == 0)
		napi_set_named_property(env, exports, "reseed", function);
	return exports;
}
