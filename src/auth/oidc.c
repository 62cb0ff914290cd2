/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request goes through these steps:
 *
 *   known token (oidc_cache.c)? ──yes──▶ its identity
 *     │ no
 *   read, check (oidc_token.c) ── its key known (oidc_source.c)? ──yes──▶ verify ▶ rules (oidc_rules.c) ▶ a new identity, known from now on
 *                                   │ no
 *                                 a fetch is under way or may be begun: wait for it, then once more from the top
 *                                 else: 401; or 503 if the last one failed, for then the key may well be published
 *
 * A stranger who invents names of keys causes one fetch in ten seconds, and waits in a bounded queue. Verifying takes one or two tenths of a
 * millisecond, on the main thread: less than the request around it, and not worth the way to another.
 */
#include "auth/oidc.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "auth/oidc_cache.h"
#include "auth/oidc_source.h"
#include "auth/oidc_token.h"
#include "util/error.h"
#include "util/id.h"
#include "util/time.h"

/* A clock may be set, and a file replaced: never look later than this at tokens that somebody may work with. */
#define MAX_BEAT_MS (60 * 1000)
#define MAX_WAITING 1024
#define RETRY_SECONDS 5
#define PERSON_PREFIX "person:"

typedef struct {
	VialOidcCacheKey key;
	VialOidcToken *token;
	char *project; /* NULL: the first */
	VialOidcDone done;
	gpointer data;
} Request;

struct VialOidc {
	VialOidcProvider provider;
	char **audiences;
	VialOidcTerms terms;
	VialOidcRules *rules;
	VialOidcSource *source;
	VialOidcCache *cache;
	GQueue waiting;    /* Request, owned: for the fetch that is under way */
	guint beat_timer;  /* 0: nobody is known */
	gint64 beat_at_ms; /* by the clock on the wall, as tokens are */
	VialOidcEnded ended;
	gpointer ended_data;
};

/* ---- time passes, keys change ---- */

static gboolean on_beat(gpointer data);

static void set_beat(VialOidc *oidc, gint64 next_ms)
{
	gint64 now_ms = vial_time_now_ms();

	g_clear_handle_id(&oidc->beat_timer, g_source_remove);
	oidc->beat_at_ms = MIN(next_ms, now_ms + MAX_BEAT_MS);
	if (vial_oidc_cache_size(oidc->cache) > 0)
		oidc->beat_timer = g_timeout_add((guint)CLAMP(oidc->beat_at_ms - now_ms, 1, MAX_BEAT_MS), on_beat, oidc);
}

static void end_what_is_over(gpointer data)
{
	VialOidc *oidc = data;
	gboolean has_ended = vial_oidc_cache_end(oidc->cache, vial_oidc_source_keys(oidc->source), vial_time_now_ms());

	set_beat(oidc, vial_oidc_cache_next_ms(oidc->cache));
	if (has_ended && oidc->ended)
		oidc->ended(oidc->ended_data);
}

static gboolean on_beat(gpointer data)
{
	VialOidc *oidc = data;

	oidc->beat_timer = 0;
	vial_oidc_source_look(oidc->source);
	end_what_is_over(oidc);
	return G_SOURCE_REMOVE;
}

/* ---- one request ---- */

static void request_free(Request *request)
{
	vial_oidc_token_free(request->token);
	g_free(request->project);
	g_free(request);
}
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Request, request_free)

/* Keys and people are told apart by their ids wherever only those are kept (whose a sandbox is, what was used by whom): what looks like a key's is
 * one. */
static char *person_id(const char *sub)
{
	return vial_id_is_valid(sub) || g_str_has_prefix(sub, PERSON_PREFIX) ? g_strconcat(PERSON_PREFIX, sub, NULL) : g_strdup(sub);
}

static VialIdentity *accept(VialOidc *oidc, const Request *request, const VialOidcKey *key, GError **error)
{
	const VialOidcToken *token = request->token;
	g_autofree char *project = NULL, *id = NULL;
	VialIdentity *identity;
	VialRole role;

	if (!vial_oidc_token_verify(token, key, error) ||
	    !vial_oidc_rules_apply(oidc->rules, token->claims, request->project, &project, &role, error))
		return NULL;
	id = person_id(vial_oidc_token_sub(token));
	identity = vial_identity_new(VIAL_PRINCIPAL_PERSON, id, project, role, vial_oidc_token_name(token));
	identity->expires_at_ms = vial_oidc_token_expires_at_ms(token, &oidc->terms);
	vial_oidc_cache_put(oidc->cache, &request->key, identity, key->digest);
	if (!oidc->beat_timer || identity->expires_at_ms < oidc->beat_at_ms)
		set_beat(oidc, identity->expires_at_ms);
	return identity;
}

