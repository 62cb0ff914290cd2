# SPDX-License-Identifier: Apache-2.0
"""What a collector that behaves is sent."""

import socket
import time

import pytest

from driver import LEISURE

TRACE, SPAN, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", "00f067aa0ba902b7"
SERVER, ERROR = 2, 2


def values(attributes):
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in attributes}


def kinds(attributes):
    return {one.key: one.value.WhichOneof("value") for one in attributes}


def test_a_span_arrives_whole_and_exactly_once(driver, collector):
    driver.add("sandbox.create", trace_id=TRACE, span_id=SPAN, parent_span_id=PARENT, started_us=1700000000123456, ended_us=1700000001654321,
               attributes={"vial.sandbox.id": "abc"})
    [span] = collector.await_spans(1)
    assert span.name == "sandbox.create"
    assert (span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex()) == (TRACE, SPAN, PARENT)
    assert (span.start_time_unix_nano, span.end_time_unix_nano) == (1700000000123456000, 1700000001654321000)
    assert span.kind == SERVER
    assert values(span.attributes) == {"vial.sandbox.id": "abc"}
    assert not span.HasField("status")
    driver.await_stats(exported=1, dropped=0, failed_requests=0, queued=0)
    time.sleep(0.5)
    assert len(collector.requests) == 1


def test_the_request_is_what_otlp_asks_for(driver, collector):
    driver.add()
    [request] = collector.await_requests(1)
    assert (request.method, request.path) == ("POST", "/v1/traces")
    assert request.header("content-type") == "application/json"
    assert request.header("user-agent").startswith("vial/")
    assert request.header("expect") is None
    assert request.header("transfer-encoding") is None


def test_a_path_of_the_endpoint_is_kept(drive, collector):
    drive(collector.url + "/tenant/otlp/").add()
    assert collector.await_requests(1)[0].path == "/tenant/otlp/v1/traces"


def test_who_sends_is_told_once_per_request(drive, collector):
    driver = drive(collector.url, env={"VIAL_OTLP_SERVICE_NAME": "vial-blüe"})
    driver.add(times=3)
    [resource] = collector.await_requests(1)[0].message().resource_spans
    who = values(resource.resource.attributes)
    assert (who["service.name"], who["host.name"]) == ("vial-blüe", socket.gethostname())
    assert who["service.version"] and len(who["service.instance.id"]) == 36
    [scope] = resource.scope_spans
    assert scope.scope.name == "vial" and len(scope.spans) == 3
    driver.add()
    [again] = collector.await_requests(2)[1].message().resource_spans
    assert again.resource == resource.resource


def test_ids_that_were_not_given_are_made(driver, collector):
    driver.add(times=200)
    spans = collector.await_spans(200)
    assert len({span.trace_id for span in spans}) == 200 and len({span.span_id for span in spans}) == 200
    assert all(any(span.trace_id) and any(span.span_id) and not span.parent_span_id for span in spans)


def test_attributes_of_every_type_arrive_as_they_are(driver, collector):
    given = {"text": "plain", "empty": "", "quoted": 'a "b" \\ c', "controls": "\x01\t\r\n\x1b[31m\x7f", "wide": "Größe 寸法 🐛", "int": 42,
             "least": -2**63, "most": 2**63 - 1, "real": 0.1, "whole": 3.0, "tiny": 5e-324, "huge": 1.7976931348623157e308, "yes": True, "no": False}
    driver.add("größe", attributes=given)
    [span] = collector.await_spans(1)
    assert span.name == "größe"
    assert values(span.attributes) == given
    assert kinds(span.attributes) == {name: {str: "string_value", int: "int_value", float: "double_value", bool: "bool_value"}[type(value)]
                                      for name, value in given.items()}


def test_very_long_values_are_cut_at_4096_bytes_between_characters(driver, collector):
    driver.add(attributes={"long": "x" * 100_000, "wide": "é" * 100_000, "odd": "x" + "é" * 100_000})
    [span] = collector.await_spans(1)
    assert values(span.attributes) == {"long": "x" * 4096, "wide": "é" * 2048, "odd": "x" + "é" * 2047}


def test_attributes_that_are_too_many_are_counted(driver, collector):
    driver.add(attributes={f"key{i}": i for i in range(200)})
    [span] = collector.await_spans(1)
    assert len(span.attributes) == 128 and span.dropped_attributes_count == 72


def test_an_error_has_a_status_and_a_type(driver, collector):
    driver.add(is_error=True, error_type="timeout", status_message="it took tòo long", attributes={"a": 1})
    [span] = collector.await_spans(1)
    assert (span.status.code, span.status.message) == (ERROR, "it took tòo long")
    assert values(span.attributes) == {"error.type": "timeout", "a": 1}


def test_spans_that_come_together_go_together(drive, collector):
    driver = drive(collector.url, hurry=LEISURE)
    for i in range(100):
        driver.add(f"span{i}")
    driver.free()
    [request] = collector.await_requests(1)
    assert [span.name for span in request.spans()] == [f"span{i}" for i in range(100)]
    assert len(collector.requests) == 1


def test_a_batch_has_at_most_512_spans_and_a_full_one_does_not_wait(drive, collector):
    driver = drive(collector.url, hurry=LEISURE)  # a batch that is not full waits for minutes
    driver.add(times=1200)
    driver.await_stats(exported=1024, queued=176)
    driver.add(times=336)
    driver.await_stats(exported=1536, queued=0)
    assert [len(request.spans()) for request in collector.requests] == [512, 512, 512]


def test_a_single_span_waits_a_second_for_others(drive, collector):
    driver = drive(collector.url, hurry=1)
    began = time.monotonic()
    driver.add()
    [request] = collector.await_requests(1)
    assert 0.95 < request.at - began


def test_the_connection_is_kept(driver, collector):
    for i in range(5):
        driver.add()
        collector.await_requests(i + 1)
    assert {request.connection for request in collector.requests} == {1}


def test_a_connection_that_was_closed_meanwhile_costs_nothing(driver, collector):
    driver.add()
    driver.await_stats(exported=1)
    collector.drop_connections()
    driver.add()
    driver.await_stats(exported=2, failed_requests=0, dropped=0)


@pytest.mark.parametrize("proxy", ["http_proxy", "all_proxy"])
def test_a_proxy_of_the_environment_is_not_used(drive, listen, collector, proxy):
    elsewhere = listen()
    drive(collector.url, env={proxy: elsewhere.url}).add()
    collector.await_spans(1)
    assert elsewhere.n_connections == 0


def test_without_an_endpoint_there_is_no_exporter_and_adding_is_fine(drive):
    driver = drive("")
    assert not driver.is_on
    driver.add(times=10)
    assert driver.stats()["queued"] == 0
    assert driver.free() == 0
