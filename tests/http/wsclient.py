# SPDX-License-Identifier: Apache-2.0
"""A WebSocket client that can also misbehave."""

import base64
import os
import struct

from rawhttp import Connection, request_bytes

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10


class WebSocket:
    def __init__(self, address, path="/v1/websocket", key="secret", tls=False, headers=(), extra=b""):
        self.connection = Connection(address, tls=tls)
        nonce = base64.b64encode(os.urandom(16)).decode()
        self.connection.send(request_bytes("GET", path, [("Connection", "keep-alive, Upgrade"), ("Upgrade", "websocket"), ("Sec-WebSocket-Version", "13"),
                                                         ("Sec-WebSocket-Key", nonce), *headers], key=key) + extra)
        self.answer = self.connection.head()

    def send(self, opcode, data=b"", fin=True, masked=True, length=None):
        self.connection.send(frame(opcode, data, fin, masked, length))

    def receive(self):
        head = self.connection.take(2)
        size = head[1] & 127
        if size == 126:
            size = struct.unpack("!H", self.connection.take(2))[0]
        elif size == 127:
            size = struct.unpack("!Q", self.connection.take(8))[0]
        return head[0] & 15, self.connection.take(size)

    def close(self):
        self.connection.close()


def frame(opcode, data=b"", fin=True, masked=True, length=None):
    length = len(data) if length is None else length
    head = bytes([(0x80 if fin else 0) | opcode])
    flag = 0x80 if masked else 0
    if length < 126:
        head += bytes([flag | length])
    elif length < 65536:
        head += bytes([flag | 126]) + struct.pack("!H", length)
    else:
        head += bytes([flag | 127]) + struct.pack("!Q", length)
    if not masked:
        return head + data
    mask = os.urandom(4)
    masked_data = bytes(byte ^ mask[i % 4] for i, byte in enumerate(data)) if len(data) < 100_000 else xor_large(data, mask)
    return head + mask + masked_data


def xor_large(data, mask):
    n = len(data)
    key = (mask * (n // 4 + 1))[:n]
    return (int.from_bytes(data, "big") ^ int.from_bytes(key, "big")).to_bytes(n, "big")