/* Why there is no key. */
static void explain(const VialOidc *oidc, VialOidcKeyFind find, GError **error)
{
	if (find == VIAL_OIDC_KEY_AMBIGUOUS)
		vial_fail(error, VIAL_ERROR_UNAUTHORIZED, "the token does not say with which of the identity provider's keys it is signed (kid)");
	else if (vial_oidc_source_is_sure(oidc->source))
		vial_fail(error, VIAL_ERROR_UNAUTHORIZED, "the token is signed with a key that the identity provider does not publish");
	else
		vial_fail_with(error, VIAL_ERROR_UNAVAILABLE, json_pack("{s:i}", "retry_after", RETRY_SECONDS),
		               "the identity provider cannot be reached for the key that the token is signed with; try again later");
}

static VialOidcKeyFind find_key(const VialOidc *oidc, const VialOidcToken *token, const VialOidcKey **out)
{
	return vial_oidc_keys_find(vial_oidc_source_keys(oidc->source), token->algorithm, token->kid, out);
}

/* A new reference. */
static VialIdentity *identify(VialOidc *oidc, const Request *request, GError **error)
{
	gint64 now_ms = vial_time_now_ms();
	/* Another request with the same token may have waited in front of this one. */
	VialIdentity *known = vial_oidc_cache_get(oidc->cache, &request->key, now_ms);
	const VialOidcKey *key = NULL;
	VialOidcKeyFind find;

	if (known)
		return vial_identity_ref(known);
	if (!vial_oidc_token_check(request->token, &oidc->terms, now_ms, error))
		return NULL;
	find = find_key(oidc, request->token, &key);
	if (find == VIAL_OIDC_KEY_FOUND)
		return accept(oidc, request, key, error);
	explain(oidc, find, error);
	return NULL;
}

/* Answers a request, and takes it over. */
static void settle(VialOidc *oidc, Request *taken)
{
	g_autoptr(Request) request = taken;
	g_autoptr(GError) error = NULL;
	g_autoptr(VialIdentity) identity = identify(oidc, request, &error);

	request->done(identity, error, request->data);
}

static void refuse(Request *taken, const char *sentence)
{
	g_autoptr(Request) request = taken;
	g_autoptr(GError) error = NULL;

	vial_fail_with(&error, VIAL_ERROR_UNAVAILABLE, json_pack("{s:i}", "retry_after", RETRY_SECONDS), "%s", sentence);
	request->done(NULL, error, request->data);
}

/* Everybody who waited is answered: who then still has no key is refused, not queued again. */
static void on_fetched(gpointer data)
{
	VialOidc *oidc = data;
	GQueue waiting = oidc->waiting;

	g_queue_init(&oidc->waiting);
	while (!g_queue_is_empty(&waiting))
		settle(oidc, g_queue_pop_head(&waiting));
}

/* NULL with an error for a token that is no good by its own words, and so not worth a fetch. */
static Request *read_request(VialOidc *oidc, const VialOidcCacheKey *key, const char *text, GError **error)
{
	g_autoptr(VialOidcToken) token = vial_oidc_token_read(text, error);
	Request *request;

	if (!token || !vial_oidc_token_check(token, &oidc->terms, vial_time_now_ms(), error))
		return NULL;
	request = g_new0(Request, 1);
	request->key = *key;
	request->token = g_steal_pointer(&token);
	return request;
}

static void begin(VialOidc *oidc, const VialOidcCacheKey *key, const char *text, const char *project, VialOidcDone done, gpointer data)
{
	g_autoptr(GError) error = NULL;
	Request *request = read_request(oidc, key, text, &error);
	const VialOidcKey *signer;

	if (!request) {
		done(NULL, error, data);
		return;
	}
	request->project = g_strdup(project);
	request->done = done;
	request->data = data;
	if (find_key(oidc, request->token, &signer) != VIAL_OIDC_KEY_UNKNOWN || !vial_oidc_source_ask(oidc->source))
		settle(oidc, request);
	else if (oidc->waiting.length < MAX_WAITING)
		g_queue_push_tail(&oidc->waiting, request);
	else
		refuse(request, "too many wait for the identity provider's keys; try again later");
}

