# SPDX-License-Identifier: Apache-2.0
"""Runs inside a sandbox: a program with a port, for the tests of the ports proxy. Standard library only."""

import base64
import hashlib
import json
import os
import socket
import socketserver
import struct
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

PIECE = bytes(range(256)) * 256
events_seen = threading.Semaphore(0)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def reply(self, body, status=200, headers=()):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def body(self):
        """Pieces of the request's body, however it is framed."""
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            while size := int(self.rfile.readline().split(b";")[0], 16):
                yield self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return
        left = int(self.headers.get("Content-Length", 0))
        while left > 0:
            piece = self.rfile.read(min(left, 65536))
            if not piece:
                return
            left -= len(piece)
            yield piece

    def raw(self, *parts, pause=0.0):
        """Bytes without any help, then the end of the connection."""
        for part in parts:
            self.wfile.write(part)
            time.sleep(pause)
        self.close_connection = True

    def chunk(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def handle_any(self):
        path = urlsplit(self.path).path
        query = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}
        method = getattr(self, "on_" + path.strip("/").replace("-", "_").split("/")[0], None)
        if method:
            method(query)
        else:
            self.on_echo(query)

    do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = do_HEAD = do_PROPFIND = handle_any

    def on_echo(self, query):
        body = b"".join(self.body())
        answer = {"method": self.command, "path": self.path, "headers": [[n, v] for n, v in self.headers.items()], "body": body.decode("latin-1")}
        data = json.dumps(answer).encode()
        if self.command == "HEAD":
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
        else:
            self.reply(data, headers=[("Content-Type", "application/json"), ("Set-Cookie", "a=1"), ("Set-Cookie", "b=2")])

    def on_digest(self, query):
        digest, size = hashlib.sha256(), 0
        for piece in self.body():
            digest.update(piece)
            size += len(piece)
            time.sleep(float(query.get("pause", 0)))
        self.reply(json.dumps({"sha256": digest.hexdigest(), "size": size}).encode())

    def on_download(self, query):
        size, form = int(query["size"]), query.get("form", "length")
        self.send_response(200)
        if form == "length":
            self.send_header("Content-Length", str(size))
        elif form == "chunked":
            self.send_header("Transfer-Encoding", "chunked")
        else:
            self.close_connection = True
        self.end_headers()
        while size > 0:
            piece = PIECE[: min(size, len(PIECE))]
            size -= len(piece)
            self.chunk(piece) if form == "chunked" else self.wfile.write(piece)
        if form == "chunked":
            self.wfile.write(b"0\r\nX-Trailer: dropped\r\n\r\n")

    def on_events(self, query):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for n in range(int(query["count"])):
            self.wfile.write(b"data: %d\n\n" % n)
            events_seen.acquire()
        self.close_connection = True

    def on_next_event(self, query):
        events_seen.release()
        self.reply(b"")

    def on_endless(self, query):
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            while True:
                self.chunk(PIECE)
        except OSError:
            with open("/tmp/endless-ended", "w") as file:
                file.write("yes")
        self.close_connection = True

    def on_status(self, query):
        code = int(query["code"])
        self.send_response(code)
        self.send_header("ETag", '"x"')
        if code not in (204, 304):
            self.send_header("Content-Length", "0")
        self.end_headers()

    def on_interim(self, query):
        self.raw(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", pause=0.05)

    def on_bare_lines(self, query):
        self.raw(b"HTTP/1.0 200 OK\nContent-Type: text/plain\n\nplain")

    def on_redirect(self, query):
        self.reply(b"", 302, [("Location", query["to"])])

    def on_refuse_early(self, query):
        self.reply(b"too much", 413)
        self.request.shutdown(socket.SHUT_WR)
        time.sleep(100)  # a close with unread bytes would reset the connection, and could overtake the answer
        self.close_connection = True

    def on_echo_while_reading(self, query):
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for piece in self.body():
            self.chunk(piece)
        self.wfile.write(b"0\r\n\r\n")

    def on_die(self, query):
        self.send_response(200)
        if query.get("form") == "length":
            self.send_header("Content-Length", "1000000")
        else:
            self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.write(b"a" * 1000 if query.get("form") == "length" else b"3e8\r\n" + b"a" * 1000 + b"\r\n")
        self.wfile.flush()
        if query.get("how") == "kill":
            os._exit(1)
        self.close_connection = True

    def on_bad(self, query):
        self.raw(*{
            "nothing": [b""],
            "garbage": [b"\x16\x03\x01 what is this\r\n\r\n"],
            "half": [b"HTTP/1.1 200 OK\r\nContent-Le"],
            "two-lengths": [b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"],
            "both": [b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n"],
            "encoding": [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n"],
            "negative": [b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"],
            "header": [b"HTTP/1.1 200 OK\r\nno colon here\r\n\r\n"],
            "control": [b"HTTP/1.1 200 OK\r\nX-A: a\x00b\r\n\r\n"],
            "huge-head": [b"HTTP/1.1 200 OK\r\n" + b"X-A: " + b"a" * 200000 + b"\r\n\r\n"],
            "many-headers": [b"HTTP/1.1 200 OK\r\n" + b"X-A: a\r\n" * 1000 + b"\r\n"],
            "status": [b"HTTP/1.1 999 What\r\n\r\n"],
            "switch": [b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n"],
            "interim-flood": [b"HTTP/1.1 100 Continue\r\n\r\n" * 1000],
        }[query["kind"]])

    def on_ws(self, query):
        """A WebSocket that sends back what it gets; "bye" makes it close, "vanish" leave without a word."""
        key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())
        self.end_headers()
        self.wfile.write(frame(1, json.dumps({n: v for n, v in self.headers.items()}).encode()))
        try:
            while self.serve_message():
                pass
        except OSError:
            pass
        with open(f"/tmp/ws-ended-{query.get('mark', '')}", "a") as file:
            file.write("x")
        self.close_connection = True

    def serve_message(self):
        head = self.rfile.read(2)
        if len(head) < 2:
            return False
        length = head[1] & 0x7F
        if length == 126:
            (length,) = struct.unpack(">H", self.rfile.read(2))
        elif length == 127:
            (length,) = struct.unpack(">Q", self.rfile.read(8))
        mask, payload = self.rfile.read(4), self.rfile.read(length)
        key = int.from_bytes((mask * (length // 4 + 1))[:length], "big")
        payload = (int.from_bytes(payload, "big") ^ key).to_bytes(length, "big")
        opcode = head[0] & 0x0F
        if opcode == 8 or payload == b"bye":
            self.wfile.write(frame(8, struct.pack(">H", 1000)))
            return False
        if payload == b"vanish":
            self.request.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return False
        self.wfile.write(frame(opcode, payload))
        return True


def frame(opcode, payload):
    if len(payload) < 126:
        return bytes([0x80 | opcode, len(payload)]) + payload
    if len(payload) < 65536:
        return bytes([0x80 | opcode, 126]) + struct.pack(">H", len(payload)) + payload
    return bytes([0x80 | opcode, 127]) + struct.pack(">Q", len(payload)) + payload


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, request, address):
        pass


if __name__ == "__main__":
    socketserver.TCPServer.allow_reuse_address = True
    Server(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
