# SPDX-License-Identifier: Apache-2.0
"""The end of a project: everything in it ends, whatever it is just doing, and nothing else does."""

import threading
import time
from pathlib import Path

from tools import cgroups, check_refusal, command_lines, database, host_id, records, wait_until
from vial import Client, slow
from world import OpenSocket, Project, Stream, all_end, at_once

SANDBOXES, FORKED = 20, 5


def fill(project, n):
    return at_once(n, lambda number: project.client.create())


def test_a_project_is_deleted_while_twenty_sandboxes_run_and_five_are_forked(start_daemon):
    daemon = start_daemon("--max-sandboxes", 200)
    client = daemon.client()
    other = Project(client, "other")
    bystander = other.client.create()
    watched = Stream(other.client, "POST", f"{bystander.path}/exec/stream", {"cmd": "echo here; sleep 1000"}).wait_for(b"here")
    project = Project(client, "doomed")
    sandboxes = fill(project, SANDBOXES)
    sandboxes[-1].call("POST", "/hibernate")
    snapshot = sandboxes[0].call("POST", "/snapshots", {"name": "kept"})
    keys = [project.make_key(role) for role in ("viewer", "runner", "developer", "admin")]
    streams = [Stream(Client(daemon.url, keys[1]["key"]), "POST", f"{sandbox.path}/exec/stream", {"cmd": "echo here; sleep 1000"}) for sandbox in sandboxes[:5]]
    streams.append(OpenSocket(sandboxes[6].websocket("/pty")))
    forks = []

    def fork(sandbox):
        try:
            forks.append(sandbox.ask("POST", "/fork-tree", {"count": 2}).status)
        except Exception:  # its key ended, and the connection with it
            forks.append(None)

    threads = [threading.Thread(target=fork, args=(sandbox,)) for sandbox in sandboxes[10:10 + FORKED]]
    taking = threading.Thread(target=lambda: fork(sandboxes[16]))
    for thread in [*threads, taking]:
        thread.start()
    time.sleep(0.15)  # in the middle of it
    begun = time.monotonic()
    answers = at_once(2, lambda number: client.ask("DELETE", "/v1/projects/doomed"))
    for thread in [*threads, taking]:
        thread.join()
    assert sorted(answer.status for answer in answers) == [204, 404], [answer.body for answer in answers]
    assert len(forks) == FORKED + 1
    all_end(streams, begun, slow(20))
    for key in keys:
        check_refusal(Client(daemon.url, key["key"]).ask("GET", "/v1/me"), 401)
        check_refusal(client.ask("GET", f"/v1/keys/{key['id']}"), 404)
    for path in ("", "/quotas", "/usage"):
        check_refusal(client.ask("GET", f"/v1/projects/doomed{path}"), 404)
    check_refusal(client.ask("POST", "/v1/keys", {"role": "viewer", "project": "doomed"}), 404)
    # Nothing of it is left, in the daemon, on the disk or among the processes; the other project is as it was.
    assert {one["name"] for one in client.call("GET", "/v1/projects")} == {"default", "other"}
    assert 'project="doomed"' not in client.ask("GET", "/metrics").text
    wait_until(lambda: [path.name for path in (daemon.data / "snapshots").iterdir()] == [])
    wait_until(lambda: guests(daemon) == {host_id(daemon, bystander)})
    assert not any(host_processes_named(sandbox.id) for sandbox in sandboxes)
    assert bystander.exec("echo well")["stdout"] == "well\n" and not watched.ended_at
    assert snapshot["id"] not in str(client.call("GET", "/v1/snapshots"))
    # Its name is not given again, and what was done in it stays on record.
    assert "not given twice" in check_refusal(client.ask("POST", "/v1/projects", {"name": "doomed"}), 409)
    actions = {record["action"] for record in records(client, project="doomed")}
    assert {"sandbox.create", "exec", "snapshot.take"} <= actions
    assert [record["action"] for record in records(client, project="doomed") if record["action"] == "project.delete" and record["outcome"] == "done"] == ["project.delete"]
    watched.close()
    daemon.kill()
    daemon.start()
    assert {one["name"] for one in daemon.client().call("GET", "/v1/projects")} == {"default", "other"}
    check_refusal(daemon.client().ask("POST", "/v1/projects", {"name": "doomed"}), 409)