void vial_oidc_authenticate(VialOidc *oidc, const char *token, const char *project, VialOidcDone done, gpointer data)
{
	g_autoptr(VialIdentity) identity = NULL;
	g_autoptr(GError) error = NULL;
	VialIdentity *known;
	VialOidcCacheKey key;

	if (project && !vial_project_name_is_valid(project)) {
		vial_fail(&error, VIAL_ERROR_INVALID, "a project's name is 1 to %d of a-z, 0-9 and -, not - at the ends",
		          VIAL_PROJECT_NAME_MAX_BYTES);
		done(NULL, error, data);
		return;
	}
	vial_oidc_source_look(oidc->source);
	vial_oidc_cache_key(&key, token, project);
	known = vial_oidc_cache_get(oidc->cache, &key, vial_time_now_ms());
	if (!known) {
		begin(oidc, &key, token, project, done, data);
		return;
	}
	/* For as long as `done` lasts, whatever it does. */
	identity = vial_identity_ref(known);
	done(identity, NULL, data);
}

gboolean vial_oidc_looks_like_token(const char *text)
{
	gsize dots = 0;

	/* Base64 of `{"`, `{ `, or `{` and a line's end. */
	if (!g_str_has_prefix(text, "ey") && !g_str_has_prefix(text, "ew"))
		return FALSE;
	for (; *text; text++) {
		if (*text == '.')
			dots++;
		else if (!g_ascii_isalnum(*text) && *text != '-' && *text != '_')
			return FALSE;
	}
	return dots == 2;
}

/* ---- the whole ---- */

static gboolean read_settings(VialOidc *oidc, const VialConfig *config, GError **error)
{
	oidc->provider = (VialOidcProvider){
		.issuer = g_strdup(config->oidc_issuer),
		.ca_file = g_strdup(config->oidc_ca_file),
		.allow_http = config->oidc_allow_http,
	};
	oidc->audiences = g_strdupv(config->oidc_audience);
	oidc->terms = (VialOidcTerms){
		.issuer = oidc->provider.issuer,
		.audiences = (const char *const *)oidc->audiences,
		.skew_ms = config->oidc_clock_skew_seconds * 1000,
	};
	if (!vial_oidc_issuer_check(&oidc->provider, error))
		return FALSE;
	if (!oidc->audiences[0])
		return vial_fail(error, VIAL_ERROR_INVALID,
		                 "oidc_issuer is set, so oidc_audience must be set too: without it tokens for any other service would do");
	if (config->oidc_ca_file[0] && access(config->oidc_ca_file, R_OK) < 0)
		return vial_fail(error, VIAL_ERROR_INVALID, "oidc_ca_file: cannot read %s: %s", config->oidc_ca_file, g_strerror(errno));
	oidc->rules = vial_oidc_rules_new((const char *const *)config->oidc_rules, error);
	return oidc->rules != NULL;
}

VialOidc *vial_oidc_new(const VialConfig *config, GError **error)
{
	const char *file = config->oidc_jwks_file[0] ? config->oidc_jwks_file : NULL;
	g_autoptr(VialOidc) oidc = NULL;

	if (!config->oidc_issuer[0])
		return NULL;
	vial_oidc_fetch_setup();
	oidc = g_new0(VialOidc, 1);
	oidc->cache = vial_oidc_cache_new();
	g_queue_init(&oidc->waiting);
	if (!read_settings(oidc, config, error))
		return NULL;
	oidc->source = vial_oidc_source_new(&oidc->provider, file,
	                                    &(VialOidcListener){ .changed = end_what_is_over, .fetched = on_fetched, .data = oidc }, error);
	if (!oidc->source) {
		g_prefix_error(error, "oidc_jwks_file: ");
		return NULL;
	}
	return g_steal_pointer(&oidc);
}

void vial_oidc_free(VialOidc *oidc)
{
	if (!oidc)
		return;
	while (!g_queue_is_empty(&oidc->waiting))
		refuse(g_queue_pop_head(&oidc->waiting), "the server is stopping");
	g_clear_handle_id(&oidc->beat_timer, g_source_remove);
	vial_oidc_source_free(oidc->source);
	vial_oidc_cache_free(oidc->cache);
	vial_oidc_rules_free(oidc->rules);
	g_strfreev(oidc->audiences);
	g_free(oidc->provider.issuer);
	g_free(oidc->provider.ca_file);
	g_free(oidc);
}

void vial_oidc_on_ended(VialOidc *oidc, VialOidcEnded ended, gpointer data)
{
	oidc->ended = ended;
	oidc->ended_data = data;
}
