# SPDX-License-Identifier: Apache-2.0
"""HTTP over a plain socket, for requests no well-behaved client library would send."""

import json
import socket
import ssl
import time
from dataclasses import dataclass, field

# For a busy machine. Less than the server's shortest timeout, which would end what the server forgot to end.
PATIENCE_SECONDS = 25


@dataclass
class Answer:
    status: int
    headers: dict
    body: bytes
    raw_headers: list = field(default_factory=list)

    def json(self):
        return json.loads(self.body)


class Closed(Exception):
    """The server closed the connection without an answer, or in the middle of one."""

    def __init__(self, received=b""):
        super().__init__(f"closed after {len(received)} bytes")
        self.received = received


class Connection:
    def __init__(self, address, timeout=PATIENCE_SECONDS, tls=False):
        self.address = address
        self.opened = time.monotonic()
        if isinstance(address, str):
            self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self.socket.settimeout(timeout)
            self.socket.connect(address)
        else:
            self.socket = socket.create_connection(address, timeout=timeout)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls:
            context = ssl.create_default_context()
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            self.socket = context.wrap_socket(self.socket)
        self.buffer = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    def send(self, data):
        """Sends all; a server that hangs up meanwhile is no error, its answer tells."""
        try:
            self.socket.sendall(data)
            return True
        except (BrokenPipeError, ConnectionResetError):
            return False

    def fill(self):
        try:
            data = self.socket.recv(1 << 16)
        except ConnectionResetError:
            data = b""
        self.buffer += data
        return bool(data)

    def take(self, size):
        while len(self.buffer) < size:
            if not self.fill():
                raise Closed(self.buffer)
        data, self.buffer = self.buffer[:size], self.buffer[size:]
        return data

    def take_until(self, mark):
        while mark not in self.buffer:
            if not self.fill():
                raise Closed(self.buffer)
        data, self.buffer = self.buffer.split(mark, 1)
        return data

    def take_rest(self):
        while self.fill():
            pass
        data, self.buffer = self.buffer, b""
        return data

    def head(self):
        lines = self.take_until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        status = int(lines[0].split(" ")[1])
        pairs = [tuple(part.strip() for part in line.split(":", 1)) for line in lines[1:]]
        return Answer(status, {name.lower(): value for name, value in pairs}, b"", pairs)

    def chunk(self):
        size = int(self.take_until(b"\r\n").split(b";")[0], 16)
        data = self.take(size)
        self.take(2)
        return data

    def answer(self, method="GET"):
        answer = self.head()
        while answer.status == 100:
            answer = self.head()
        if method == "HEAD" or answer.status in (101, 204, 304):
            return answer
        if "content-length" in answer.headers:
            answer.body = self.take(int(answer.headers["content-length"]))
        elif answer.headers.get("transfer-encoding") == "chunked":
            while True:
                data = self.chunk()
                if not data:
                    break
                answer.body += data
        else:
            answer.body = self.take_rest()
        return answer

    def is_closed(self, timeout=PATIENCE_SECONDS):
        """Whether the server closes within `timeout`, saying nothing more."""
        usual = self.socket.gettimeout()
        self.socket.settimeout(timeout)
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True
        except (TimeoutError, socket.timeout):
            return False
        finally:
            self.socket.settimeout(usual)


def request_bytes(method, path, headers=(), body=None, key="secret", host="localhost"):
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}"]
    if key is not None:
        lines.append(f"Authorization: Bearer {key}")
    lines += [f"{name}: {value}" for name, value in headers]
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    head = "\r\n".join(lines) + "\r\n\r\n"
    return head.encode("latin-1") + (body or b"")


def ask(address, method, path, headers=(), body=None, key="secret", host="localhost", timeout=PATIENCE_SECONDS):
    with Connection(address, timeout) as connection:
        connection.send(request_bytes(method, path, headers, body, key, host))
        return connection.answer(method)
