/* SPDX-License-Identifier: Apache-2.0 */
#include "net/events.h"

#include <string.h>

#include "util/time.h"

/* How far back, in events and in time, a repetition is looked for. */
#define MERGE_EVENTS 32
#define MERGE_MS 60000
/* Ends whose beginnings are not known yet: so many, and for so long. */
#define EARLY_ENDS 32
#define EARLY_MS 2000

typedef struct {
	VialEventFacts facts;
	guint64 seq;
	gint64 time_ms;
	gint64 closed_ms;
	guint64 bytes_in, bytes_out;
	guint count;
} Event;

typedef struct {
	VialEventFacts facts; /* protocol, address and ports */
	guint64 bytes_in, bytes_out;
	gint64 time_ms; /* 0: none */
} EarlyEnd;

struct VialEvents {
	GQueue ring; /* Event, oldest first */
	EarlyEnd early[EARLY_ENDS];
	guint next_early;
	guint64 next;
	guint64 lost;
};

static void event_free(gpointer data)
{
	Event *event = data;

	g_free((char *)event->facts.name);
	g_free((char *)event->facts.rule);
	g_free(event);
}

VialEvents *vial_events_new(void)
{
	VialEvents *events = g_new0(VialEvents, 1);

	g_queue_init(&events->ring);
	events->next = 1;
	return events;
}

void vial_events_free(VialEvents *events)
{
	if (!events)
		return;
	g_queue_clear_full(&events->ring, event_free);
	g_free(events);
}

static gboolean is_repetition(const Event *event, const VialEventFacts *facts, gint64 now_ms)
{
	const VialEventFacts *old = &event->facts;

	return facts->kind != VIAL_EVENT_CONNECTION && old->kind == facts->kind && old->is_allowed == facts->is_allowed && old->port == facts->port &&
	       now_ms - event->time_ms < MERGE_MS && old->protocol == facts->protocol && vial_address_equal(&old->address, &facts->address) &&
	       g_strcmp0(old->name, facts->name) == 0 && g_strcmp0(old->rule, facts->rule) == 0;
}

static Event *find_repeated(VialEvents *events, const VialEventFacts *facts, gint64 now_ms)
{
	guint seen = 0;

	for (GList *at = events->ring.tail; at && seen < MERGE_EVENTS; at = at->prev, seen++)
		if (is_repetition(at->data, facts, now_ms))
			return at->data;
	return NULL;
}

static gboolean is_same_connection(const VialEventFacts *one, const VialEventFacts *other)
{
	return one->port == other->port && one->guest_port == other->guest_port && strcmp(one->protocol, other->protocol) == 0 &&
	       vial_address_equal(&one->address, &other->address);
}

static void take_early_end(VialEvents *events, Event *event)
{
	for (guint i = 0; i < EARLY_ENDS; i++) {
		EarlyEnd *end = &events->early[i];

		if (!end->time_ms || event->time_ms - end->time_ms > EARLY_MS || !is_same_connection(&end->facts, &event->facts))
			continue;
		event->bytes_in = end->bytes_in;
		event->bytes_out = end->bytes_out;
		event->closed_ms = event->time_ms;
		end->time_ms = 0;
		return;
	}
}

guint64 vial_events_add(VialEvents *events, const VialEventFacts *facts)
{
	gint64 now_ms = vial_time_now_ms();
	Event *event = find_repeated(events, facts, now_ms);

	if (event) {
		event->count++;
		return event->seq;
	}
	if (events->ring.length >= VIAL_EVENTS_MAX) {
		event_free(g_queue_pop_head(&events->ring));
		events->lost++;
	}
	event = g_new0(Event, 1);
	event->facts = *facts;
	event->facts.name = g_strdup(facts->name);
	event->facts.rule = g_strdup(facts->rule);
	event->seq = events->next++;
	event->time_ms = now_ms;
	event->count = 1;
	if (facts->kind == VIAL_EVENT_CONNECTION && facts->guest_port)
		take_early_end(events, event);
	g_queue_push_tail(&events->ring, event);
	return event->seq;
}

