# SPDX-License-Identifier: Apache-2.0
"""The servers of the small internet (internet.py starts this inside a namespace): argv = directory, role.

HTTP 80 8080, HTTPS 443 8443, TCP echo 7 and 22 (22 greets first, as SSH does) and 9000, UDP echo 9000, DNS 53, DNS over
TLS 853, QUIC-like UDP 443, SMTP-like 25. The answer says which server answered and what it was told.
"""
import asyncio
import json
import os
import socket
import ssl
import struct
import sys

import internet

TYPES = {"A": 1, "NS": 2, "CNAME": 5, "MX": 15, "TXT": 16, "AAAA": 28, "HTTPS": 65}
directory, role = sys.argv[1], sys.argv[2]
zone = json.load(open(os.path.join(directory, "zone.json")))
query_log = open(os.path.join(directory, "queries"), "a", buffering=1) if role == "internet" else None


# ---- HTTP ----

async def http(reader, writer, sni=None):
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            lines = head.decode("latin-1").split("\r\n")
            fields = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines[1:] if line)}
            method, path, _ = lines[0].split(" ", 2)
            if fields.get("transfer-encoding") == "chunked":
                while int((await reader.readuntil(b"\r\n")).strip() or b"0", 16):
                    await reader.readuntil(b"\r\n")
                await reader.readuntil(b"\r\n")
            elif "content-length" in fields:
                left = int(fields["content-length"])
                while left:
                    left -= len(await reader.readexactly(min(left, 65536)))
            if path == "/switch":
                writer.write(f"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: {fields.get('upgrade')}\r\n\r\n".encode())
                await echo(reader, writer)
                break
            if path == "/text-of-a-101":
                body = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body))
                await asyncio.sleep(0.2)  # a packet of its own
                writer.write(body)
                await writer.drain()
                continue
            if method == "HEAD":
                writer.write(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
                continue
            if path == "/chunks":
                writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6;x=y\r\nchunks\r\n0\r\nA: b\r\n\r\n")
                continue
            if path.startswith("/bytes/"):
                size = int(path[7:])
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
                block = bytes(1 << 18)
                while size > 0:
                    writer.write(block[:size])
                    size -= len(block)
                    await writer.drain()
                continue
            here, there = writer.get_extra_info("sockname"), writer.get_extra_info("peername")
            tls = writer.get_extra_info("ssl_object")
            body = json.dumps({"server": here[0], "port": here[1], "client": there[0], "host": fields.get("host"),
                               "tls": bool(tls), "sni": getattr(tls, "vial_sni", None) if tls else None}).encode()
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            await writer.drain()
            if fields.get("connection") == "close":
                break
    except (asyncio.IncompleteReadError, ConnectionError, asyncio.LimitOverrunError, ValueError, ssl.SSLError):
        pass
    finally:
        writer.close()


async def echo(reader, writer):
    try:
        if writer.get_extra_info("sockname")[1] in (22, 25):
            writer.write(b"220 hello\r\n")
        while data := await reader.read(65536):
            if data.startswith(b"later "):
                await asyncio.sleep(float(data.split()[1]))
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()


class UdpEcho(asyncio.DatagramProtocol):
    def connection_made(self, transport):
        self.transport = transport

    def datagram_received(self, data, address):
        self.transport.sendto(data, address)


# ---- DNS ----

def encode_name(name):
    return b"".join(bytes([len(p)]) + p.encode() for p in name.split(".") if p) + b"\0"


def rdata(kind, value):
    if kind == "A":
        return socket.inet_aton(value)
    if kind == "AAAA":
        return socket.inet_pton(socket.AF_INET6, value)
    if kind == "CNAME":
        return encode_name(value)
    if kind == "MX":
        preference, host = value.split()
        return struct.pack("!H", int(preference)) + encode_name(host)
    return bytes([len(value)]) + value.encode()


def records(name, kind, depth=0):
    entry = zone.get(name, {})
    ttl = entry.get("TTL", 30)
    if "CNAME" in entry and kind != "CNAME" and depth < 5:
        target = entry["CNAME"][0]
        return [(name, "CNAME", ttl, rdata("CNAME", target))] + records(target, kind, depth + 1)
    return [(name, kind, ttl, rdata(kind, value)) for value in entry.get(kind, [])]


def answer(message, limit):
    ident, flags, *_ = struct.unpack("!6H", message[:12])
    at, labels = 12, []
    while message[at]:
        labels.append(message[at + 1:at + 1 + message[at]].decode("latin-1"))
        at += 1 + message[at]
    name = ".".join(labels).lower()
    kind_number = struct.unpack("!H", message[at + 1:at + 3])[0]
    kind = next((k for k, v in TYPES.items() if v == kind_number), None)
    if query_log:
        query_log.write(json.dumps({"name": name, "type": kind or kind_number}) + "\n")
    known = name in zone
    found = records(name, kind) if kind else []
    question = message[12:at + 5]
    head = struct.pack("!6H", ident, 0x8180 | (0 if known else 3), 1, len(found), 0, 0)
    body = b"".join(encode_name(n) + struct.pack("!HHIH", TYPES[k], 1, ttl, len(d)) + d for n, k, ttl, d in found)
    if 12 + len(question) + len(body) > limit:
        return struct.pack("!6H", ident, 0x8380, 1, 0, 0, 0) + question
    return head + question + body


class Dns(asyncio.DatagramProtocol):
    def connection_made(self, transport):
        self.transport = transport

    def datagram_received(self, data, address):
        try:
            self.transport.sendto(answer(data, 1232), address)
        except (IndexError, struct.error):
            pass


async def dns_tcp(reader, writer):
    try:
        size = struct.unpack("!H", await reader.readexactly(2))[0]
        reply = answer(await reader.readexactly(size), 65535)
        writer.write(struct.pack("!H", len(reply)) + reply)
        await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    writer.close()


def tls_context():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(os.path.join(directory, "cert.pem"), os.path.join(directory, "key.pem"))

    def remember(connection, name, _):
        connection.vial_sni = name

    context.sni_callback = remember
    return context


async def main():
    loop = asyncio.get_running_loop()
    tls = tls_context()
    # Dual-stack wildcard sockets: every address of the namespace is a server. The limit lets long heads through.
    without = sys.argv[4] if len(sys.argv) > 4 else None
    await asyncio.start_server(http, None, 8080, backlog=512)
    await asyncio.start_server(http, [a for a in internet.V4 + internet.V6 if a != without] if without else None, 80, backlog=512)
    for port in (443, 8443):
        await asyncio.start_server(http, None, port, ssl=tls, backlog=512)
    for port in (7, 22, 25, 9000, 853, 7777):
        await asyncio.start_server(echo, None, port)
    # A wildcard UDP socket answers from the wrong address when there are many: one socket per address.
    for address in internet.V4 + internet.V6 if role == "internet" else [internet.HOST_V4, internet.HOST_V6]:
        for port in (9000, 443):
            await loop.create_datagram_endpoint(UdpEcho, (address, port))
    if role == "internet":
        for address in ("9.9.9.53", "8.8.8.8", "1.1.1.1"):
            await loop.create_datagram_endpoint(Dns, (address, 53))
            await asyncio.start_server(dns_tcp, address, 53)
    print("ready", flush=True)
    await asyncio.Event().wait()


asyncio.run(main())
