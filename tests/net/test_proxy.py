# SPDX-License-Identifier: Apache-2.0
"""The transparent proxy: what it understands, what it refuses, and that clients do not notice it otherwise."""
import socket
import ssl
import struct

import pytest

from backend import AT_ONCE_MS
from cases import ALL, filtered, http, https, resolve, tcp
from internet import CDN, EVIL, EXAMPLE, GIT, REFUSES

NAME = filtered(["example.com"])


def hello(name):
    """A real ClientHello for that name."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context()
    try:
        context.wrap_bio(incoming, outgoing, server_hostname=name).do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read()


def raw(data, to=EXAMPLE, port=80, **more):
    return {"do": "raw", "to": to, "port": port, "data": data.decode("latin-1") if isinstance(data, bytes) else data, **more}


def test_keep_alive_with_the_same_host_goes_on(sandbox):
    box = sandbox(NAME)
    got = box.try_all([resolve("example.com"), {"do": "two", "to": "example.com", "hosts": ["example.com", "EXAMPLE.com:80"]}])[1]
    assert got["ok"] and got["second"]["host"] == "EXAMPLE.com:80"


def test_a_second_request_for_another_host_is_cut(sandbox):
    box = sandbox(filtered(["a.cdn.net"]))
    got = box.try_all([resolve("a.cdn.net"), {"do": "two", "to": CDN, "hosts": ["a.cdn.net", "b.cdn.net"]}])[1]
    assert not got["ok"]


GOOD = "GET / HTTP/1.1\r\nHost: example.com\r\n\r\n"
SMUGGLED = "GET /evil HTTP/1.1\r\nHost: evil.com\r\n\r\n"


@pytest.mark.parametrize("data,answers", [
    (GOOD, 1),
    (GOOD * 2, 2),
    ("POST / HTTP/1.1\r\nHost: example.com\r\nContent-Length: 5\r\n\r\nhello" + GOOD, 2),
    ("POST / HTTP/1.1\r\nHost: example.com\r\nContent-Length: %d\r\n\r\n%s" % (len(SMUGGLED), SMUGGLED) + GOOD, 2),
    ("POST / HTTP/1.1\r\nhost: example.com\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n" + GOOD, 2),
    ("GET http://example.com/ HTTP/1.1\r\nHost: example.com\r\n\r\n", 1),
    ("GET / HTTP/1.1\r\nX-Long: " + "a" * 20000 + "\r\nHost: example.com\r\n\r\n", 1),
])
@pytest.mark.parametrize("pieces", [1, 7])
def test_http_that_names_the_host_passes(sandbox, data, answers, pieces):
    box = sandbox(NAME)
    got = box.try_all([resolve("example.com"), raw(data, answers=answers, pieces=pieces)])[1]
    assert got["ok"], got


@pytest.mark.parametrize("data", [
    "GET / HTTP/1.1\r\nHost: evil.com\r\n\r\n",
    "GET / HTTP/1.1\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: example.com\r\nHost: evil.com\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: evil.com\r\nHost: example.com\r\n\r\n",
    "GET http://evil.com/ HTTP/1.1\r\nHost: example.com\r\n\r\n",
    "GET http://example.com@evil.com/ HTTP/1.1\r\nHost: example.com\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: example.com.evil.com\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: evilexample.com\r\n\r\n",
    "GET / HTTP/1.1\r\nHost : evil.com\r\nHost: example.com\r\n\r\n",
    "GET / HTTP/1.1\r\nX: y\r\n Host: evil.com\r\nHost: example.com\r\n\r\n",
    "GET / HTTP/1.1\nHost: example.com\n\n",
    "GET / HTTP/1.1\r\nHost: example.com\nX: y\r\n\r\n",
    "CONNECT example.com:443 HTTP/1.1\r\nHost: example.com\r\n\r\n",
    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "GET / HTTP/0.9\r\nHost: example.com\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: example.com\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: example.com\r\nTransfer-Encoding: xchunked\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: example.com\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    "POST / HTTP/1.1\r\nHost: example.com\r\nContent-Length: +5\r\n\r\nhello",
    "GET / HTTP/1.1\r\nHost: [::1]\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: 93.184.216.34\r\n\r\n",
    "SSH-2.0-client\r\n\r\n",
    "\x00\x01\x02\x03",
])
def test_http_that_does_not_is_refused(sandbox, data):
    box = sandbox(NAME)
    assert not box.try_all([resolve("example.com"), raw(data)])[1]["ok"]


def test_a_smuggled_second_request_never_arrives(sandbox):
    box = sandbox(NAME)
    for first in (GOOD, "POST / HTTP/1.1\r\nHost: example.com\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"):
        got = box.try_all([resolve("example.com"), raw(first + SMUGGLED, answers=2)])[1]
        assert not got["ok"]


def ask(path="/", method="GET", host="a.cdn.net", upgrade=None, more=""):
    field = f"Connection: Upgrade\r\nUpgrade: {upgrade}\r\n" if upgrade is not None else ""
    return f"{method} {path} HTTP/1.1\r\nHost: {host}\r\n{field}{more}\r\n"


def talk(sandbox, *steps):
    """Two names share an address; only one of them is allowed."""
    box = sandbox(filtered(["a.cdn.net"]))
    return box.try_all([resolve("a.cdn.net"), {"do": "talk", "to": CDN, "steps": steps}])[1]


SNEAKED = ask(host="b.cdn.net")
FRAME = "\x81\x05hello"


@pytest.mark.parametrize("upgrade", ["", "websocket", "WebSocket", "h2c", "TLS/1.0", "websocket, h2c", "x"])
def test_asking_for_an_upgrade_opens_nothing(sandbox, upgrade):
    """The server answers 200. What follows is a request like any other, at once or after the answer."""
    assert not talk(sandbox, [ask(upgrade=upgrade) + SNEAKED, "a.cdn.net"], ["", "b.cdn.net"])["ok"]
    assert not talk(sandbox, [ask(upgrade=upgrade), "a.cdn.net"], [SNEAKED, "b.cdn.net"])["ok"]
    assert talk(sandbox, [ask(upgrade=upgrade), "a.cdn.net"], [ask(), "a.cdn.net"])["ok"]


@pytest.mark.parametrize("before", [
    [],
    [[ask(), "a.cdn.net"]],
    [[ask(method="HEAD"), "1000\r\n\r\n"]],
    [[ask("/chunks"), "chunks\r\n0\r\nA: b\r\n\r\n"]],
    [[ask("/text-of-a-101"), "websocket\r\n\r\n"]],
    [[ask() + ask(method="HEAD") + ask("/chunks") + ask("/bytes/70000"), "A: b\r\n\r\n"]],
], ids=["first", "after another", "after a HEAD", "after chunks", "after the text of a 101", "after four at once"])
def test_a_websocket_passes_once_the_server_has_switched(sandbox, before):
    assert talk(sandbox, *before, [ask("/switch", upgrade="websocket"), "websocket\r\n\r\n"], [FRAME, FRAME], [FRAME * 9, FRAME * 9])["ok"]


def test_the_text_of_a_101_in_a_body_opens_nothing(sandbox):
    """Whoever has a page on the allowed host could put it there."""
    assert not talk(sandbox, [ask("/text-of-a-101") + ask(upgrade="websocket"), "a.cdn.net"], [SNEAKED, "b.cdn.net"])["ok"]
    assert not talk(sandbox, [ask("/text-of-a-101"), "200 OK"], [ask(upgrade="websocket"), "a.cdn.net"], [SNEAKED, "b.cdn.net"])["ok"]


@pytest.mark.parametrize("upgrade", ["h2c", "TLS/1.0", "websocket, h2c", ""])
def test_a_switch_to_a_protocol_that_could_name_another_host_is_cut(sandbox, upgrade):
    for said in ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + "\0" * 9, "\x16\x03\x01\x00\x10", FRAME, SNEAKED):
        assert not talk(sandbox, [ask("/switch", upgrade=upgrade), "\r\n\r\n"], [said, said])["ok"]


@pytest.mark.parametrize("request_text", [
    ask("/switch", upgrade="websocket", more="Upgrade: websocket\r\n"),
    ask("/switch", method="POST", upgrade="websocket", more="Content-Length: 0\r\n"),
    ask("/switch", upgrade="websocket", more="Content-Length: 2\r\n") + "{}",
    ask("/switch", upgrade="websocket", more="Transfer-Encoding: chunked\r\n") + "0\r\n\r\n",
], ids=["twice", "POST", "with a body", "with chunks"])
def test_an_upgrade_of_doubtful_meaning_is_cut(sandbox, request_text):
    assert not talk(sandbox, [request_text, "websocket\r\n\r\n"], [FRAME, FRAME])["ok"]


def test_a_hello_in_many_pieces_and_records_is_understood(sandbox):
    """The hello is cut into records of 50 bytes, sent in 9 pieces; the server's answer (an alert or hello) comes back."""
    whole = hello("example.com")
    body = whole[5:]
    cut = b"".join(whole[:3] + struct.pack("!H", len(body[i:i + 50])) + body[i:i + 50] for i in range(0, len(body), 50))
    script = """
import socket, sys, time
socket.gethostbyname("example.com")
data = bytes.fromhex(sys.argv[1])
s = socket.create_connection(("93.184.216.34", 443), 30); s.settimeout(30)
for i in range(0, len(data), 64):
    s.sendall(data[i:i+64]); time.sleep(.01)
assert s.recv(100)[0] in (21, 22)
"""
    box = sandbox(NAME)
    assert box.run(["python3", "-c", script, cut.hex()]).returncode == 0
    assert box.run(["python3", "-c", script, hello("evil.com").hex()]).returncode != 0


