# SPDX-License-Identifier: Apache-2.0
"""Runs inside a sandbox: tries what argv[1] (a JSON list of attempts) says, prints a JSON list of what happened.

Standard library only, and one file: it is handed to the sandbox's python3 as text.
"""
import errno
import json
import os
import socket
import ssl
import struct
import sys
import time

TIMEOUT = 10  # nothing takes a second but what nobody answers, of which there is little: a busy machine is to be waited for


def connect(a):
    return socket.create_connection((a["to"], a["port"]), TIMEOUT)


def exchange(s, data):
    s.settimeout(TIMEOUT)
    s.sendall(data)
    got = s.recv(65536)
    if not got:
        raise ConnectionError("closed without an answer")
    return got


def read_response(s, rest=None):
    """One answer; `rest` (a bytearray) keeps what came after it for the next."""
    s.settimeout(TIMEOUT)
    rest = bytearray() if rest is None else rest
    data = bytes(rest)
    while b"\r\n\r\n" not in data:
        got = s.recv(65536)
        if not got:
            raise ConnectionError("closed without an answer")
        data += got
    head, _, body = data.partition(b"\r\n\r\n")
    length = next(int(l.split(b":")[1]) for l in head.split(b"\r\n") if l.lower().startswith(b"content-length"))
    while len(body) < length:
        got = s.recv(65536)
        if not got:
            raise ConnectionError("closed in the body")
        body += got
    rest[:] = body[length:]
    return json.loads(body[:length])


def request(s, host, path="/"):
    s.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: test\r\n\r\n".encode())
    return read_response(s)


def do_tcp(a):
    with connect(a) as s:
        return {"got": exchange(s, b"ping\n").decode("latin-1")}


def do_connect(a):
    with connect(a):
        return {}


def do_udp(a):
    family = socket.AF_INET6 if ":" in a["to"] else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as s:
        s.connect((a["to"], a["port"]))
        s.settimeout(TIMEOUT / 2)
        s.send(b"ping" * a.get("repeat", 1))
        return {"got": len(s.recv(65536))}


def do_http(a):
    with connect({"port": 80, **a}) as s:
        return request(s, a.get("host", a["to"]))


def do_raw(a):
    """Sends `data` as it is, in pieces if `pieces`, and wants an HTTP answer."""
    with connect({"port": 80, **a}) as s:
        data = a["data"].encode("latin-1")
        step = -(-len(data) // a.get("pieces", 1))
        for i in range(0, len(data), step):
            s.sendall(data[i:i + step])
            time.sleep(0.02)
        rest = bytearray()
        answers = [read_response(s, rest) for _ in range(a.get("answers", 1))]
        return {"answers": answers}


def do_talk(a):
    """A conversation: of each step's two texts the first is sent, and bytes are read until the second is among them."""
    with connect({"port": 80, **a}) as s:
        s.settimeout(TIMEOUT)
        got = b""
        for text, wanted in a["steps"]:
            s.sendall(text.encode("latin-1"))
            while wanted.encode("latin-1") not in got:
                data = s.recv(65536)
                if not data:
                    raise ConnectionError("closed in the middle of it")
                got += data
            got = got.partition(wanted.encode("latin-1"))[2]
        return {}


def do_two(a):
    """Two requests on one connection."""
    with connect({"port": 80, **a}) as s:
        first = request(s, a["hosts"][0])
        return {"first": first, "second": request(s, a["hosts"][1])}


def do_https(a):
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    sni = a.get("sni", a["to"])
    with connect({"port": 443, **a}) as s, context.wrap_socket(s, server_hostname=sni or None) as t:
        return request(t, a.get("host", sni or a["to"]))


def do_resolve(a):
    family = {4: socket.AF_INET, 6: socket.AF_INET6}.get(a.get("family"), 0)
    return {"addresses": sorted({i[4][0] for i in socket.getaddrinfo(a["name"], 80, family, socket.SOCK_STREAM)})}


def do_query(a):
    """A DNS question of our own making to any server; ok means it answered without an error code."""
    name = b"".join(bytes([len(p)]) + p.encode() for p in a["name"].split(".") if p) + b"\0"
    message = os.urandom(2) + struct.pack("!5H", 0x0100, 1, 0, 0, 0) + name + struct.pack("!HH", a.get("type", 1), 1)
    to = a.get("to", "192.0.0.1")
    if a.get("tcp"):
        with socket.create_connection((to, 53), TIMEOUT) as s:
            got = exchange(s, struct.pack("!H", len(message)) + message)
            while len(got) < 2 + struct.unpack("!H", got[:2])[0]:
                got += s.recv(65536)
            got = got[2:]
    else:
        with socket.socket(socket.AF_INET6 if ":" in to else socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.connect((to, 53))
            got = exchange(s, message)
    flags, _, count = struct.unpack("!HHH", got[2:8])
    result = {"rcode": flags & 15, "count": count, "truncated": bool(flags & 0x200)}
    if flags & 15:
        raise LookupError(json.dumps(result))
    return result


def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total >> 16) + (total & 0xffff)
    return ~(total + (total >> 16)) & 0xffff


def do_ping(a):
    v6 = ":" in a["to"]
    s = socket.socket(socket.AF_INET6 if v6 else socket.AF_INET, socket.SOCK_RAW,
                      socket.IPPROTO_ICMPV6 if v6 else socket.IPPROTO_ICMP)
    body = struct.pack("!BBHHH", 128 if v6 else 8, 0, 0, 77, 1) + b"vial" * 4
    if not v6:
        body = body[:2] + struct.pack("!H", checksum(body)) + body[4:]
    s.settimeout(0.2)
    s.sendto(body, (a["to"], 0))
    end = time.monotonic() + 1
    while True:
        try:
            got, who = s.recvfrom(4096)
        except socket.timeout:  # only then: what has come while nobody looked is there all the same
            if time.monotonic() < end:
                continue
            break
        kind = got[0] if v6 else got[20]
        if who[0] == a["to"] and kind == (129 if v6 else 0):
            return {}
    raise TimeoutError("no echo reply")


def attempt(a):
    start = time.monotonic()
    try:
        result = {"ok": True, **globals()["do_" + a["do"]](a)}
    except (OSError, LookupError, ValueError, StopIteration) as e:
        code = errno.errorcode.get(e.errno, "") if isinstance(e, OSError) and e.errno else ""
        result = {"ok": False, "error": f"{type(e).__name__}: {e}", "code": code}
    result["ms"] = round((time.monotonic() - start) * 1000, 1)
    return result


if __name__ == "__main__":
    print(json.dumps([attempt(a) for a in json.loads(sys.argv[1])]))