static Event *find(VialEvents *events, guint64 seq)
{
	for (GList *at = events->ring.tail; at; at = at->prev) {
		Event *event = at->data;

		if (event->seq == seq)
			return event;
		if (event->seq < seq)
			break;
	}
	return NULL;
}

void vial_events_update(VialEvents *events, guint64 seq, guint64 bytes_in, guint64 bytes_out)
{
	Event *event = find(events, seq);

	if (!event)
		return;
	event->bytes_in = bytes_in;
	event->bytes_out = bytes_out;
}

void vial_events_close(VialEvents *events, guint64 seq, guint64 bytes_in, guint64 bytes_out)
{
	Event *event = find(events, seq);

	if (!event)
		return;
	event->bytes_in = bytes_in;
	event->bytes_out = bytes_out;
	event->closed_ms = vial_time_now_ms();
}

void vial_events_end(VialEvents *events, const VialEventFacts *facts, guint64 bytes_in, guint64 bytes_out)
{
	for (GList *at = events->ring.tail; at; at = at->prev) {
		const Event *event = at->data;

		if (event->facts.kind == VIAL_EVENT_CONNECTION && !event->closed_ms && is_same_connection(&event->facts, facts))
			return vial_events_close(events, event->seq, bytes_in, bytes_out);
	}
	events->early[events->next_early++ % EARLY_ENDS] = (EarlyEnd){
		.facts = { .protocol = facts->protocol, .address = facts->address, .port = facts->port, .guest_port = facts->guest_port },
		.bytes_in = bytes_in,
		.bytes_out = bytes_out,
		.time_ms = vial_time_now_ms(),
	};
}

guint64 vial_events_last(const VialEvents *events)
{
	const Event *last = events->ring.tail ? events->ring.tail->data : NULL;

	return last ? last->seq : 0;
}

static json_t *event_to_json(const Event *event)
{
	static const char *const kinds[] = { "connection", "dns", "refused" };
	const VialEventFacts *facts = &event->facts;
	json_t *json = json_object();
	char text[MAX(VIAL_TIME_TEXT_SIZE, VIAL_ADDRESS_TEXT_SIZE)];

	json_object_set_new(json, "seq", json_integer((json_int_t)event->seq));
	vial_time_fill(text, event->time_ms);
	json_object_set_new(json, "time", json_string(text));
	json_object_set_new(json, "kind", json_string(kinds[facts->kind]));
	json_object_set_new(json, "protocol", json_string(facts->protocol));
	if (facts->name)
		json_object_set_new(json, "name", json_string(facts->name));
	if (facts->address.family) {
		vial_address_format(&facts->address, text);
		json_object_set_new(json, "address", json_string(text));
	}
	if (facts->port)
		json_object_set_new(json, "port", json_integer(facts->port));
	json_object_set_new(json, "verdict", json_string(facts->is_allowed ? "allow" : "deny"));
	json_object_set_new(json, "rule", json_string(facts->rule ? facts->rule : ""));
	if (facts->reason)
		json_object_set_new(json, "reason", json_string(facts->reason));
	if (event->count > 1)
		json_object_set_new(json, "count", json_integer(event->count));
	if (facts->kind == VIAL_EVENT_CONNECTION) {
		json_object_set_new(json, "bytes_in", json_integer((json_int_t)event->bytes_in));
		json_object_set_new(json, "bytes_out", json_integer((json_int_t)event->bytes_out));
	}
	if (event->closed_ms) {
		vial_time_fill(text, event->closed_ms);
		json_object_set_new(json, "closed_at", json_string(text));
	}
	return json;
}

json_t *vial_events_to_json(VialEvents *events, guint64 after, guint limit)
{
	json_t *json = json_object();
	json_t *array = json_array();
	guint64 next = after;

	for (GList *at = events->ring.head; at && json_array_size(array) < limit; at = at->next) {
		const Event *event = at->data;

		if (event->seq <= after)
			continue;
		json_array_append_new(array, event_to_json(event));
		next = event->seq;
	}
	json_object_set_new(json, "events", array);
	json_object_set_new(json, "next", json_integer((json_int_t)next));
	json_object_set_new(json, "lost", json_integer((json_int_t)events->lost));
	return json;
}
