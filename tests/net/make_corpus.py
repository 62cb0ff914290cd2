# SPDX-License-Identifier: Apache-2.0
"""Writes tests/net/corpus: one well-formed and a few odd inputs for each parser of fuzz_net.c. Run after changing a format."""
import os
import ssl
import struct

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus")


def name(text):
    return b"".join(bytes([len(p)]) + p.encode() for p in text.split(".")) + b"\0"


def hello(host):
    outgoing = ssl.MemoryBIO()
    try:
        ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname=host).do_handshake()
    except ssl.SSLWantReadError:
        return outgoing.read()


question = name("example.com") + struct.pack("!HH", 1, 1)
edns = b"\0" + struct.pack("!HHIH", 41, 4096, 0, 0)


def answer(*records, flags=0x8180):
    body = b"".join(struct.pack("!H", 0xc00c) + struct.pack("!HHIH", t, 1, 60, len(d)) + d for t, d in records)
    return b"\x12\x34" + struct.pack("!5H", flags, 1, len(records), 0, 0) + question + body


INPUTS = {
    "query": [b"\x12\x34" + struct.pack("!5H", 0x100, 1, 0, 0, 1) + question + edns, b"\x12\x34" + struct.pack("!5H", 0x100, 1, 0, 0, 0) + b"\xc0\x0c\0\1\0\1"],
    "answer": [answer((1, b"\x5d\xb8\xd8\x22")), answer((5, name("a.cdn.net")), (1, b"\1\2\3\4")), answer((5, b"\xc0\x0c"), (1, b"\1\2\3\4")),
               answer((1, b"\1\2\3")), answer(flags=0x8380), answer((5, b"\xc0\x1d"))],
    "tls": [hello("example.com"), hello("example.com")[:60], b"\x16\x03\x01\x00\x01\x01" * 9, b"\x16\x03\x01\x40\x00" + bytes(50)],
    "http": [b"GET / HTTP/1.1\r\nHost: example.com\r\n\r\n" * 2, b"POST / HTTP/1.1\r\nHost: example.com\r\nContent-Length: 5\r\n\r\nhelloGET / HTTP/1.1\r\nHost: evil.com\r\n\r\n",
             b"POST / HTTP/1.1\r\nHost: a.com\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n0\r\nTrailer: x\r\n\r\nGET / HTTP/1.1\r\nHost: a.com\r\n\r\n",
             b"GET http://a.com/ HTTP/1.1\r\nHost: a.com\r\nUpgrade: websocket\r\n\r\n\x81\x05hello",
             b"GET / HTTP/1.1\r\nHost: a.com\r\nUpgrade:\r\n\r\nGET / HTTP/1.1\r\nHost: b.com\r\n\r\n"],
    "packet": [bytes.fromhex("4500001c000700004011000c0000025db8d8220fa0232800080000c0000002"), bytes.fromhex("6000000000083a40") + bytes(32) + b"\x11\0" + bytes(8)],
    "policy": [b'{"mode":"filtered","allow_out":["example.com:80-90","*.a.b","10.0.0.0/8:22","[2001:4860::/32]:443","ALL_TRAFFIC:1"],"deny_out":["ALL_TRAFFIC","1.2.3.4"]}',
               b'{"mode":"open"}', b'{}', b'{"allow_out":["b\xc3\xbccher.de"]}'],
    "upgrade": [b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhelloHTTP/1.1 304 Not Modified\r\n\r\nHTTP/1.1 200 OK\r\n"
                b"Content-Length: 9\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x\r\nabc\r\n0\r\nA: b\r\n\r\nHTTP/1.1 101 Switching\r\n\r\n\x81\x00",
                b"HTTP/1.1 200 OK\r\nContent-Length: 35\r\n\r\nHTTP/1.1 101 Switching Protocols\r\n\r\n", b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
                b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\n\n"],
}

os.makedirs(HERE, exist_ok=True)
for index, (kind, inputs) in enumerate(INPUTS.items()):
    for number, data in enumerate(inputs):
        with open(os.path.join(HERE, f"{kind}-{number}"), "wb") as f:
            f.write(bytes([index]) + data)
