/* SPDX-License-Identifier: Apache-2.0 */
#include "net/events.h"

#include <netinet/in.h>

#include "util/json.h"

static VialEventFacts connection(guint16 guest_port)
{
	static const guint8 bytes[4] = { 192, 0, 2, 1 };
	VialEventFacts facts = {
		.kind = VIAL_EVENT_CONNECTION, .protocol = "tcp", .port = 80, .guest_port = guest_port, .is_allowed = TRUE, .rule = "a"
	};

	vial_address_from_bytes(AF_INET, bytes, &facts.address);
	return facts;
}

static void expect(VialEvents *events, gsize index, int bytes_in, gboolean is_closed)
{
	g_autoptr(json_t) all = vial_events_to_json(events, 0, 100);
	const json_t *event = json_array_get(json_object_get(all, "events"), index);

	g_assert_nonnull(event);
	g_assert_cmpint(json_integer_value(json_object_get(event, "bytes_in")), ==, bytes_in);
	g_assert_true((json_object_get(event, "closed_at") != NULL) == is_closed);
}

static void test_an_end_is_told_of_the_newest_that_is_open(void)
{
	VialEvents *events = vial_events_new();
	VialEventFacts facts = connection(4000), other = connection(4001);

	vial_events_add(events, &facts);
	vial_events_add(events, &other);
	vial_events_add(events, &facts);
	vial_events_end(events, &facts, 7, 8);
	expect(events, 0, 0, FALSE);
	expect(events, 1, 0, FALSE);
	expect(events, 2, 7, TRUE);
	vial_events_end(events, &facts, 9, 8);
	expect(events, 0, 9, TRUE);
	vial_events_free(events);
}

static void test_an_end_that_is_told_before_the_beginning_is_its_end(void)
{
	VialEvents *events = vial_events_new();
	VialEventFacts facts = connection(4000), other = connection(4001);

	vial_events_end(events, &facts, 7, 8);
	vial_events_add(events, &other);
	vial_events_add(events, &facts);
	vial_events_add(events, &facts);
	expect(events, 0, 0, FALSE);
	expect(events, 1, 7, TRUE);
	expect(events, 2, 0, FALSE);
	vial_events_free(events);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/events/an end is told of the newest that is open", test_an_end_is_told_of_the_newest_that_is_open);
	g_test_add_func("/events/an end that is told before the beginning is its end", test_an_end_that_is_told_before_the_beginning_is_its_end);
	return g_test_run();
}
