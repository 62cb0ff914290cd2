# SPDX-License-Identifier: Apache-2.0
"""A collector that is not there, says no, says later, says nothing, or talks nonsense. Times are a tenth of the usual ones (driver.HURRY): a batch waits
0.1 s for its spans, attempts are 0.1 to 3 s apart. A request may take minutes, for a machine that stalls; where the collector hangs, less."""

import time

import pytest

from collector import answer, close, hang, saying
from waiting import slow

HANG_MS = 1000  # for one that hangs, whatever happens


def pauses(requests):
    return [after.at - before.at for before, after in zip(requests, requests[1:])]


def lasted(pause, least, most):
    """Whether it was so long, as told by a collector that notes a request before it answers: so never shorter, but a busy machine may let it look late."""
    return least <= pause < most + slow(10)


def test_a_collector_that_comes_later_gets_what_waited_for_it(drive, nobody, listen):
    driver = drive(nobody.url)
    driver.add("early", times=600)
    stats = driver.await_failures(2)
    assert stats["queued"] == 600 and stats["dropped"] == 0
    collector = listen(nobody)
    assert len(collector.await_spans(600)) == 600
    driver.await_stats(exported=600, dropped=0, queued=0)
    assert len({span.span_id for span in collector.spans()}) == 600


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_later_means_the_same_request_once_more(driver, collector, status):
    collector.then(answer(status))
    driver.add("patient")
    first, second = collector.await_requests(2)
    assert first.body == second.body
    driver.await_stats(exported=1, failed_requests=1, dropped=0, queued=0)


def test_retry_after_is_honoured(driver, collector):
    collector.then(answer(503, Retry_After="2"))
    driver.add()
    [pause] = pauses(collector.await_requests(2))
    assert lasted(pause, 2, 2)


def test_retry_after_as_a_date_is_honoured(driver, collector):
    collector.then(answer(503, Retry_After=time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + 3))))
    driver.add()
    [pause] = pauses(collector.await_requests(2))
    assert lasted(pause, 2, 3)  # the date has whole seconds


def test_retry_after_is_honoured_up_to_a_limit(driver, collector):
    collector.then(answer(429, Retry_After="86400"))
    driver.add()
    [pause] = pauses(collector.await_requests(2))
    assert lasted(pause, 3, 3)


def test_a_retry_after_counts_for_one_answer(driver, collector):
    collector.then(answer(503, Retry_After="3"), *[answer(503)] * 3)
    driver.add()
    first, *others = pauses(collector.await_requests(5))
    assert lasted(first, 3, 3) and min(others) < 3  # 0.2, 0.4 and 0.8, if the machine does not stall


@pytest.mark.parametrize("value", ["soon", "-5", "99999999999999999999", ""])
def test_a_retry_after_that_is_nonsense_is_bounded_all_the_same(driver, collector, value):
    collector.then(answer(503, Retry_After=value))
    driver.add()
    [pause] = pauses(collector.await_requests(2))
    assert lasted(pause, 0.1, 3)


def test_attempts_come_further_and_further_apart_up_to_a_limit(driver, collector):
    collector.always(answer(503))
    driver.add()
    first = pauses(collector.await_requests(7, seconds=20))
    for number, (least, most) in enumerate([(0.1, 0.125), (0.2, 0.25), (0.4, 0.5), (0.8, 1.0), (1.6, 2.0), (3.0, 3.0)]):
        assert lasted(first[number], least, most), f"pause {number} of {first}"
    assert sorted(first[:5])[2] < 3, first  # most of them; some may be longer where the machine stalls


@pytest.mark.parametrize("status", [400, 401, 404, 413, 500, 501])
def test_no_means_that_the_batch_is_dropped_and_the_next_is_sent(driver, collector, status):
    collector.then(answer(status))
    driver.add("refused", times=3)
    driver.await_stats(dropped=3, failed_requests=1, queued=0, exported=0)
    driver.add("welcome")
    driver.await_stats(dropped=3, exported=1)
    assert [span.name for span in collector.spans()] == ["refused"] * 3 + ["welcome"]
    [line] = driver.complaints()
    assert f"answered {status}" in line and 'dropped="3"' in line


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_redirects_are_not_followed(driver, collector, listen, status):
    elsewhere = listen()
    collector.then(answer(status, Location=elsewhere.url + "/v1/traces"))
    driver.add()
    driver.await_stats(dropped=1, failed_requests=1)
    time.sleep(0.3)
    assert elsewhere.n_connections == 0 and len(collector.requests) == 1
    assert "otlp_endpoint has to name" in driver.await_complaint()


def test_trouble_is_told_once_a_minute_at_most(drive, collector):
    driver = drive(collector.url, "--otlp-headers", "x-token=hunter2", hurry=20)  # a minute is three seconds
    collector.always(answer(400))
    began, batches = time.monotonic(), 0
    while time.monotonic() < began + 4 or batches <= 5:
        driver.add()
        batches += 1
        driver.await_stats(dropped=batches)
    assert 1 <= len(driver.complaints()) <= 2 + (time.monotonic() - began) // 3
    assert "hunter2" not in driver.log.read_text()


def test_spans_that_were_dropped_are_told_of(drive, collector):
    driver = drive(collector.url, hurry=1)
    collector.always(answer(200, {"partialSuccess": {"rejectedSpans": "2"}}))
    driver.add(times=2)
    driver.await_stats(dropped=2)
    driver.add(times=3)
    driver.free()
    rejected, last = driver.complaints()
    assert "rejected" in rejected and 'dropped="2"' in rejected
    assert 'dropped="2"' in last and "stopped" in last


