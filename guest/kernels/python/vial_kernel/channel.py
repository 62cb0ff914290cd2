# SPDX-License-Identifier: Apache-2.0
"""The two pipes between the agent and the kernel: a message is its length in decimal, a newline, and that many bytes of JSON.

`send` may be called from the main thread and from the service thread. An interrupt never cuts a message in two: while one is being
written the SIGINT handler (interrupts.py) only takes a note.
"""

import _thread
import json
import os

from . import interrupts

REQUESTS_FD = 3
MESSAGES_FD = 4
CONTROL_FD = 5

# The agent refuses longer ones; results are cut down long before (display.py).
MAX_MESSAGE_BYTES = 24 * 1024 * 1024
MAX_LENGTH_BYTES = 16
READ_BYTES = 64 * 1024
MAX_DEPTH = 24
MAX_INTEGER = 2**63 - 1

_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":")).encode
_lock = _thread.allocate_lock()
_held = b""


def plain(value, depth=0):
    """A copy of `value` that any JSON parser takes: no NaN, no integers beyond 64 bits, no odd keys or types, bounded depth."""
    if value is None or value is True or value is False:
        return value
    kind = type(value)
    if kind is str:
        return plain_text(value)
    if kind is int:
        return value if -MAX_INTEGER <= value <= MAX_INTEGER else str(value)
    if kind is float:
        return value if value - value == 0 else None
    if depth >= MAX_DEPTH:
        return plain_text(str(value))
    if isinstance(value, dict):
        return {plain_text(str(key)): plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item, depth + 1) for item in value]
    if isinstance(value, str):
        return plain_text(str(value))
    if isinstance(value, (bool, int)):
        return plain(int(value), depth)
    if isinstance(value, float):
        return plain(float(value), depth)
    if hasattr(value, "tolist"):
        return plain(value.tolist(), depth + 1)
    return plain_text(str(value))


def plain_text(text):
    """Without lone surrogates (pairs become their character) and without NUL."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text.replace("\0", "\ufffd") if "\0" in text else text


class Reader:
    """The messages of a pipe. No buffered file: each use of its lock asks for the time, which is a system call in a guest."""

    def __init__(self, fd):
        self._fd = fd
        self._bytes = bytearray()

    def has_bytes(self):
        return bool(self._bytes)

    def receive(self):
        """The next message, or None when the agent has gone."""
        while (end := self._bytes.find(b"\n", 0, MAX_LENGTH_BYTES)) < 0:
            if len(self._bytes) >= MAX_LENGTH_BYTES or not self._read():
                return None
        start, end = end + 1, end + 1 + int(self._bytes[:end])
        while len(self._bytes) < end:
            if not self._read():
                return None
        body = self._bytes[start:end].decode("utf-8")
        del self._bytes[:end]
        return json.loads(body)

    def _read(self):
        some = os.read(self._fd, READ_BYTES)
        self._bytes += some
        return bool(some)


def send(message, is_followed=False):
    """Writes a dict whose values are already plain(); with the next one when that follows at once, so that the agent wakes once."""
    global _held
    body = _encode(message).encode("utf-8", "replace")
    with interrupts.held(), _lock:
        _held += b"%d\n%b" % (len(body), body)
        if is_followed:
            return
        frame, _held = memoryview(_held), b""
        while frame:
            frame = frame[os.write(MESSAGES_FD, frame) :]
