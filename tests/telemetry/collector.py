# SPDX-License-Identifier: Apache-2.0
"""A collector that does what it is told, well or badly, and keeps what it was sent.

    collector = Collector()                     # takes everything
    collector.then(answer(503), hang, answer()) # what the next requests meet; after that everything is taken again
"""

import base64
import json
import re
import socket
import ssl
import threading
import time
from dataclasses import dataclass

from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from waiting import wait_until

IDS = {"traceId": 32, "spanId": 16, "parentSpanId": 16}


@dataclass
class Request:
    method: str
    path: str
    headers: list  # of (lower-case name, value)
    body: bytes
    at: float
    connection: int

    def header(self, name):
        values = [value for key, value in self.headers if key == name]
        assert len(values) <= 1, f"{name} came {len(values)} times"
        return values[0] if values else None

    def message(self):
        """As protobuf's schema has it; what the schema does not know is an error. Two things are OTLP's own and are put right before: ids are
        hexadecimal (protobuf's JSON has base64), and enums are numbers and nothing else."""
        whole = json.loads(self.body)
        for span in spans_of(whole):
            assert type(span["kind"]) is int and type(span.get("status", {}).get("code", 0)) is int
            assert type(span["startTimeUnixNano"]) is str and type(span["endTimeUnixNano"]) is str
            for name, digits in IDS.items():
                if name in span:
                    assert re.fullmatch(f"[0-9a-f]{{{digits}}}", span[name]), f"{name} is {span[name]}"
                    span[name] = base64.b64encode(bytes.fromhex(span[name])).decode()
        return json_format.ParseDict(whole, ExportTraceServiceRequest())

    def spans(self):
        return [span for resource in self.message().resource_spans for scope in resource.scope_spans for span in scope.spans]


def spans_of(whole):
    return [span for resource in whole["resourceSpans"] for scope in resource["scopeSpans"] for span in scope["spans"]]


def answer(status=200, body=b"{}", **headers):
    if isinstance(body, dict):
        body = json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status} Whatever", "Content-Type: application/json", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def hang(collector, connection):
    collector.is_over.wait()


def close(collector, connection):
    return False


def saying(*pieces, pause=0.0, then=close):
    """Sends these bytes, whatever they are, and then closes or hangs."""
    def behave(collector, connection):
        for piece in pieces:
            connection.sendall(piece)
            time.sleep(pause)
        return then(collector, connection)
    return behave


class Nobody:
    """A port where nobody listens, and nobody else can: it is taken. Somebody may listen there later."""

    def __init__(self):
        self.socket = socket.socket()
        self.socket.bind(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}"

    def listen(self):
        self.socket.listen()
        return self.socket

    def close(self):
        self.socket.close()


class Collector:
    def __init__(self, place=None, context=None):
        self.requests, self.n_connections = [], 0
        self.script, self.usual = [], answer()
        self.is_over = threading.Event()
        self.context = context
        self.listener = place.listen() if place else socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.url = f"{'https' if context else 'http'}://127.0.0.1:{self.port}"
        self.connections = []
        threading.Thread(target=self.accept, daemon=True).start()

    def then(self, *behaviours):
        self.script += behaviours
        return self

    def always(self, behaviour):
        self.usual = behaviour
        return self

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.n_connections += 1
            self.connections.append(connection)
            threading.Thread(target=self.serve, args=(connection, self.n_connections), daemon=True).start()

    def serve(self, connection, number):
        try:
            if self.context:
                connection = self.context.wrap_socket(connection, server_side=True)
            with connection, connection.makefile("rb") as reader:
                while request := self.read(reader, number):
                    self.requests.append(request)
                    behaviour = self.script.pop(0) if self.script else self.usual
                    if callable(behaviour):
                        if not behaviour(self, connection):
                            return
                    else:
                        connection.sendall(behaviour)
        except (OSError, ssl.SSLError):
            pass

    @staticmethod
    def read(reader, number):
        line = reader.readline().decode("latin-1").split()
        if len(line) != 3:
            return None
        headers = []
        while (text := reader.readline().decode("latin-1").strip("\r\n")):
            name, _, value = text.partition(":")
            headers.append((name.lower(), value.strip()))
        size = int(dict(headers).get("content-length", 0))
        body = reader.read(size)
        return Request(line[0], line[1], headers, body, time.monotonic(), number) if len(body) == size else None

    def spans(self):
        return [span for request in list(self.requests) for span in request.spans()]

    def await_requests(self, n, seconds=10):
        wait_until(lambda: len(self.requests) >= n, seconds, lambda: f"{len(self.requests)} requests came, not {n}")
        return self.requests[:n]

    def await_spans(self, n, seconds=10):
        wait_until(lambda: sum(body.body.count(b'"spanId"') for body in list(self.requests)) >= n, seconds,
                   lambda: f"{len(self.spans())} spans came, not {n}")
        return self.spans()

    def drop_connections(self):
        for connection in self.connections:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def stop(self):
        self.is_over.set()
        try:
            self.listener.shutdown(socket.SHUT_RDWR)  # else the thread in accept() keeps the port
        except OSError:
            pass
        self.listener.close()
        self.drop_connections()