def test_that_it_works_again_is_told(driver, collector):
    collector.then(answer(503))
    driver.add()
    driver.await_stats(exported=1)
    driver.add()
    driver.await_stats(exported=2)
    assert driver.log.read_text().count("reach the collector again") == 1


@pytest.mark.parametrize("behaviour", [hang, saying(b"HTTP/1.1 ", b"2", then=hang)], ids=["at-once", "within-the-headers"])
def test_a_collector_that_hangs_is_given_up_and_asked_again(drive, collector, behaviour):
    collector.always(behaviour)
    driver, began = drive(collector.url, request_ms=HANG_MS), time.monotonic()
    driver.add()
    driver.await_failures(1)
    first, second = collector.await_requests(2)
    assert second.at - began > HANG_MS / 1000 and first.body == second.body
    collector.always(answer())
    driver.await_stats(exported=1, dropped=0, queued=0)


def test_a_collector_that_accepts_but_never_reads_is_given_up(drive, listen):
    collector = listen()
    collector.serve = lambda connection, number: collector.is_over.wait()
    driver = drive(collector.url, request_ms=HANG_MS)
    driver.add(times=512, attributes={"large": "x" * 4096})  # more than sockets take by themselves
    assert driver.await_failures(1)["queued"] == 512


@pytest.mark.parametrize("behaviour", [close, saying(b""), saying(b"HTTP/1.1"), saying(b"\x00\xff\x16\x03\x01" * 1000),
                                       saying(b"SSH-2.0-OpenSSH_9.2\r\n"), saying(b"HTTP/1.1 abc\r\n\r\n"), saying(b"HTTP/1.1 100 Continue\r\n\r\n"),
                                       saying(b"x" * 5_000_000), saying(b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\nX" + b"y" * 500_000)],
                         ids=["closes", "says-nothing", "half-a-word", "bytes", "ssh", "no-status", "only-100", "five-megabytes", "endless-header"])
def test_an_answer_that_is_none_means_once_more(driver, collector, behaviour):
    collector.then(behaviour)
    driver.add()
    stats = driver.await_stats(queued=0, dropped=0, exported=1)
    assert stats["failed_requests"] <= 1


@pytest.mark.parametrize("body", [b"", b"{", b"\xff\xfe", b"[1, 2]", b"null", b'{"partialSuccess": 3}', b'{"partialSuccess": {"rejectedSpans": {}}}',
                                  b'{"partialSuccess": {"rejectedSpans": "-3"}}', b'{"partialSuccess": {"rejectedSpans": -3}}',
                                  b'{"partialSuccess": {"rejectedSpans": "many"}}', b'{"partialSuccess": {}}', b"[" * 60_000])
def test_a_200_counts_whatever_its_body_says(driver, collector, body):
    collector.then(answer(200, body))
    driver.add(times=2)
    driver.await_stats(exported=2, dropped=0, failed_requests=0)


@pytest.mark.parametrize("rest", [saying(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"), saying(b"HTTP/1.1 200 OK\r\n\r\n", then=hang),
                                  saying(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"),
                                  saying(b"HTTP/1.1 200 OK\r\n\r\n" + b" " * 100_000, then=hang),
                                  saying(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nnope")],
                         ids=["cut-off", "hangs", "bad-chunks", "too-long", "not-gzip"])
def test_a_200_counts_though_its_body_never_comes_right(drive, collector, rest):
    driver = drive(collector.url, request_ms=15_000)  # what is hung for, and yet more than the word before it takes
    collector.then(rest)
    driver.add()
    driver.await_stats(exported=1, failed_requests=0)
    driver.add()
    driver.await_stats(exported=2)
    assert len(collector.requests) == 2


@pytest.mark.parametrize("rejected, dropped", [("3", 3), (3, 3), (0, 0), ("0", 0), (99, 5), ("9223372036854775807", 5)])
def test_spans_that_the_collector_rejects_are_dropped(driver, collector, rejected, dropped):
    collector.then(answer(200, {"partialSuccess": {"rejectedSpans": rejected, "errorMessage": "no"}}))
    driver.add(times=5)
    driver.await_stats(exported=5 - dropped, dropped=dropped, failed_requests=0, queued=0)
    time.sleep(0.3)
    assert len(collector.requests) == 1  # and never sent again


def test_a_batch_that_the_collector_will_not_take_does_not_stop_the_others(drive, collector):
    driver = drive(collector.url, hurry=100)
    collector.then(*[close] * 8, *[answer(503)] * 8)
    driver.add("poison")
    collector.await_requests(1)
    driver.add("fine")
    driver.await_stats(seconds=30, exported=1, dropped=1, failed_requests=16, queued=0)
    assert [span.name for span in collector.requests[-1].spans()] == ["fine"]


def test_a_collector_that_is_not_there_may_take_its_time(drive, nobody, listen):
    driver = drive(nobody.url, hurry=100)
    driver.add()
    assert driver.await_failures(20, seconds=30)["dropped"] == 0
    listen(nobody)
    driver.await_stats(exported=1)


def test_a_name_that_does_not_resolve_is_trouble_like_any_other(drive):
    driver = drive("http://collector.invalid:4318")
    driver.add()
    time.sleep(1)
    assert driver.free() < min(slow(10), 150)