@pytest.mark.parametrize("port", [80, 443])
def test_a_hello_without_a_name_or_broken_is_refused(sandbox, port):
    box = sandbox(NAME)
    good = hello("example.com")
    # No server name; a length that lies; two names; another protocol's record; only the beginning of one.
    for data in (good.replace(b"example.com", b"example\x00com"), good[:60] + b"\xff" * 40 + good[100:],
                 good[:9] + b"\xff\xff" + good[11:], b"\x15\x03\x01\x00\x02\x02\x28", b"\x16\x03\x01\x40\x01" + bytes(100)):
        assert not box.try_all([resolve("example.com"), raw(data, port=port)])[1]["ok"]


def test_tls_on_port_80_and_http_on_443_are_judged_alike(sandbox):
    box = sandbox(NAME)
    got = box.try_all([resolve("example.com"), https(EXAMPLE, 80, sni="evil.com"), http(EXAMPLE, 443, host="evil.com")])
    assert [g["ok"] for g in got] == [True, False, False]


def test_servers_that_speak_first_pass_where_the_baseline_allows(sandbox):
    """With a denied name the proxy sits on web ports; whatever is not TLS or HTTP there goes by its address."""
    box = sandbox(filtered([ALL], ["evil.com"]))
    got = box.try_all([tcp(GIT, 22), https("example.com"), http("example.com"), http(EVIL, host="evil.com"), https(EVIL, sni="EVIL.com.")])
    assert [g["ok"] for g in got] == [True, True, True, False, False]


