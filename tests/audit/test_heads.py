# SPDX-License-Identifier: Apache-2.0
"""Signed heads: when, by which key, and in which second places."""

import http.server
import json
import os
import socket
import stat
import threading
import time

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa
from record import export, heads, keys, prove, verdict, work
from tools import wait_until
from verifier import is_signed, verify


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def make_key(path, key=None):
    key = key or ed25519.Ed25519PrivateKey.generate()
    path.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
    path.chmod(0o600)
    return key.public_key().public_bytes_raw().hex() if isinstance(key, ed25519.Ed25519PrivateKey) else None


def test_the_chain_is_signed_after_so_many_records(bare):
    daemon = bare("--audit-head-records", 4, "--audit-head-seconds", 3600)
    client = daemon.client()
    for _ in range(3):
        work(client, 4)
        wait_until(lambda: heads(client)["heads"])
    told = wait_until(lambda: (now := heads(client))["heads"][0]["seq"] >= 12 and now)
    assert all(is_signed(head, [told["public_key"]]) for head in told["heads"]) and told["records"] == 12
    assert all(later["seq"] - earlier["seq"] >= 4 for later, earlier in zip(told["heads"], told["heads"][1:]))


def test_the_chain_is_signed_after_so_long(bare):
    daemon = bare("--audit-head-records", 1000, "--audit-head-seconds", 1)
    client = daemon.client()
    work(client, 2)
    signed = wait_until(lambda: (told := heads(client)["heads"]) and told[0]["seq"] == 2 and told)
    time.sleep(2.5)
    assert heads(client)["heads"] == signed  # nothing new, nothing signed


def test_the_chain_is_signed_when_viald_stops(bare):
    daemon = bare("--audit-head-seconds", 3600)
    work(daemon.client(), 3)
    daemon.stop()
    assert [head["seq"] for head in lines_of(daemon.data / "audit/heads.jsonl")][-1] == 3
    daemon.start()
    assert prove(daemon.client()) == 3


def test_the_key_and_the_public_key_are_where_they_should_be(bare):
    daemon = bare()
    secret, public = daemon.data / "keys/audit.key", daemon.data / "keys/audit.pub"
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600 and stat.S_IMODE((daemon.data / "audit").stat().st_mode) == 0o700
    key = serialization.load_pem_public_key(public.read_bytes())
    assert key.public_bytes_raw().hex() == heads(daemon.client())["public_key"]
    assert stat.S_IMODE((daemon.data / "audit.sqlite").stat().st_mode) == 0o600


def test_heads_go_to_a_file_elsewhere(bare, place):
    elsewhere = place / "elsewhere.jsonl"
    daemon = bare("--audit-heads-to", f"file:{elsewhere}", "--audit-head-records", 2)
    work(daemon.client(), 6)
    wait_until(lambda: lines_of(elsewhere) and lines_of(elsewhere)[-1]["seq"] >= 5)
    daemon.stop()
    assert lines_of(elsewhere) == lines_of(daemon.data / "audit/heads.jsonl")
    daemon.start()
    client = daemon.client()
    assert verify(export(client), keys(client), outside=lines_of(elsewhere))[0] == "good"


def test_heads_go_to_syslog(bare, place):
    if os.path.lexists("/dev/log"):
        pytest.skip("this machine has a syslog of its own")
    receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    receiver.bind(str(place / "log"))
    receiver.settimeout(60)
    os.symlink(place / "log", "/dev/log")
    try:
        daemon = bare("--audit-heads-to", "syslog", "--audit-head-records", 1)
        work(daemon.client(), 1)
        message = receiver.recv(4096).decode()
        assert "vial audit head" in message
        head = json.loads(message[message.index("{"):].rstrip("\0\n"))
        assert head["seq"] == 1 and is_signed(head, keys(daemon.client()))
    finally:
        os.unlink("/dev/log")
        receiver.close()


