# SPDX-License-Identifier: Apache-2.0
"""Keys from their making to their end: shown once, kept as a hash, narrowed, rotated, revoked, and what they have open ends with them."""

import hashlib
import json
import re
import socket
import sqlite3
import time

import pytest

from rawhttp import Connection, request_bytes
from tools import UNKNOWN_ID, check_refusal, database, files_with, wait_until
from vial import Client, slow
from world import CUT_SECONDS, ROLES, OpenSocket, Project, Stream, all_end, with_client

SOON = 20  # seconds in which what comes before the end of a key is done, on a machine that stalls too
PREFIXES = {"vial": "vial_", "e2b": "e2b_", "pds": "pds_", "pf": "pf_", "sk": "sk-"}
ECHO = """import socket, sys, threading
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
def serve(connection):
    connection.recv(65536)
    connection.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Type: text/plain\\r\\n\\r\\nhere")
    connection.recv(1)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"""


def at(seconds):
    """A time so far from now, as the API has it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + seconds))


def works(client):
    return client.ask("GET", "/v1/me").status == 200


@pytest.fixture(scope="module")
def home(client):
    """A project with a sandbox that many look at."""
    project = Project(client)
    project.sandbox = project.client.create()
    project.sandbox.serve(8000, ECHO)
    return project


def open_everything(client, sandbox):
    """One of each that goes on: events of a command, a terminal, a tunnel, a log that is followed, a file that is watched."""
    socket_of = type(sandbox)(client, sandbox.info).websocket
    return [
        Stream(client, "POST", f"{sandbox.path}/exec/stream", {"cmd": "echo here; sleep 1000"}).wait_for(b"here"),
        Stream(client, "POST", f"{sandbox.path}/run/stream", {"code": "sleep 1000", "language": "bash"}),
        OpenSocket(socket_of("/pty")),
        Stream(client, "GET", f"{sandbox.path}/ports/8000/").wait_for(b"here"),
        Stream(client, "GET", f"{sandbox.path}/logs?follow=true"),
        Stream(client, "GET", f"{sandbox.path}/fs/watch?path=/workspace"),
    ]


def close(streams):
    for stream in streams:
        stream.close()


# Making

@pytest.mark.parametrize("form", PREFIXES)
def test_a_key_comes_in_the_forms_that_sdks_insist_on(home, form):
    made = home.make_key("runner", form=form)
    assert re.fullmatch(PREFIXES[form] + "[0-9a-f]{40}", made["key"])
    assert made["form"] == form and made["hint"] == made["key"][: len(PREFIXES[form]) + 4]
    client = with_client(home.operator, made["key"])
    me = client.call("GET", "/v1/me")
    assert (me["key_id"], me["project"], me["role"]) == (made["id"], home.name, "runner")
    assert client.ask("GET", "/v1/me", key=False, headers={"X-API-Key": made["key"]}).status == 200


def test_a_secret_is_shown_once_and_kept_as_a_hash(daemon, client, home):
    made = home.make_key("runner", name="secretive")
    rotated = client.call("POST", f"/v1/keys/{made['id']}/rotate", {"overlap_seconds": 100})
    assert works(with_client(client, made["key"])) and works(with_client(client, rotated["key"]))
    for answer in (client.call("GET", f"/v1/keys/{made['id']}"), client.call("GET", f"/v1/keys?project={home.name}"), client.call("PATCH", f"/v1/keys/{made['id']}", {"name": "x"})):
        assert "key" not in answer and made["key"] not in str(answer) and rotated["key"] not in str(answer)
    row = database(daemon).execute("SELECT hash FROM keys WHERE id = ?", (made["id"],)).fetchone()
    assert row[0] == hashlib.sha256(rotated["key"].encode()).hexdigest()
    wait_until(lambda: client.call("GET", "/v1/audit?action=key.rotate")["items"])
    for secret in (made["key"], rotated["key"], made["key"][8:], rotated["key"][8:]):
        holders = files_with(daemon.data, secret)
        assert holders == [], secret
        assert secret not in daemon.log_text()


def test_the_key_of_the_file_is_the_operator_s_and_the_file_s_alone(daemon, client):
    me = client.call("GET", "/v1/me")
    assert me["role"] == "operator" and me["project"] == "default"
    own = f"/v1/keys/{me['key_id']}"
    assert client.call("GET", own)["is_file"] is True
    for method, path, body in (("PATCH", own, {"role": "viewer"}), ("PATCH", own, {"expires_at": at(10)}), ("DELETE", own, None), ("POST", own + "/rotate", {})):
        assert "keys/admin.key" in check_refusal(client.ask(method, path, body), 409)
    assert works(client)
    assert (daemon.data / "keys/admin.key").stat().st_mode & 0o777 == 0o600


def test_last_use_is_told(client, home):
    made = home.make_key("viewer")
    assert "last_used_at" not in client.call("GET", f"/v1/keys/{made['id']}")
    works(with_client(client, made["key"]))
    assert client.call("GET", f"/v1/keys/{made['id']}")["last_used_at"][:16] in (at(0)[:16], at(-60)[:16])


@pytest.mark.parametrize("key", [b"vial_\0" + b"0" * 39, b"\0", b"vial_" + b"0" * 40 + b"\0", b"\xff\xfe", b"vial_\x01", "vial_ä".encode(), b"vial_" + b"0" * 10000, b"", b" ", b"vial_\t"],
                         ids=repr)
def test_a_key_with_bytes_that_no_key_has_is_refused(daemon, client, key):
    real = client.key.encode()
    for header in (b"Authorization: Bearer ", b"X-API-Key: "):
        for value in (key, real + key, real[:10] + key + real[10:]):
            if value.strip() == real:
                continue  # spaces at the end are no part of a header's value
            with Connection(("127.0.0.1", daemon.port)) as connection:
                connection.send(b"GET /v1/me HTTP/1.1\r\nHost: 127.0.0.1\r\n" + header + value + b"\r\n\r\n")
                assert connection.answer().status in (400, 401, 431), value
    assert daemon.alive()


def test_the_real_key_followed_by_a_nul_is_not_the_real_key(daemon, client):
    with Connection(("127.0.0.1", daemon.port)) as connection:
        connection.send(request_bytes("GET", "/v1/me", key=client.key).replace(client.key.encode(), client.key.encode() + b"\0more"))
        assert connection.answer().status in (400, 401)


# Ends

def test_an_end_in_the_past_is_refused(client, home):
    for when in (at(-1), at(-100000), "1970-01-01T00:00:00Z"):
        assert "expires_at" in check_refusal(client.ask("POST", "/v1/keys", {"role": "viewer", "project": home.name, "expires_at": when}), 400)
        made = home.make_key("viewer")
        assert "expires_at" in check_refusal(client.ask("PATCH", f"/v1/keys/{made['id']}", {"expires_at": when}), 400)
        assert works(with_client(client, made["key"]))


def test_what_a_key_has_open_ends_when_it_expires(client, home):
    end = time.time() + SOON
    made = home.make_key("runner", expires_at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(end)))
    streams = open_everything(with_client(client, made["key"]), home.sandbox)
    assert not any(stream.ended_at for stream in streams)
    all_end(streams, time.monotonic() + int(end) - time.time())
    check_refusal(with_client(client, made["key"]).ask("GET", "/v1/me"), 401)
    close(streams)


def test_an_earlier_end_counts_for_what_is_open_already(client, home):
    made = home.make_key("runner")
    streams = open_everything(with_client(client, made["key"]), home.sandbox)
    end = int(time.time()) + SOON
    client.call("PATCH", f"/v1/keys/{made['id']}", {"expires_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(end))})
    all_end(streams, time.monotonic() + end - time.time())
    close(streams)


def test_revocation_cuts_everything_that_is_open_within_a_second_and_nothing_of_others(client, home):
    made, other = home.make_key("runner"), home.key("runner")
    streams, others = open_everything(with_client(client, made["key"]), home.sandbox), open_everything(other, home.sandbox)
    client.call("DELETE", f"/v1/keys/{made['id']}")
    all_end(streams, time.monotonic())
    assert not any(stream.ended_at for stream in others)
    check_refusal(with_client(client, made["key"]).ask("GET", "/v1/me"), 401)
    check_refusal(client.ask("GET", f"/v1/keys/{made['id']}"), 404)
    close(streams + others)


def test_a_key_that_was_renamed_is_revoked_like_any_other(client, home):
    """What was opened before the change belongs to the key as well."""
    made = home.make_key("runner")
    before = open_everything(with_client(client, made["key"]), home.sandbox)
    for name in ("b", "c", "d"):
        client.call("PATCH", f"/v1/keys/{made['id']}", {"name": name})
    after = open_everything(with_client(client, made["key"]), home.sandbox)
    client.call("PATCH", f"/v1/keys/{made['id']}", {"role": "admin"})
    assert not any(stream.ended_at for stream in before + after), "a change that takes nothing away cuts nothing"
    client.call("DELETE", f"/v1/keys/{made['id']}")
    all_end(before + after, time.monotonic())
    close(before + after)


def test_a_lower_role_is_effective_for_what_is_open(client, home):
    made = home.make_key("developer")
    streams = open_everything(with_client(client, made["key"]), home.sandbox)
    client.call("PATCH", f"/v1/keys/{made['id']}", {"role": "viewer"})
    all_end(streams, time.monotonic())
    lowered = with_client(client, made["key"])
    assert works(lowered)
    assert check_refusal(lowered.ask("POST", f"{home.sandbox.path}/exec", {"cmd": "true"}), 403)
    close(streams)


def test_narrowing_is_effective_for_what_is_open(client, home):
    made = home.make_key("runner")
    streams = open_everything(with_client(client, made["key"]), home.sandbox)
    client.call("PATCH", f"/v1/keys/{made['id']}", {"allow": {"templates": ["code-interpreter"]}})
    all_end(streams, time.monotonic())
    close(streams)


def test_a_preview_ends_with_the_key_that_made_it(client, home):
    made = home.make_key("developer")
    preview = with_client(client, made["key"]).call("POST", f"{home.sandbox.path}/previews", {"port": 8000})
    token, host = f"/?vial_token={preview['token']}", {"Host": f"8000-{home.sandbox.id}.localhost"}
    cookie = {**host, "Cookie": f"vial_preview={preview['token']}"}

    def status():
        response = client.open("GET", "/", headers=cookie, key=False)
        response.connection.close()
        return response.status

    assert client.ask("GET", token, headers=host, key=False).status in (302, 303, 307) and status() == 200
    client.call("PATCH", f"/v1/keys/{made['id']}", {"role": "viewer"})
    assert status() == 403, "its key may not do this itself any more"
    client.call("PATCH", f"/v1/keys/{made['id']}", {"role": "runner"})
    response = client.open("GET", "/", headers=cookie, key=False)
    assert response.status == 200
    client.call("DELETE", f"/v1/keys/{made['id']}")
    ended = time.monotonic()
    with pytest.raises(Exception):  # what was open through it is cut, in the middle of a body
        while response.read1():
            pass
        raise EOFError
    assert time.monotonic() - ended < CUT_SECONDS
    assert status() == 401 and client.ask("GET", token, headers=host, key=False).status == 401


def test_the_keys_that_a_revoked_admin_made_stay(client, home):
    """They belong to the project, and say who made them."""
    admin = home.make_key("admin")
    child = with_client(client, admin["key"]).call("POST", "/v1/keys", {"role": "runner", "name": "child"})
    assert child["created_by"] == admin["id"]
    client.call("DELETE", f"/v1/keys/{admin['id']}")
    assert works(with_client(client, child["key"]))
    assert client.call("GET", f"/v1/keys/{child['id']}")["created_by"] == admin["id"]


# Rotation

def test_rotation_has_an_overlap_and_then_only_the_new_secret_works(client, home):
    made = home.make_key("runner")
    old = with_client(client, made["key"])
    streams = open_everything(old, home.sandbox)
    rotated = client.call("POST", f"/v1/keys/{made['id']}/rotate", {"overlap_seconds": SOON})
    until = time.monotonic() + SOON
    new = with_client(client, rotated["key"])
    assert rotated["id"] == made["id"] and rotated["key"] != made["key"] and rotated["previous_works_until"]
    assert works(old) and works(new) and not any(stream.ended_at for stream in streams)
    fresh = open_everything(new, home.sandbox)
    all_end(streams, until)
    assert not works(old) and works(new) and not any(stream.ended_at for stream in fresh)
    assert "previous_works_until" not in client.call("GET", f"/v1/keys/{made['id']}")
    close(streams + fresh)


def test_rotation_without_an_overlap_ends_the_old_secret_and_what_it_has_open(client, home):
    made = home.make_key("runner")
    streams = open_everything(with_client(client, made["key"]), home.sandbox)
    rotated = client.call("POST", f"/v1/keys/{made['id']}/rotate", {"overlap_seconds": 0})
    all_end(streams, time.monotonic())
    assert not works(with_client(client, made["key"])) and works(with_client(client, rotated["key"]))
    close(streams)


def test_a_second_rotation_ends_the_first_secret(client, home):
    secrets = [home.make_key("runner")]
    for _ in range(2):
        secrets.append(client.call("POST", f"/v1/keys/{secrets[0]['id']}/rotate", {"overlap_seconds": 100}))
    assert [works(with_client(client, made["key"])) for made in secrets] == [False, True, True]
    client.call("PATCH", f"/v1/keys/{secrets[0]['id']}", {"role": "viewer"})
    assert {with_client(client, made["key"]).call("GET", "/v1/me")["role"] for made in secrets[1:]} == {"viewer"}
    client.call("DELETE", f"/v1/keys/{secrets[0]['id']}")
    assert not any(works(with_client(client, made["key"])) for made in secrets)


def test_a_key_does_not_lose_itself_by_rotating(client, home):
    made = home.make_key("admin")
    own = with_client(client, made["key"])
    assert "overlap_seconds" in check_refusal(own.ask("POST", f"/v1/keys/{made['id']}/rotate", {"overlap_seconds": 0}), 400)
    assert works(own)
    rotated = own.call("POST", f"/v1/keys/{made['id']}/rotate", {"overlap_seconds": 100})
    assert works(own) and works(with_client(client, rotated["key"]))


# Nobody gives more than he has

@pytest.mark.parametrize("role", ROLES)
def test_nobody_gives_a_role_above_his_own(client, home, role):
    admin = home.key("admin")
    answer = admin.ask("POST", "/v1/keys", {"role": role})
    assert answer.status == (403 if role == "operator" else 201)
    made = home.make_key("viewer")
    answer = admin.ask("PATCH", f"/v1/keys/{made['id']}", {"role": role})
    assert answer.status == (403 if role == "operator" else 200)


def test_an_operator_s_key_is_of_the_default_project_and_above_admins(client, home):
    assert "operator" in check_refusal(client.ask("POST", "/v1/keys", {"role": "operator", "project": home.name}), 400)
    operator = client.call("POST", "/v1/keys", {"role": "operator", "name": "second"})
    admin = with_client(client, client.call("POST", "/v1/keys", {"role": "admin"})["key"])
    for method, path, body in (("PATCH", "", {"role": "viewer"}), ("PATCH", "", {"name": "x"}), ("DELETE", "", None), ("POST", "/rotate", {})):
        assert "operator" in check_refusal(admin.ask(method, f"/v1/keys/{operator['id']}{path}", body), 403)
    assert works(with_client(client, operator["key"]))
    client.call("DELETE", f"/v1/keys/{operator['id']}")


def test_an_admin_gives_keys_of_his_own_project_alone(client, home):
    other, admin = Project(client), home.key("admin")
    for project in (other.name, "default", "none"):
        check_refusal(admin.ask("POST", "/v1/keys", {"role": "viewer", "project": project}), 404)
        check_refusal(admin.ask("GET", f"/v1/keys?project={project}"), 404)
    assert "operator" in check_refusal(admin.ask("GET", "/v1/keys?project=*"), 403)
    made = admin.call("POST", "/v1/keys", {"role": "viewer", "project": home.name})
    assert made["project"] == home.name
    assert {key["project"] for key in admin.call("GET", "/v1/keys")} == {home.name}
    assert {key["project"] for key in client.call("GET", "/v1/keys?project=*")} >= {home.name, "default", other.name}


NARROW = {"allow": {"templates": ["minimal"], "network_modes": ["disabled", "filtered"], "source_cidrs": ["127.0.0.0/8"], "agents": ["a", "b"]},
          "limits": {"max_sandboxes": 2, "max_vcpu": 4, "network_modes": ["disabled", "filtered"], "tiers": ["2x4"], "max_ttl_seconds": 100}}
WITHIN = [{}, {"allow": {**NARROW["allow"], "templates": []}}, {"allow": {**NARROW["allow"], "source_cidrs": ["127.0.0.1", "127.4.0.0/16"], "network_modes": ["filtered"], "agents": ["b"]}},
          {"limits": {**NARROW["limits"], "max_sandboxes": 0, "max_vcpu": 0.5, "tiers": ["2x2"], "max_memory_mb": 100}}]
BEYOND = [
    ({"allow": None}, "allow."), ({"allow": {}}, "allow."), ({"limits": None}, "limits"), ({"limits": {}}, "limits"), ({"expires_at": None}, "expires_at"), ({"expires_at": at(10**8)}, "expires_at"),
    *[({"allow": {name: value for name, value in NARROW["allow"].items() if name != gone}}, f"allow.{gone}") for gone in NARROW["allow"]],
    *[({"limits": {name: value for name, value in NARROW["limits"].items() if name != gone}}, gone) for gone in NARROW["limits"]],
    *[({"allow": {**NARROW["allow"], **more}}, f"allow.{list(more)[0]}") for more in (
        {"templates": ["minimal", "code-interpreter"]}, {"network_modes": ["open"]}, {"agents": ["c"]}, {"source_cidrs": ["0.0.0.0/0"]}, {"source_cidrs": ["126.0.0.0/7"]},
        {"source_cidrs": ["127.0.0.1", "10.0.0.1"]}, {"source_cidrs": ["::1"]}, {"source_cidrs": ["::/0"]})],
    *[({"limits": {**NARROW["limits"], **more}}, list(more)[0]) for more in (
        {"max_sandboxes": 3}, {"max_vcpu": 4.5}, {"tiers": ["2x8"]}, {"tiers": ["4x2"]}, {"network_modes": ["disabled", "open"]}, {"max_ttl_seconds": 101}, {"max_sandboxes": None})],
]


@pytest.fixture(scope="module")
def narrowed(client, home):
    """An admin whose key is narrowed in every way, and what he would have to say to give the same."""
    same = {**NARROW, "expires_at": at(100000)}
    made = home.make_key("admin", **same)
    return with_client(client, made["key"]), made, same


@pytest.mark.parametrize("change", WITHIN, ids=str)
def test_a_narrowed_admin_gives_what_is_as_narrow(narrowed, change):
    admin, _, same = narrowed
    made = admin.call("POST", "/v1/keys", {"role": "runner", **same, **change})
    assert admin.ask("PATCH", f"/v1/keys/{made['id']}", change).status == 200
    assert admin.ask("POST", f"/v1/keys/{made['id']}/rotate", {}).status == 200


@pytest.mark.parametrize("change,field", BEYOND, ids=str)
def test_a_narrowed_admin_gives_nothing_wider_not_even_to_himself(narrowed, change, field):
    admin, own, same = narrowed
    made = admin.call("POST", "/v1/keys", {"role": "runner", **same})
    for answer in (admin.ask("POST", "/v1/keys", {"role": "viewer", **same, **change}), admin.ask("PATCH", f"/v1/keys/{made['id']}", change),
                   admin.ask("PATCH", f"/v1/keys/{own['id']}", change)):
        assert field in check_refusal(answer, 403)
    assert admin.call("GET", f"/v1/keys/{own['id']}")["allow"] == NARROW["allow"]


def test_a_narrowed_admin_cannot_get_the_secret_of_a_wider_key(client, home, narrowed):
    admin, _, _ = narrowed
    wider = home.make_key("runner")
    check_refusal(admin.ask("POST", f"/v1/keys/{wider['id']}/rotate", {}), 403)
    assert admin.ask("PATCH", f"/v1/keys/{wider['id']}", {"name": "mine"}).status == 403
    assert works(with_client(client, wider["key"]))
    assert [record["outcome"] for record in wait_until(lambda: client.call("GET", f"/v1/audit?project={home.name}&action=key.rotate&limit=1")["items"])] == ["refused"]


def test_source_addresses_narrow_by_where_a_request_comes_from(client, home):
    assert works(home.key("viewer", allow={"source_cidrs": ["127.0.0.0/8"]}))
    assert works(home.key("viewer", allow={"source_cidrs": ["10.0.0.0/8", "127.0.0.1"]}))
    for cidrs in ([], ["10.0.0.0/8"], ["127.0.0.2"], ["::1"]):
        answer = home.key("viewer", allow={"source_cidrs": cidrs}).ask("GET", "/v1/me", headers={"X-Forwarded-For": "10.0.0.1", "Forwarded": "for=10.0.0.1"})
        assert "source_cidrs" in check_refusal(answer, 403)


def test_network_modes_narrow_what_is_made_and_changed(client, home):
    narrowed = home.key("developer", allow={"network_modes": ["disabled"]})
    for mode in ("filtered", "open"):
        network = {"mode": mode, **({"allow": ["example.com"]} if mode == "filtered" else {})}
        assert "network_modes" in check_refusal(narrowed.ask("POST", "/v1/sandboxes", {"template": "minimal", "network": network}), 403)
        assert "network_modes" in check_refusal(narrowed.ask("PUT", f"{home.sandbox.path}/network", network), 403)
    assert home.sandbox.refresh()["network"] == {"mode": "disabled"}


# Many

def test_ten_thousand_keys_are_listed_in_pages_and_looked_up(start_daemon):
    """Written behind viald's back, as ten thousand calls would; one at each end was made by it."""
    daemon = start_daemon()
    client = daemon.client()
    first = client.call("POST", "/v1/keys", {"role": "viewer", "name": "first"})
    daemon.process.terminate()
    daemon.process.wait(slow(20))
    secrets = {f"{number:020d}": f"vial_{number:040x}" for number in range(10000)}
    with database(daemon, "rw") as db:
        db.executemany("INSERT INTO keys (id, project, role, label, hash, source, created_at) VALUES (?, 'default', 'viewer', ?, ?, 'api', ?)",
                       [(id, f"key {id}", hashlib.sha256(secret.encode()).hexdigest(), 2 * 10**12 + int(id) // 3) for id, secret in secrets.items()])
    db.close()
    daemon.start()
    client = daemon.client()
    for id in ("00000000000000000000", "00000000000000005000", "00000000000000009999"):
        assert with_client(client, secrets[id]).call("GET", "/v1/me")["key_id"] == id
    assert works(with_client(client, first["key"])) and not works(with_client(client, "vial_" + "f" * 40))
    made = client.call("POST", "/v1/keys", {"role": "viewer", "name": "last", "expires_at": at(10000)})
    assert works(with_client(client, made["key"]))
    seen, cursor, pages = [], "", 0
    while cursor is not None:
        page = client.call("GET", f"/v1/keys?limit=1000{'&cursor=' + cursor if cursor else ''}")
        seen += [key["id"] for key in page["items"]]
        cursor, pages = page["next"], pages + 1
        if pages == 3:  # the place where we are goes away
            client.call("DELETE", f"/v1/keys/{seen[-1]}")
    assert pages == 11 and len(seen) == len(set(seen)) == 10003
    assert set(secrets) <= set(seen) and {first["id"], made["id"]} <= set(seen)
    assert len(client.call("GET", "/v1/keys")) == 10002
    for cursor in ("x", UNKNOWN_ID, "-", "9" * 30 + "-a"):
        assert "cursor" in check_refusal(client.ask("GET", f"/v1/keys?limit=2&cursor={cursor}"), 400)