def guests(daemon):
    """The names on the host of all that there is a folder or a control group for."""
    return {Path(path).name for path in [*(daemon.data / "sandboxes").iterdir(), *cgroups(daemon)]}


def host_processes_named(name):
    return [pid for pid, words in command_lines() if any(name in word for word in words)]


def test_a_viald_that_is_killed_over_it_goes_on_when_it_is_started(start_daemon):
    daemon = start_daemon()
    project = Project(daemon.client(), "doomed")
    sandboxes = fill(project, 6)
    sandboxes[0].call("POST", "/hibernate")
    sandboxes[1].call("POST", "/snapshots", {})
    threading.Thread(target=lambda: swallow(lambda: daemon.client().ask("DELETE", "/v1/projects/doomed")), daemon=True).start()
    wait_until(lambda: ("doomed", "active") not in rows(daemon), interval=0.002)  # deleting; deleted already where the machine stalls just here
    daemon.kill()
    daemon.start()
    client = daemon.client()
    check_refusal(Client(daemon.url, project.client.key).ask("GET", "/v1/me"), 401)
    check_refusal(client.ask("GET", "/v1/projects/doomed"), 404)
    wait_until(lambda: leftovers_of(daemon) == [], 40)
    check_refusal(client.ask("POST", "/v1/projects", {"name": "doomed"}), 409)
    wait_until(lambda: [row for row in rows(daemon) if row == ("doomed", "deleted")])


def swallow(action):
    try:
        action()
    except Exception:  # viald is killed meanwhile
        pass


def rows(daemon):
    db = database(daemon)
    try:
        return db.execute("SELECT id, state FROM projects").fetchall()
    finally:
        db.close()


def leftovers_of(daemon):
    """Of sandboxes and snapshots, while viald lives."""
    folders = [path for name in ("sandboxes", "forks", "snapshots", "hibernated") if (daemon.data / name).exists() for path in (daemon.data / name).iterdir()]
    return folders + cgroups(daemon)


def test_a_project_without_anything_in_it_and_the_default_one(client):
    project = Project(client)
    assert client.ask("DELETE", project.path).status == 204
    check_refusal(client.ask("DELETE", project.path), 404)
    assert "default" in check_refusal(client.ask("DELETE", "/v1/projects/default"), 409)
    check_refusal(client.ask("DELETE", "/v1/projects/none"), 404)


def test_creations_that_race_with_the_end_leave_nothing(start_daemon):
    daemon = start_daemon()
    client = daemon.client()
    project = Project(client, "doomed")
    parent = project.client.create()
    other = Project(client, "other")
    survivor = other.client.create()

    def race(number):
        if number == 0:
            time.sleep(0.05)
            return client.ask("DELETE", "/v1/projects/doomed")
        try:
            if number % 4 == 1:
                return parent.ask("POST", "/snapshots", {})
            if number % 4 == 2:
                return parent.ask("POST", "/fork", {})
            if number % 4 == 3:
                return client.ask("POST", "/v1/keys", {"role": "viewer", "project": "doomed"})
            return project.client.ask("POST", "/v1/sandboxes", {"template": "minimal"})
        except Exception:  # cut with its key
            return None

    answers = at_once(13, race)
    assert answers[0].status == 204
    wait_until(lambda: guests(daemon) == {host_id(daemon, survivor)})
    assert not (daemon.data / "snapshots").exists() or wait_until(lambda: list((daemon.data / "snapshots").iterdir()) == [])
    assert {key["project"] for key in client.call("GET", "/v1/keys?project=*")} == {"default", "other"}
    for answer in answers[1:]:
        if answer and answer.status == 201 and "key" in answer.json():
            check_refusal(Client(daemon.url, answer.json()["key"]).ask("GET", "/v1/me"), 401)