def test_large_bodies_arrive_whole_both_ways(sandbox):
    script = """
import hashlib, http.client
c = http.client.HTTPConnection("example.com", timeout=20)
c.request("GET", "/bytes/50000000"); r = c.getresponse(); n = 0
while b := r.read(1 << 20): n += len(b)
assert n == 50000000, n
c.request("POST", "/", body=bytes(20000000)); assert c.getresponse().status == 200
"""
    box = sandbox(NAME)
    done = box.run(["python3", "-c", script])
    assert done.returncode == 0, done.stderr
    event = [e for e in box.events() if e["kind"] == "connection" and e.get("name") == "example.com"][-1]
    assert event["bytes_in"] > 50000000 and event["bytes_out"] > 20000000 and event["rule"] == "example.com"


def test_a_server_that_refuses_ends_the_client(sandbox):
    """Its name is known and allowed, and nobody listens: the client learns it, and does not wait for a timeout of its own."""
    box = sandbox(filtered(["refuses.org"]))
    got = box.try_one(**https("refuses.org"))
    assert box.try_one(**resolve("refuses.org"))["addresses"] == [REFUSES]
    assert not got["ok"] and got["ms"] < AT_ONCE_MS, got


def test_many_connections_at_once(sandbox):
    script = """
import concurrent.futures, urllib.request
get = lambda i: urllib.request.urlopen("http://example.com/", timeout=30).status
with concurrent.futures.ThreadPoolExecutor(50) as pool:
    assert list(pool.map(get, range(300))) == [200] * 300
"""
    box = sandbox(NAME, limits={"connection_rate": 1000})
    done = box.run(["python3", "-c", script])
    assert done.returncode == 0, done.stderr
