# SPDX-License-Identifier: Apache-2.0
"""viald is killed in 200 random places: whoever had an answer finds its record, nothing is told twice, and the chain is whole every time."""

import http.client
import json
import os
import random
import subprocess
import threading
import time

import pytest
from record import found, prove
from tools import wait_until
from vial import Daemon, slow

WORKERS = 4


class Caller(threading.Thread):
    """Makes, changes, rotates and deletes keys as fast as it is answered, until viald dies. Knows what it asked for and what it was answered."""

    def __init__(self, url, key, tag, random_source):
        super().__init__()
        self.address, self.key, self.tag, self.random = url.removeprefix("http://"), key, tag, random_source
        self.answered, self.open = [], None

    def ask(self, connection, method, path, body=None):
        self.open = (method, path)
        connection.request(method, path, json.dumps(body) if body is not None else None, {"Authorization": f"Bearer {self.key}"})
        response = connection.getresponse()
        answer = json.loads(response.read() or b"{}")
        self.answered.append((response.headers["X-Request-Id"], method, response.status))
        self.open = None
        return answer

    def run(self):
        connection = http.client.HTTPConnection(self.address, timeout=30)
        try:
            for number in range(10_000):
                key = self.ask(connection, "POST", "/v1/keys", {"name": f"{self.tag}-{number}", "role": "viewer"})
                if self.random.random() < 0.5:
                    self.ask(connection, "PATCH", f"/v1/keys/{key['id']}", {"name": "x" * self.random.randrange(1, 60)})
                self.ask(connection, "DELETE", f"/v1/keys/{key['id']}")
        except (OSError, http.client.HTTPException, json.JSONDecodeError):
            pass  # it was killed
        finally:
            connection.close()


@pytest.mark.parametrize("setting,kills", [("false", 150), ("true", 50)], ids=["as it is", "with audit_sync"])
def test_no_answer_is_without_its_record_wherever_viald_is_killed(bare, setting, kills):
    seed = int(os.environ.get("VIAL_TEST_SEED", time.time_ns() % 1_000_000))
    chance = random.Random(seed)
    print(f"VIAL_TEST_SEED={seed}")
    daemon = bare("--audit-sync", setting, "--audit-head-records", 50)
    key, answered, cut = daemon.key, [], 0
    for kill in range(kills):
        callers = [Caller(daemon.url, key, f"{kill}-{number}", random.Random(chance.random())) for number in range(WORKERS)]
        for caller in callers:
            caller.start()
        wait_until(lambda: any(caller.answered for caller in callers), interval=0.001)
        time.sleep(chance.random() * 0.03)
        daemon.kill()
        for caller in callers:
            caller.join()
            answered += caller.answered
            cut += caller.open is not None
        # Now and then the next one is killed in the midst of taking over what this one left.
        if chance.random() < 0.2:
            interrupt_start(daemon, chance.random() * 0.15)
        daemon.start()

    records = found(daemon.client(), limit=1000)
    told = {}
    for record in records:
        if "request_id" in record:
            told.setdefault(record["request_id"], []).append(record)
    for request_id, method, status in answered:
        record, = told.get(request_id) or [None]
        assert record and record["outcome"] == ("done" if status < 300 else "failed"), f"seed {seed}: {method} {status}: {record}"
    twice = [request_id for request_id, all_of_it in told.items() if len(all_of_it) > 1]
    assert not twice, f"seed {seed}: {twice}"
    interrupted = [record for record in records if record["outcome"] == "interrupted"]
    assert len(interrupted) <= cut and len(told) <= len(answered) + cut
    assert [record["seq"] for record in records] == list(range(1, len(records) + 1)), f"seed {seed}"
    assert len(answered) > kills and prove(daemon.client()) == len(records)
    assert "tampered" not in daemon.log_text()


def interrupt_start(daemon, seconds):
    """Starts viald and kills it after so long, ready or not."""
    process = subprocess.Popen([daemon.programs / "viald", "--config", "/dev/null", "--data-dir", daemon.data, "--run-dir", daemon.folder / "run",
                                "--images-dir", daemon.folder / "images", "--listen", "127.0.0.1:0", "--pool-size", "0", *map(str, daemon.options)],
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=daemon.env)
    time.sleep(seconds)
    process.kill()
    process.wait()


def test_what_runs_when_viald_dies_is_told_as_interrupted_once(place):
    daemon = Daemon(place)
    try:
        client = daemon.client()
        sandbox = client.create()
        terminal = sandbox.websocket("/pty")
        running = client.open("POST", sandbox.path + "/exec/stream", {"cmd": "echo begun; sleep 100"}, headers={"traceparent": "00-" + "a" * 32 + "-" + "b" * 16 + "-01"})
        running.read(1)
        wait_until(lambda: [record for record in found(client, action="pty") if record["outcome"] == "begun"])
        daemon.kill()
        terminal.vanish()
        running.connection.close()
        interrupt_start(daemon, 0.1)
        daemon.start()
        client = daemon.client()
        interrupted = {record["action"]: record for record in found(client) if record["outcome"] == "interrupted"}
        assert set(interrupted) == {"pty", "exec"}
        assert interrupted["exec"]["body"]["cmd"] == "echo begun; sleep 100" and interrupted["exec"]["origin"]["trace_id"] == "a" * 32
        assert interrupted["exec"]["sandbox"] == sandbox.id and interrupted["exec"]["began"] <= interrupted["exec"]["time"]
        daemon.kill()
        daemon.start()
        assert len([record for record in found(daemon.client()) if record["outcome"] == "interrupted"]) == 2
        prove(daemon.client())
    finally:
        daemon.stop()


@pytest.mark.parametrize("point", ["audit.append crash 2", "audit.append crash 3", "audit.allocate crash", "audit.commit crash", "audit.commit crash 2", "audit.sync crash 2"])
def test_each_step_of_writing_may_be_the_last(bare, place, point):
    faults = place / "faults"
    daemon = bare("--audit-sync", "true", "--audit-head-records", 1, env={"VIAL_FAULTS": str(faults)})
    client = daemon.client()
    client.call("POST", "/v1/keys", {"name": "before", "role": "viewer"})
    faults.write_text(point + "\n")
    for number in range(40):
        try:
            client.call("POST", "/v1/keys", {"name": f"k{number}", "role": "viewer"})
        except (OSError, http.client.HTTPException):
            break
    answered = number
    if point.startswith("audit.allocate"):
        assert answered == 39  # there was room: no segment was made
        daemon.kill()
    assert daemon.process.wait(slow(20)) is not None
    faults.unlink()
    daemon.log.close()
    daemon.start()
    created = [record for record in found(daemon.client(), limit=1000) if record["action"] == "key.create"]
    assert [record["body"]["name"] for record in created if record["outcome"] == "done"][: answered + 1] == ["before"] + [f"k{n}" for n in range(answered)]
    assert len(created) <= answered + 2
    prove(daemon.client())
