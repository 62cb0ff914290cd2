# SPDX-License-Identifier: Apache-2.0
"""The ways a build can go, in a viald that sees its own mistakes: memory used after it was given back, memory never given back, undefined behaviour."""

import pytest

from builds import Copier, archive
from sanitized import Sanitized
from tools import out, wait_until
from vial import Daemon


@pytest.fixture(scope="module")
def programs(folder):
    return Sanitized(folder)


def test_no_way_of_a_build_uses_memory_wrongly_or_loses_it(programs, folder):
    daemon = Daemon(folder, "--max-builds", 4, programs=programs.path, env=programs.env)
    builder = Copier(daemon.client())
    client = builder.client
    builder.build("good:one", dockerfile="ARG A=b\nENV C=$A\nWORKDIR /srv\nRUN echo $A > f\n", secrets={"TOKEN": "some-secret"}, warm="x = 1")
    builder.build("good:two", steps=[{"env": {"C": "d"}}])
    builder.refuse("refused", dockerfile="FROM x")
    builder.fail("bad", steps=[{"run": "echo here; exit 3"}])
    builder.fail("late", steps=[{"run": "sleep 1000"}], timeout_seconds=1)
    builder.fail("cold", steps=[{"env": {"A": "b"}}], warm="1 / 0")
    builder.build("starting", steps=[], start_command="echo a; exec sleep 1000", ready_command="[ -e /tmp/asked ] || { touch /tmp/asked; false; }")
    builder.fail("start-bad", steps=[], start_command="echo a; exit 3", ready_command="false")
    builder.fail("start-late", steps=[], start_command="sleep 1000", ready_command="false", timeout_seconds=1)
    cancelled = builder.begin("cancelled", steps=[{"run": "yes"}])["build_id"]
    builder.wait_step(cancelled, 1)
    reader = client.open("GET", f"/v1/templates/builds/{cancelled}/logs?follow=1")
    reader.read(100)
    reader.connection.close()
    client.call("POST", f"/v1/templates/builds/{cancelled}/cancel")
    builder.wait(cancelled)
    assert builder.send("files", archive(file="x" * 3000000)).status == builder.send("files", archive(file="x" * 3000000)).status == 200
    assert builder.copy("copied", ("COPY", "files", "file", "/srv/"))["status"] == "ready" and builder.copy("copied", ("COPY", "files", "none", "/srv/"))["status"] == "failed"
    given_up = builder.begin_copy("given-up", ("COPY", "files", "file", "/srv/again"), ("RUN", "sleep 1000"))
    builder.wait_step(given_up, 1)
    client.call("POST", f"/v1/templates/builds/{given_up}/cancel")
    builder.wait(given_up)
    sandbox = client.create("good:one")
    assert out(sandbox, "cat f") == "b\n"
    sandbox.call("POST", "/template", {"name": "made"})
    client.create("made").delete()
    builder.build("upon:one", base="made", steps=[{"run": "true"}], warm="y = 2")
    builder.build("upon:two", base="made", steps=[{"run": "true"}], warm="y = 2")
    builder.fail("upon-bad", base="made", steps=[{"run": "false"}])
    builder.fail("upon-late", base="made", steps=[], warm="import time; time.sleep(1000)", timeout_seconds=1)
    client.create("upon").delete()
    builder.build("upon-start", base="made", steps=[], start_command="sleep 1000", ready_command="true")
    builder.fail("upon-start-late", base="made", steps=[], start_command="yes", ready_command="false", timeout_seconds=1)
    rebuilt = client.call("POST", "/v1/templates/good:one/rebuild", {"secrets": {"TOKEN": "some-secret"}})["build_id"]
    builder.wait(rebuilt)
    for name in ("upon", "good:two"):
        builder.delete(name)
    under_way = builder.begin("under-way", steps=[{"run": "sleep 1000"}])["build_id"]
    never_ready = [builder.begin("never-ready", base=base, steps=[], start_command="sleep 1000", ready_command="false")["build_id"] for base in ("minimal", "made")]
    builder.begin("waiting", base="good:one", steps=[{"run": "true"}])
    for build in never_ready:
        wait_until(lambda build=build: any("waiting until" in entry["text"] for entry in builder.log(build)), 60)
    builder.wait_step(under_way, 1)
    daemon.stop()
    daemon.start()
    builder = Copier(daemon.client())
    assert "restarted during step 1 of 1" in builder.wait(under_way)["error"]
    builder.delete("made")
    builder.delete("good")
    daemon.stop()
    programs.check()
