/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stock of slots: prepared ahead, handed out, adopted, removed, swept. Namespaces and links are made and removed on
 * worker threads (milliseconds, and the kernel's big network lock); sockets on the main thread.
 *
 *   worker: build (links, rules) ──> main: open (resolver, proxy) ──> prepared ──acquire──> held ──release──> worker: remove
 */
#include "net/net.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

#include "net/caps.h"
#include "net/change.h"
#include "net/conntrack.h"
#include "net/netns.h"
#include "net/rules.h"
#include "net/slot.h"
#include "net/wall.h"
#include "util/error.h"
#include "util/fd.h"
#include "util/hash.h"
#include "util/log.h"
#include "util/worker.h"

#define DEFAULT_PREPARED 8
#define DEFAULT_MAX_SLOTS 4096
#define PREPARING_AT_ONCE 2
#define RETRY_MS 1000
#define RESTOCK_MS 30

/* ---- references: jobs may come back after the owner has left ---- */

static VialNet *net_ref(VialNet *net)
{
	net->ref_count++;
	return net;
}

static void net_unref(VialNet *net)
{
	if (--net->ref_count)
		return;
	vial_upstream_free(net->upstream);
	vial_nft_free(net->host_nft);
	g_clear_pointer(&net->host.addresses, g_array_unref);
	g_clear_pointer(&net->held, g_hash_table_unref);
	g_free(net->tag);
	g_free(net->alias);
	g_free(net);
}

/* ---- removing ---- */

typedef struct {
	VialNet *net;
	VialWiring wiring;
	VialNft *nft;
	char *closing; /* of the host's wall; NULL: it was not open to it */
} RemoveJob;

static void remove_work(gpointer data)
{
	RemoveJob *job = data;

	if (job->closing)
		vial_nft_run(job->net->host_nft, job->closing, NULL);
	vial_wiring_remove(&job->wiring);
	vial_nft_free(job->nft);
}

static void stock_up(VialNet *net);

static void remove_done(gpointer data)
{
	RemoveJob *job = data;

	job->net->removing--;
	stock_up(job->net);
	vial_wiring_clear(&job->wiring);
	net_unref(job->net);
	g_free(job->closing);
	g_free(job);
}

/* Takes all of it over. */
static void remove_later(VialNet *net, VialWiring *wiring, VialNft *nft, char *closing)
{
	RemoveJob *job = g_new0(RemoveJob, 1);

	job->net = net_ref(net);
	job->wiring = *wiring;
	job->nft = nft;
	job->closing = closing;
	memset(wiring, 0, sizeof(*wiring));
	net->removing++;
	vial_worker_run_in(VIAL_LANE_WAIT, remove_work, remove_done, job);
}

/* ---- slots ---- */

static VialNetSlot *slot_new(VialNet *net, VialWiring *wiring)
{
	VialNetSlot *slot = g_new0(VialNetSlot, 1);

	slot->net = net;
	slot->wiring = *wiring;
	memset(wiring, 0, sizeof(*wiring));
	slot->host_index = vial_wiring_host_index(&slot->wiring);
	slot->netns_path = g_build_filename(VIAL_NETNS_DIR, slot->wiring.name, NULL);
	slot->gate_fd = -1;
	slot->base_limits = slot->limits = net->limits;
	slot->policy = vial_net_policy_new_disabled();
	slot->answers = vial_answers_new();
	slot->events = vial_events_new();
	g_queue_init(&slot->changes);
	return slot;
}

/* Frees our side only; the kernel's stays. The nft handle is the caller's. */
static VialNft *slot_free(VialNetSlot *slot)
{
	VialNft *nft = slot->nft;

	vial_slot_close(slot);
	vial_fd_clear(&slot->gate_fd);
	vial_net_policy_unref(slot->policy);
	g_clear_pointer(&slot->host_open, g_array_unref);
	vial_answers_free(slot->answers);
	vial_events_free(slot->events);
	vial_wiring_clear(&slot->wiring);
	g_free(slot->netns_path);
	g_free(slot->label);
	g_free(slot);
	return nft;
}

void vial_slot_discard(VialNetSlot *slot)
{
	VialNet *net = slot->net;
	VialWiring wiring = slot->wiring;
	char *closing = vial_slot_host_rules(slot, slot->host_open, NULL);

	memset(&slot->wiring, 0, sizeof(slot->wiring));
	remove_later(net, &wiring, slot_free(slot), closing);
}

/* A slot under construction. What the kernel has to do is done by one function, on a worker or, when there is no stock, at once. */
typedef struct {
	VialNet *net;
	VialWiring wiring;
	int gate_fd;
	VialNft *nft;
	guint first_number;
	guint mtu;
	guint64 rate;
	char *rules; /* shut, before anything can be in it */
	char hash[17];
	gboolean is_built;
	GError *error;
} BuildJob;

static guint take_number(VialNet *net)
{
	guint number = net->next_number;

	net->next_number = (net->next_number + 1) % VIAL_SLOT_NUMBERS;
	return number;
}

static BuildJob *build_new(VialNet *net)
{
	g_autoptr(VialNetPolicy) shut = vial_net_policy_new_disabled();
	VialRuleCaps caps = vial_caps_rules(&net->limits);
	GString *rules = g_string_new(NULL);
	BuildJob *job = g_new0(BuildJob, 1);

	job->net = net_ref(net);
	job->gate_fd = -1;
	job->first_number = take_number(net);
	job->mtu = net->host.mtu;
	job->rate = vial_caps_bytes_per_second(&net->limits);
	vial_slot_policy_hash(&net->limits, shut, job->hash);
	vial_rules_gate(rules, &caps);
	vial_rules_policy(rules, shut, net->host.addresses, job->hash, NULL);
	job->rules = g_string_free(rules, FALSE);
	return job;
}

static void build_free(BuildJob *job)
{
	vial_fd_clear(&job->gate_fd);
	vial_wiring_clear(&job->wiring);
	g_clear_error(&job->error);
	g_free(job->rules);
	net_unref(job->net);
	g_free(job);
}

static void build_work(gpointer data)
{
	BuildJob *job = data;

	job->is_built = vial_wiring_build(&job->wiring, job->net->tag, job->net->alias, job->first_number, job->mtu, job->rate, &job->error);
	if (!job->is_built || (job->gate_fd = vial_netns_open(job->wiring.gate_name, &job->error)) < 0)
		return;
	job->nft = vial_nft_new(job->gate_fd, &job->error);
	if (job->nft)
		vial_nft_run(job->nft, job->rules, &job->error);
}

/* A built slot becomes usable: it is shut by rules, now come our services. NULL, and what was built is removed, on failure. */
static VialNetSlot *slot_open(BuildJob *job, GError **error)
{
	VialNetSlot *slot;

	if (!job->is_built) {
		g_propagate_error(error, g_steal_pointer(&job->error));
		return NULL;
	}
	slot = slot_new(job->net, &job->wiring);
	slot->gate_fd = vial_fd_steal(&job->gate_fd);
	slot->nft = g_steal_pointer(&job->nft);
	slot->host_open = g_array_new(FALSE, FALSE, sizeof(VialAddress));
	g_strlcpy(slot->policy_hash, job->hash, sizeof slot->policy_hash);
	if (job->error)
		g_propagate_error(error, g_steal_pointer(&job->error));
	else if (vial_slot_open(slot, error))
		return slot;
	vial_slot_discard(slot);
	return NULL;
}

/* ---- preparing ahead ---- */

static gboolean on_retry(gpointer data)
{
	VialNet *net = data;

	net->retry_timer = 0;
	stock_up(net);
	return G_SOURCE_REMOVE;
}

static void build_done(gpointer data)
{
	BuildJob *job = data;
	VialNet *net = job->net;
	g_autoptr(GError) error = NULL;
	VialNetSlot *slot = NULL;

	net->preparing--;
	if (!net->is_closed)
		slot = slot_open(job, &error);
	else if (job->is_built)
		remove_later(net, &job->wiring, g_steal_pointer(&job->nft), NULL);
	if (slot)
		g_queue_push_tail(&net->prepared, slot);
	if (error) {
		vial_log_warning("net", "a network slot could not be prepared", "error", error->message);
		if (!net->retry_timer && !net->is_closed)
			net->retry_timer = g_timeout_add(RETRY_MS, on_retry, net);
	} else {
		stock_up(net);
	}
	build_free(job);
}

static void stock_up(VialNet *net)
{
	while (net->is_started && !net->is_closed && net->preparing < PREPARING_AT_ONCE &&
	       net->prepared.length + net->preparing < net->prepared_wanted &&
	       g_hash_table_size(net->held) + net->prepared.length + net->preparing < net->max_slots) {
		net->preparing++;
		vial_worker_run_in(VIAL_LANE_BOOT, build_work, build_done, build_new(net));
	}
}

/* ---- the public side ---- */

static char *tag_of(const char *data_dir)
{
	guint8 digest[VIAL_SHA256_BYTES];

	vial_sha256(data_dir, strlen(data_dir), digest);
	return vial_hex_encode(digest, 4);
}

static gboolean raise_host_wall(VialNet *net, const guint16 *sealed_ports, GError **error)
{
	g_autoptr(GString) commands = g_string_new(NULL);

	net->host_nft = vial_nft_new(vial_netns_home(), error);
	if (!net->host_nft)
		return FALSE;
	vial_rules_host(commands, sealed_ports);
	return vial_nft_run(net->host_nft, commands->str, error);
}

VialNet *vial_net_new(const VialNetConfig *config, GError **error)
{
	static const VialNetLimits defaults = {
		.rate_mbit = VIAL_NET_DEFAULT_RATE_MBIT,
		.max_connections = VIAL_NET_DEFAULT_MAX_CONNECTIONS,
		.connection_rate = VIAL_NET_DEFAULT_CONNECTION_RATE,
		.packet_rate = VIAL_NET_DEFAULT_PACKET_RATE,
		.dns_rate = VIAL_NET_DEFAULT_DNS_RATE,
	};
	VialNet *net = g_new0(VialNet, 1);

	net->ref_count = 1;
	net->tag = tag_of(config->data_dir);
	net->alias = g_strdup_printf("vial:%s %.200s", net->tag, config->data_dir);
	net->limits = vial_caps_resolve(&config->limits, &defaults);
	net->prepared_wanted = config->prepared_slots ? config->prepared_slots : DEFAULT_PREPARED;
	net->max_slots = config->max_slots ? config->max_slots : DEFAULT_MAX_SLOTS;
	net->held = g_hash_table_new(NULL, NULL);
	/* Two daemons that start at different places seldom meet; when they do, the interface's name decides. */
	net->next_number = (guint)g_random_int_range(0, VIAL_SLOT_NUMBERS);
	g_queue_init(&net->prepared);
	if (!vial_netns_init(error) || !vial_wall_enter(error) || !vial_host_refresh(&net->host, error) ||
	    !raise_host_wall(net, config->sealed_ports, error)) {
		vial_net_free(net);
		return NULL;
	}
	net->upstream = vial_upstream_new(config->resolvers, error);
	if (!net->upstream) {
		vial_net_free(net);
		return NULL;
	}
	return net;
}

static gboolean is_held(VialNet *net, guint number)
{
	GHashTableIter iter;
	gpointer key;

	g_hash_table_iter_init(&iter, net->held);
	while (g_hash_table_iter_next(&iter, &key, NULL))
		if (((VialNetSlot *)key)->wiring.number == number)
			return TRUE;
	return FALSE;
}

void vial_net_start(VialNet *net, gboolean may_sweep)
{
	g_autoptr(GArray) numbers = vial_wiring_list(net->tag);
	guint swept = 0;

	for (guint i = 0; may_sweep && i < numbers->len; i++) {
		guint number = g_array_index(numbers, guint, i);
		VialWiring wiring = { 0 };

		if (is_held(net, number))
			continue;
		vial_wiring_name(&wiring, net->tag, number);
		remove_later(net, &wiring, NULL, NULL);
		swept++;
	}
	if (swept) {
		g_autofree char *count = g_strdup_printf("%u", swept);

		vial_log_info("net", "swept network slots of a dead predecessor", "count", count);
	}
	net->is_started = TRUE;
	stock_up(net);
}

void vial_net_close(VialNet *net)
{
	VialNetSlot *slot;

	net->is_closed = TRUE;
	g_clear_handle_id(&net->retry_timer, g_source_remove);
	while ((slot = g_queue_pop_head(&net->prepared)))
		vial_slot_discard(slot);
}

void vial_net_free(VialNet *net)
{
	GHashTableIter iter;
	gpointer key;

	if (!net)
		return;
	vial_net_close(net);
	g_hash_table_iter_init(&iter, net->held);
	while (g_hash_table_iter_next(&iter, &key, NULL)) {
		g_hash_table_iter_steal(&iter);
		/* One in the middle of a change (the workers have been waited for, so it is stuck) is left as it is. */
		if (((VialNetSlot *)key)->is_changing)
			net_ref(net);
		else
			vial_nft_free(slot_free(key));
	}
	net_unref(net);
}

/* While there is stock the sandbox that was just asked for comes first: building slots takes its share of the cores. */
static void stock_up_soon(VialNet *net)
{
	if (net->prepared.length < net->prepared_wanted / 2)
		stock_up(net);
	else if (!net->retry_timer)
		net->retry_timer = g_timeout_add(RESTOCK_MS, on_retry, net);
}

static VialNetSlot *take_prepared(VialNet *net, GError **error)
{
	VialNetSlot *slot = g_queue_pop_head(&net->prepared);
	BuildJob *job;

	if (slot)
		return slot;
	if (net->is_closed) {
		vial_fail(error, VIAL_ERROR_UNAVAILABLE, "this Vial is shutting down");
		return NULL;
	}
	if (g_hash_table_size(net->held) + net->preparing >= net->max_slots) {
		vial_fail(error, VIAL_ERROR_QUOTA, "all %u network slots are in use", net->max_slots);
		return NULL;
	}
	job = build_new(net);
	build_work(job);
	slot = slot_open(job, error);
	build_free(job);
	return slot;
}

VialNetSlot *vial_net_slot_acquire(VialNet *net, const char *label, const VialNetPolicy *policy, const VialNetLimits *limits, GError **error)
{
	VialNetSlot *slot = take_prepared(net, error);

	if (!slot)
		return NULL;
	slot->label = g_strdup(label);
	slot->base_limits = vial_caps_resolve(limits, &net->limits);
	/* Nothing is in the slot yet: there are no connections to prune. */
	if (!vial_slot_set_limits(slot, policy ? vial_caps_narrow(&policy->limits, &slot->base_limits) : slot->base_limits, error) ||
	    (policy && policy->mode != VIAL_NET_DISABLED && !vial_slot_apply(slot, policy, NULL, error))) {
		vial_slot_discard(slot);
		return NULL;
	}
	g_hash_table_add(net->held, slot);
	stock_up_soon(net);
	return slot;
}

static gboolean has_rules_of(VialNetSlot *slot, const VialNetPolicy *policy)
{
	char hash[17];
	g_autofree char *command = NULL;

	vial_slot_policy_hash(&slot->limits, policy, hash);
	command = g_strdup_printf("list chain inet vial policy_%s", hash);
	if (!vial_nft_test(slot->nft, command))
		return FALSE;
	g_strlcpy(slot->policy_hash, hash, sizeof(slot->policy_hash));
	return TRUE;
}

static gboolean adopt_rules(VialNetSlot *slot, const VialNetPolicy *policy, GError **error)
{
	VialRuleCaps caps = vial_caps_rules(&slot->limits);
	g_autoptr(GString) skeleton = g_string_new(NULL);

	if (has_rules_of(slot, policy)) {
		vial_net_policy_unref(slot->policy);
		slot->policy = vial_net_policy_ref(policy);
		slot->host_open = vial_slot_wanted_host(slot, policy);
		return vial_slot_open(slot, error);
	}
	/* Another policy, other limits or another version's rules: all anew, then the connections that do not fit it end. */
	vial_rules_gate(skeleton, &caps);
	return vial_wiring_set_rate(slot->gate_fd, vial_caps_bytes_per_second(&slot->limits), error) &&
	       vial_slot_apply(slot, policy, skeleton->str, error) && vial_slot_open(slot, error) && vial_slot_prune_connections(slot, error);
}

VialNetSlot *vial_net_slot_adopt(VialNet *net, const char *name, const char *label, const VialNetPolicy *policy, const VialNetLimits *limits,
                                 GError **error)
{
	g_autoptr(VialNetPolicy) wanted = policy ? vial_net_policy_ref(policy) : vial_net_policy_new_disabled();
	VialWiring wiring = { 0 };
	VialNetSlot *slot;

	if (!vial_wiring_parse(&wiring, net->tag, name)) {
		vial_fail(error, VIAL_ERROR_NOT_FOUND, "\"%s\" is not a network slot of this daemon", name);
		vial_wiring_clear(&wiring);
		return NULL;
	}
	slot = slot_new(net, &wiring);
	slot->label = g_strdup(label);
	slot->base_limits = vial_caps_resolve(limits, &net->limits);
	slot->limits = vial_caps_narrow(&wanted->limits, &slot->base_limits);
	slot->gate_fd = vial_netns_open(slot->wiring.gate_name, error);
	if (slot->gate_fd >= 0)
		slot->nft = vial_nft_new(slot->gate_fd, error);
	if (!slot->nft || !adopt_rules(slot, wanted, error)) {
		vial_nft_free(slot_free(slot));
		return NULL;
	}
	g_hash_table_add(net->held, slot);
	return slot;
}

static void counters_add(VialNetCounters *sum, const VialNetCounters *one)
{
	sum->connections_allowed += one->connections_allowed;
	sum->connections_denied += one->connections_denied;
	sum->dns_allowed += one->dns_allowed;
	sum->dns_denied += one->dns_denied;
	sum->bytes_in += one->bytes_in;
	sum->bytes_out += one->bytes_out;
	sum->proxied += one->proxied;
}

void vial_net_slot_release(VialNetSlot *slot)
{
	VialNetCounters last;

	if (!slot)
		return;
	vial_net_slot_counters(slot, &last);
	last.proxied = 0;
	counters_add(&slot->net->past, &last);
	g_hash_table_remove(slot->net->held, slot);
	vial_slot_close(slot);
	if (vial_net_changes_stop(slot))
		vial_slot_discard(slot);
}

gboolean vial_net_slot_shut(VialNetSlot *slot, GError **error)
{
	/* Before connections are tracked, and after all else: what is dropped here has not been. */
	static const char commands[] = "add table inet shut\n"
				       "add chain inet shut from { type filter hook prerouting priority -400; }\n"
				       "add chain inet shut to { type filter hook postrouting priority 400; }\n"
				       "add rule inet shut from iifname " VIAL_GATE_INTERFACE " drop\n"
				       "add rule inet shut to oifname " VIAL_GATE_INTERFACE " drop\n";

	return vial_nft_run(slot->nft, commands, error);
}

gboolean vial_net_slot_renew(VialNetSlot *slot, const char *label, GError **error)
{
	g_free(slot->label);
	slot->label = g_strdup(label);
	return vial_wiring_renew_guest(&slot->wiring, error);
}

gboolean vial_net_slot_reopen(VialNetSlot *slot, GError **error)
{
	return vial_nft_run(slot->nft, "add table inet shut\ndelete table inet shut\n", error);
}

int vial_net_slot_gate(const VialNetSlot *slot)
{
	return fcntl(slot->gate_fd, F_DUPFD_CLOEXEC, 0);
}

gboolean vial_net_has_connections(int gate_fd)
{
	g_autoptr(GPtrArray) tracked = vial_conntrack_list(gate_fd, NULL);

	for (guint i = 0; tracked && i < tracked->len; i++)
		if (((VialTracked *)tracked->pdata[i])->connection.protocol == IPPROTO_TCP)
			return TRUE;
	return FALSE;
}

const char *vial_net_slot_name(const VialNetSlot *slot)
{
	return slot->wiring.name;
}

const char *vial_net_slot_netns_path(const VialNetSlot *slot)
{
	return slot->netns_path;
}

int vial_net_slot_open_tap(VialNetSlot *slot, GError **error)
{
	VialRuleCaps caps = vial_caps_rules(&slot->limits);
	g_autoptr(GString) commands = g_string_new(NULL);
	vial_autofd int fd = -1;

	/* The services are bound to the interface that is replaced; so is the link-layer table. */
	vial_slot_close(slot);
	fd = vial_wiring_open_tap(slot->gate_fd, vial_caps_bytes_per_second(&slot->limits), error);
	if (fd < 0)
		return -1;
	vial_rules_caps(commands, &caps);
	if (!vial_nft_run(slot->nft, commands->str, error) || !vial_slot_open(slot, error))
		return -1;
	return vial_fd_steal(&fd);
}

void vial_net_stats(VialNet *net, VialNetStats *out)
{
	GHashTableIter iter;
	gpointer key;

	memset(out, 0, sizeof(*out));
	out->prepared = net->prepared.length;
	out->preparing = net->preparing;
	out->held = g_hash_table_size(net->held);
	out->removing = net->removing;
	out->total = net->past;
	g_hash_table_iter_init(&iter, net->held);
	while (g_hash_table_iter_next(&iter, &key, NULL)) {
		VialNetCounters counters;

		vial_net_slot_counters(key, &counters);
		counters_add(&out->total, &counters);
	}
}
