# SPDX-License-Identifier: Apache-2.0
"""What takes long by nature, through every surface: ten minutes with silent stretches, a hundred megabytes. `VIAL_SKIP_LAB=1`, as CI has it, leaves these out."""

import concurrent.futures
import hashlib
import os
import random

import pytest

import surfaces
from vial import Client, slow

pytestmark = pytest.mark.skipif(os.environ.get("VIAL_SKIP_LAB") == "1", reason="VIAL_SKIP_LAB=1 leaves out what takes minutes by nature")
STREAMS = [stream for stream in surfaces.STREAMS if stream.is_served()]
FILES = [files for files in surfaces.FILES if files.surface in surfaces.served()]
SIZE = 100 * 1000 * 1000
# Longer than clients wait for a byte: 30 s, 60 s, minutes.
SILENCES = (10, 45, 70, 130, 300, 50)


def test_ten_minutes_with_silent_stretches_come_through_every_stream(client):
    """All at a time, each in a sandbox of its own. No read waits for long: each surface breaks a silence before its clients lose their patience."""
    patient = Client(client.url, client.key, timeout=60)
    line = "; ".join(f"sleep {silence}; echo after {silence}" for silence in SILENCES)
    assert sum(SILENCES) > 600

    def run(stream):
        response = stream.open(patient, client.create(ttl_seconds=3600).id, line)
        return stream, response.status, response.read()

    with concurrent.futures.ThreadPoolExecutor(len(STREAMS)) as pool:
        for stream, status, body in pool.map(run, STREAMS):
            assert status == 200 and stream.ended_well(body), (stream.name, body[-300:])
            assert stream.text(body, "stdout").split("\n")[:len(SILENCES)] == [f"after {silence}" for silence in SILENCES], stream.name


@pytest.mark.parametrize("files", FILES, ids=lambda files: files.surface)
def test_a_hundred_megabytes_go_up_and_down(daemon, client, files):
    sandbox = client.create(disk_mb=1024)
    content = random.Random(files.surface).randbytes(SIZE)
    before = daemon.rss_kb()
    files.write(client, sandbox.id, "/tmp/large ü", content)
    assert sandbox.exec("sha256sum < '/tmp/large ü'", timeout_seconds=slow(60))["stdout"].split()[0] == hashlib.sha256(content).hexdigest()
    assert files.read(client, sandbox.id, "/tmp/large ü") == content
    assert daemon.rss_kb() - before < 32 << 10, "it was kept in memory on its way"
    sandbox.delete()


@pytest.mark.parametrize("stream", STREAMS, ids=lambda stream: stream.name.replace(" ", "-"))
def test_a_hundred_megabytes_of_output_come_through_a_stream(daemon, client, stream):
    """Where a dialect sends all of it. Code in a kernel may print VIAL_OUTPUT_MAX_BYTES, and then is told that the rest was left out."""
    if stream.name in ("native run", "podflare exec", "e2b execute"):
        pytest.skip("a cell's output has a limit of its own")
    sandbox = client.create()
    before = daemon.rss_kb()
    response = stream.open(client, sandbox.id, f"yes 0123456789abcde | head -c {SIZE}")
    text = stream.text(response.read(), "stdout")
    assert len(text) == SIZE and text == "0123456789abcde\n" * (SIZE // 16)
    assert daemon.rss_kb() - before < 32 << 10, "it was kept in memory on its way"
    response.connection.close()
    sandbox.delete()
