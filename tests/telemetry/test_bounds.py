# SPDX-License-Identifier: Apache-2.0
"""What may never grow, and what may never wait."""

import json
import os
import time
from pathlib import Path

import pytest

from collector import answer, hang
from driver import LEISURE
from waiting import slow, wait_until

IS_SANITIZED = "ASAN_OPTIONS" in os.environ  # where memory and time are not what they are otherwise


def test_100000_spans_at_once_leave_the_queue_full_and_the_rest_counted(drive, nobody):
    driver = drive(nobody.url)
    driver.add()  # what the first one costs besides
    before = driver.await_failures(1)["rss_kb"]
    seconds = driver.add(times=100_000, attributes={"vial.sandbox.id": "abcdefghijklmnopqrst", "vial.language": "python", "vial.exit_code": 0})
    stats = driver.stats()
    assert (stats["queued"], stats["dropped"]) == (4096, 100_001 - 4096)
    if not IS_SANITIZED:
        assert stats["rss_kb"] - before < 8 * 1024
        assert seconds < slow(5)  # 50 microseconds for each
    driver.add(times=100_000)
    assert driver.stats()["queued"] == 4096


@pytest.mark.parametrize("text", ["x", "\x01", "é"], ids=["plain", "escaped", "wide"])
def test_memory_is_bounded_also_where_spans_are_as_large_as_they_may_be(drive, collector, text):
    driver = drive(collector.url, request_ms=5000)
    driver.add()
    before = driver.await_stats(exported=1)["rss_kb"]
    collector.always(hang)
    large = {f"key{i}": text * 4096 for i in range(10)}
    for _ in range(20):
        driver.add(times=1000, attributes=large)
    collector.await_requests(2, seconds=20)
    stats = driver.stats()
    assert stats["queued"] + stats["dropped"] == 20_000
    assert stats["queued"] <= 1450  # of 12 KiB each, and a batch
    if not IS_SANITIZED:
        assert stats["rss_kb"] - before < (16 + 1 + 8 + 4) * 1024  # the queue, a batch, its text in a buffer that doubles, and slack


def test_a_burst_with_a_collector_loses_nothing_uncounted(drive, collector):
    driver = drive(collector.url)
    driver.add(times=100_000)
    driver.await_stats(seconds=30, queued=0)
    stats = driver.stats()
    assert stats["exported"] + stats["dropped"] == 100_000 and stats["exported"] >= 4096 and stats["failed_requests"] == 0
    ids = [span["spanId"] for request in collector.requests for span in json.loads(request.body)["resourceSpans"][0]["scopeSpans"][0]["spans"]]
    assert len(ids) == len(set(ids)) == stats["exported"]
    assert max(len(request.body) for request in collector.requests) < 20 * 1024 * 1024


def test_a_full_queue_forgets_its_oldest(drive, nobody, listen):
    driver = drive(nobody.url)
    driver.add("being sent", times=512)
    driver.await_failures(1)
    driver.add("old", times=4096)
    driver.add("new", times=1000)
    collector = listen(nobody)
    driver.await_stats(queued=0, exported=4096, dropped=1512)
    sent = [span.name for span in collector.requests[0].spans()]  # all 512 of them, unless the machine stalled while they were added
    assert set(sent) == {"being sent"}
    names = [span.name for span in collector.spans()]
    assert [names.count(name) for name in ("being sent", "old", "new")] == [len(sent), 4096 - len(sent) - 1000, 1000]


def test_adding_does_not_wait_for_a_collector_that_hangs(drive, collector):
    collector.always(hang)
    driver = drive(collector.url)
    driver.add()
    collector.await_requests(1)
    assert driver.add(times=10_000) < min(slow(10), 150)  # it hangs for longer: driver.PATIENCE_MS


def test_freeing_sends_what_waits(drive, collector):
    driver = drive(collector.url, hurry=1)
    driver.add(times=3000)
    driver.free()
    assert len(collector.await_spans(3000)) == 3000


def test_freeing_returns_within_two_seconds_though_the_collector_hangs(drive, collector):
    collector.always(hang)
    driver = drive(collector.url, hurry=1)
    driver.add(times=4000)
    collector.await_requests(1)
    assert 1 < driver.free() < min(slow(10), 150)  # for longer the request may take, and this is the two seconds that are given it
    assert 'dropped="4000"' in driver.complaints()[-1]


def test_freeing_returns_at_once_when_nobody_is_there(drive, nobody):
    driver = drive(nobody.url, hurry=LEISURE)
    driver.add(times=4000)
    driver.await_failures(1)
    assert driver.free() < min(slow(10), 150)  # the next attempt is minutes away


def test_freeing_does_not_wait_for_a_retry_after(drive, collector):
    collector.then(answer(503, Retry_After="3000"))
    driver = drive(collector.url, hurry=LEISURE)
    driver.add(times=512)
    driver.await_stats(failed_requests=1)
    assert driver.free() < min(slow(10), 150)
    assert len(collector.requests) == 2 and collector.requests[1].spans()


def test_freeing_with_nothing_to_send_is_quick(drive, collector):
    assert drive(collector.url, hurry=LEISURE).free() < min(slow(10), 150)


def test_nothing_happens_while_there_is_nothing_to_do(driver, collector):
    def switches():
        texts = [path.read_text() for path in Path(f"/proc/{driver.process.pid}/task").glob("*/status")]
        return sum(int(line.split()[1]) for text in texts for line in text.splitlines() if "ctxt_switches" in line)

    driver.add()
    driver.await_stats(exported=1)

    def is_quiet():
        """For two seconds. Not at once: the thread has still to go and wait."""
        before = switches()
        time.sleep(2)
        return switches() == before

    wait_until(is_quiet, 10, lambda: "it is never quiet")
