# SPDX-License-Identifier: Apache-2.0
"""The sandbox's only resolver: whom it asks, what it keeps back, how much it lets through."""
import json
import random
import string
import time

from backend import patience
from cases import ALL, OPEN, filtered, https, query, resolve, tcp
from internet import EXAMPLE, OTHER


def asked(net, since):
    return [q["name"] for q in net.queries()[since:]]


def label(n):
    return "".join(random.choices(string.ascii_lowercase, k=n))


def test_a_refused_name_is_never_sent_upstream(net, sandbox):
    since = len(net.queries())
    secret = label(20)
    box = sandbox(filtered(["example.com"]))
    assert not box.try_one(**resolve(f"{secret}.evil.com"))["ok"]
    assert not box.try_one(**query(f"{secret}.example.org", type=16))["ok"]
    assert box.try_one(**resolve("example.com"))["ok"]
    assert set(asked(net, since)) == {"example.com"}


def test_disabled_asks_nobody(net, sandbox):
    since = len(net.queries())
    box = sandbox({"mode": "disabled"})
    assert not box.try_one(**query("example.com"))["ok"]
    assert asked(net, since) == []


def test_refusal_is_nxdomain_and_fast(sandbox):
    (got,) = sandbox(filtered(["example.com"])).try_until([query("evil.com")], lambda results: results[0]["ms"] < 200 * patience())
    assert json.loads(got["error"].split(": ", 1)[1])["rcode"] == 3 and got["ms"] < 200 * patience()


def test_records_of_other_types(sandbox):
    box = sandbox(filtered(["example.com"]))
    for kind, count in ((16, 1), (15, 1), (1, 1), (28, 1), (2, 0)):
        got = box.try_one(**query("example.com", type=kind))
        assert got["ok"] and got["count"] == count, (kind, got)


def test_https_records_are_empty_and_any_is_not_implemented(net, sandbox):
    since = len(net.queries())
    box = sandbox(OPEN)
    assert box.try_one(**query("example.com", type=65))["count"] == 0
    assert not box.try_one(**query("example.com", type=255))["ok"]
    assert not box.try_one(**query("example.com", type=252))["ok"]
    assert asked(net, since) == []


def test_big_answers_come_over_tcp(sandbox):
    box = sandbox(OPEN)
    udp = box.try_one(**query("big.org"))
    assert udp["truncated"] and udp["count"] == 0
    assert box.try_one(**query("big.org", tcp=True))["count"] == 120
    assert len(box.try_one(**resolve("big.org"))["addresses"]) == 120


def test_names_of_private_networks_need_a_rule(net, sandbox):
    since = len(net.queries())
    box = sandbox(OPEN)
    for name in ("printer", "db.internal", "host.local", "3.2.1.10.in-addr.arpa", "x.lan"):
        assert not box.try_one(**query(name))["ok"], name
    assert asked(net, since) == []


def test_a_tunnel_through_names_is_throttled(net, sandbox):
    since = len(net.queries())
    box = sandbox(filtered(["*.example.com"]))
    # Much data in one name.
    assert not box.try_one(**query(f"{label(60)}.{label(60)}.example.com"))["ok"]
    assert asked(net, since) == []
    # Many names: a burst passes, then a trickle.
    started = time.monotonic()
    box.try_all([query(f"{label(30)}.example.com") for _ in range(400)])
    assert len(asked(net, since)) < 220 + 5 * (time.monotonic() - started)
    rules = {e["rule"] for e in box.events() if e["verdict"] == "deny"}
    assert "limit:name-length" in rules and rules & {"limit:new-names", "limit:dns-rate"}


def test_rate_of_questions_is_limited(sandbox):
    box = sandbox(OPEN, limits={"dns_rate": 5})
    started = time.monotonic()
    results = box.try_all([query("example.com") for _ in range(60)])
    assert 20 <= sum(r["ok"] for r in results) <= 25 + 5 * (time.monotonic() - started)


def test_malformed_questions_do_no_harm(sandbox):
    box = sandbox(OPEN)
    script = """
import os, socket, struct
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect(("192.0.0.1", 53)); s.settimeout(.05)
head = lambda *a: os.urandom(2) + struct.pack("!5H", *a)
bad = [b"", b"x", head(0x0100, 1, 0, 0, 0), head(0x0100, 2, 0, 0, 0) + b"\\1a\\0\\0\\1\\0\\1" * 2, head(0x8180, 1, 0, 0, 0) + b"\\1a\\0\\0\\1\\0\\1",
       head(0x0100, 1, 0, 0, 0) + b"\\xc0\\x0c\\0\\1\\0\\1", head(0x0100, 1, 0, 0, 0) + b"\\x3f" + b"a" * 10,
       head(0x0100, 1, 0, 0, 0) + b"\\7a b\\n\\x1b[m\\0\\0\\1\\0\\1", head(0x2800, 1, 0, 0, 0) + b"\\1a\\0\\0\\1\\0\\1",
       head(0x0100, 1, 0, 0, 0) + b"\\x3f" + b"a" * 63 + (b"\\x3f" + b"b" * 63) * 4 + b"\\0\\0\\1\\0\\1", os.urandom(900), os.urandom(12)]
for m in bad * 3:
    s.send(m)
    try: s.recv(2000)
    except OSError: pass
"""
    assert box.run(["python3", "-c", script]).returncode == 0
    assert box.try_one(**resolve("example.com"))["ok"]


def test_short_ttls_do_not_cut_the_client_off(sandbox):
    box = sandbox(filtered(["short.org"]))
    script = "import socket,time; a=socket.gethostbyname('short.org'); time.sleep(2.5); socket.create_connection((a, 9000), 20)"
    assert box.run(["python3", "-c", script]).returncode == 0


def test_answers_of_one_sandbox_open_nothing_for_another(sandbox):
    policy = filtered(["example.com"])
    first, second = sandbox(policy), sandbox(policy)
    assert first.try_one(**tcp("example.com"))["ok"]
    assert not second.try_one(**tcp(EXAMPLE))["ok"]
    assert not second.try_one(**https(EXAMPLE, sni="example.com"))["ok"]


def test_every_question_is_logged(sandbox):
    box = sandbox(filtered(["example.com"]))
    box.try_all([resolve("example.com"), resolve("evil.com"), tcp(OTHER)])
    events = box.events()
    assert any(e["kind"] == "dns" and e["name"] == "example.com" and e["verdict"] == "allow" and e["rule"] == "example.com" for e in events)
    assert any(e["kind"] == "dns" and e["name"] == "evil.com" and e["verdict"] == "deny" for e in events)
    assert ALL not in [e["rule"] for e in events]
