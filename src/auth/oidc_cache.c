/* SPDX-License-Identifier: Apache-2.0 */
#include "auth/oidc_cache.h"

#include <string.h>

typedef struct {
	VialOidcCacheKey key;
	VialIdentity *identity;
	guint8 signer[VIAL_SHA256_BYTES];
	GList link; /* in `order`; its data is the entry */
} Entry;

struct VialOidcCache {
	GHashTable *entries; /* Entry, by its own key; owned */
	GQueue order;        /* the one used last comes last */
};

/* The digest is uniform; its first bytes are as good as any hash of it. */
static guint hash_key(gconstpointer pointer)
{
	const VialOidcCacheKey *key = pointer;
	guint value;

	memcpy(&value, key->digest, sizeof(value));
	return value;
}

static gboolean keys_are_equal(gconstpointer a, gconstpointer b)
{
	const VialOidcCacheKey *x = a, *y = b;

	return vial_constant_time_equal(x->digest, y->digest, sizeof(x->digest)) && strcmp(x->project, y->project) == 0;
}

static void entry_free(gpointer pointer)
{
	Entry *entry = pointer;

	vial_identity_unref(entry->identity);
	g_free(entry);
}

void vial_oidc_cache_key(VialOidcCacheKey *out, const char *token, const char *project)
{
	vial_sha256(token, strlen(token), out->digest);
	g_strlcpy(out->project, project ? project : "", sizeof(out->project));
}

VialOidcCache *vial_oidc_cache_new(void)
{
	VialOidcCache *cache = g_new0(VialOidcCache, 1);

	cache->entries = g_hash_table_new_full(hash_key, keys_are_equal, NULL, entry_free);
	g_queue_init(&cache->order);
	return cache;
}

void vial_oidc_cache_free(VialOidcCache *cache)
{
	if (!cache)
		return;
	/* The links are in the entries. */
	g_hash_table_unref(cache->entries);
	g_free(cache);
}

guint vial_oidc_cache_size(const VialOidcCache *cache)
{
	return g_hash_table_size(cache->entries);
}

static void forget(VialOidcCache *cache, Entry *entry)
{
	g_queue_unlink(&cache->order, &entry->link);
	g_hash_table_remove(cache->entries, &entry->key);
}

VialIdentity *vial_oidc_cache_get(VialOidcCache *cache, const VialOidcCacheKey *key, gint64 now_ms)
{
	Entry *entry = g_hash_table_lookup(cache->entries, key);

	/* What is over by the clock is ended by the timer, a moment from now. */
	if (!entry || entry->identity->has_ended || entry->identity->expires_at_ms <= now_ms)
		return NULL;
	g_queue_unlink(&cache->order, &entry->link);
	g_queue_push_tail_link(&cache->order, &entry->link);
	return entry->identity;
}

/* Only ours is the reference of an identity that nobody works with. */
static void make_room(VialOidcCache *cache)
{
	GList *link = cache->order.head;

	while (link && vial_oidc_cache_size(cache) >= VIAL_OIDC_MAX_TOKENS) {
		Entry *entry = link->data;

		link = link->next;
		if (entry->identity->refs == 1)
			forget(cache, entry);
	}
}

void vial_oidc_cache_put(VialOidcCache *cache, const VialOidcCacheKey *key, VialIdentity *identity, const guint8 signer[VIAL_SHA256_BYTES])
{
	Entry *old = g_hash_table_lookup(cache->entries, key), *entry = g_new0(Entry, 1);

	/* Not known, or we would not be here; unless somebody else ended it. */
	if (old) {
		old->identity->has_ended = TRUE;
		forget(cache, old);
	}
	make_room(cache);
	entry->key = *key;
	entry->identity = vial_identity_ref(identity);
	memcpy(entry->signer, signer, sizeof(entry->signer));
	entry->link.data = entry;
	g_hash_table_insert(cache->entries, &entry->key, entry);
	g_queue_push_tail_link(&cache->order, &entry->link);
}

gboolean vial_oidc_cache_end(VialOidcCache *cache, const VialOidcKeys *keys, gint64 now_ms)
{
	gboolean has_any = FALSE;
	GList *next;

	for (GList *link = cache->order.head; link; link = next) {
		Entry *entry = link->data;

		next = link->next;
		if (entry->identity->expires_at_ms > now_ms && vial_oidc_keys_have(keys, entry->signer))
			continue;
		entry->identity->has_ended = TRUE;
		has_any = TRUE;
		forget(cache, entry);
	}
	return has_any;
}

gint64 vial_oidc_cache_next_ms(const VialOidcCache *cache)
{
	gint64 next_ms = G_MAXINT64;

	for (const GList *link = cache->order.head; link; link = link->next)
		next_ms = MIN(next_ms, ((const Entry *)link->data)->identity->expires_at_ms);
	return next_ms;
}