class Collector(http.server.ThreadingHTTPServer):
    """Takes heads, or does not: `mood` is the status it answers with; "slow" waits until `go`."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.mood, self.go, self.taken, self.asked, self.stolen = 200, threading.Event(), [], [], []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}/heads"


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        server, head = self.server, json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        server.asked.append(head)
        if self.path != "/heads":
            server.stolen.append(head)
        mood = server.mood
        if mood == "slow":
            server.go.wait(60)
            mood = 200
        if mood == 200:
            server.taken.append(head)
        self.send_response(mood)
        if mood == 302:
            self.send_header("Location", "/elsewhere")
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_POST

    def log_message(self, *_):
        pass


@pytest.fixture
def collector():
    collector = Collector()
    yield collector
    collector.go.set()
    collector.shutdown()
    collector.server_close()


def test_heads_go_to_a_collector_whatever_its_mood_and_nobody_waits_for_it(bare, collector):
    daemon = bare("--audit-heads-to", collector.url, "--audit-head-records", 1)
    client = daemon.client()
    work(client, 1)
    wait_until(lambda: {head["seq"] for head in collector.taken} == {1})
    for mood in (500, 302, "slow"):
        collector.mood = mood
        asked = len(collector.asked)
        work(client, 1)
        wait_until(lambda: len(collector.asked) > asked)
        work(client, 2)  # answered while it has not been taken
        assert verdict(client)["ok"] and max(head["seq"] for head in collector.taken) < verdict(client)["signed_through"]
        collector.mood = 200
        collector.go.set()
        # The newest, which stands for all before it, comes without another record.
        wait_until(lambda: max(head["seq"] for head in collector.taken) == verdict(client)["signed_through"])
        collector.go.clear()
    assert not collector.stolen and all(is_signed(head, keys(client)) for head in collector.taken)


def test_what_could_not_be_delivered_before_the_stop_is_after_the_start(bare, collector):
    daemon = bare("--audit-heads-to", collector.url, "--audit-head-records", 1)
    collector.mood = 500
    work(daemon.client(), 2)
    wait_until(lambda: collector.asked)
    daemon.stop()
    assert not collector.taken
    collector.mood = 200
    daemon.start()
    wait_until(lambda: {head["seq"] for head in collector.taken} == {2})


@pytest.mark.parametrize("places", ["nowhere", "file:relative", "ftp://example.org/x", "syslog,http:/x"])
def test_a_place_that_is_none_is_refused_with_a_sentence(bare, places):
    with pytest.raises(AssertionError, match="is no place for heads"):
        bare("--audit-heads-to", places)


def test_a_key_of_ones_own_signs_and_another_one_later(bare, place):
    first, second = place / "first.pem", place / "second.pem"
    public = [make_key(first), make_key(second)]
    daemon = bare("--audit-key-file", first)
    assert heads(daemon.client())["public_key"] == public[0] and not (daemon.data / "keys/audit.key").exists()
    work(daemon.client(), 3)
    daemon.stop()
    daemon = bare("--audit-key-file", second)
    client = daemon.client()
    work(client, 3)
    told = heads(client)
    assert (told["public_key"], told["former_keys"]) == (public[1], [public[0]])
    assert prove(client) == 6 and (daemon.data / "keys/audit.former").read_text().split() == [public[0]]
    assert verify(export(client), [public[1]])[0] == "forged"  # who does not know the former one cannot believe it
    daemon.stop()
    daemon = bare("--audit-key-file", first)  # and back again
    work(daemon.client(), 1)
    assert sorted(set(keys(daemon.client()))) == sorted(public) and verdict(daemon.client())["ok"]


def test_a_key_that_is_none_is_refused_with_a_sentence(bare, place):
    path = place / "key.pem"
    with pytest.raises(AssertionError, match="the key that signs the audit"):
        bare("--audit-key-file", path)
    path.write_text("not a key")
    with pytest.raises(AssertionError, match="the key that signs the audit"):
        bare("--audit-key-file", path)
    make_key(path, rsa.generate_private_key(65537, 2048))
    with pytest.raises(AssertionError, match="not for Ed25519"):
        bare("--audit-key-file", path)
