# SPDX-License-Identifier: Apache-2.0
"""sys.stdout and sys.stderr of the kernel: the pipes 1 and 2 themselves, so that prints, subprocesses and C code keep their order.

Two rules.
- Order between the pipes: before we write text to one, everything we wrote to another (stdout, stderr, messages) has been read by
  the agent. Asked with FIONREAD, only when we change from one to another.
- Buffering: a line goes out at once, as on a terminal, until there are more than a few in ten milliseconds; then it is a flood
  and is written in large pieces. The service thread (service.py) flushes what is left over.
"""

import fcntl
import io
import os
import struct
import sys
import termios
import time

from . import channel

BUFFER_BYTES = 128 * 1024
WINDOW_S = 0.01
LINES_PER_WINDOW = 16
# What a run may spend on order. Beyond it (a child process floods the other pipe, a cell alternates a hundred thousand times) order
# is lost, not time.
MAX_SETTLE_S = 1.0

STDOUT_FD, STDERR_FD = 1, 2
_last_fd = 0
_settle_left_s = MAX_SETTLE_S
_count = bytearray(4)
_unpack = struct.Struct("i").unpack


def _pending_bytes(fd):
    try:
        fcntl.ioctl(fd, termios.FIONREAD, _count, True)
    except OSError:
        return 0
    return _unpack(_count)[0]


def settle(fd):
    """Waits until the agent has read what we wrote to another pipe than `fd`."""
    global _last_fd, _settle_left_s
    previous = _last_fd
    if previous == fd:
        return
    _last_fd = fd
    if not previous or _settle_left_s <= 0 or not _pending_bytes(previous):
        return
    pause = 0.00002
    start = time.monotonic()
    while _pending_bytes(previous) and time.monotonic() - start < _settle_left_s:
        time.sleep(pause)
        pause = min(pause * 2, 0.005)
    _settle_left_s -= time.monotonic() - start


def start_run():
    global _last_fd, _settle_left_s
    _settle_left_s = MAX_SETTLE_S
    # The agent asks for a run when it has read everything of the last one.
    _last_fd = 0


class _Pipe(io.RawIOBase):
    def __init__(self, fd):
        self._fd = fd

    def writable(self):
        return True

    def fileno(self):
        return self._fd

    def write(self, data):
        settle(self._fd)
        return os.write(self._fd, data)


class _Buffer(io.BufferedWriter):
    """Knows whether it was written to: flushing takes a lock, and a lock asks for the time, which is a system call in a guest."""

    is_clean = True

    def write(self, data):
        self.is_clean = False
        return super().write(data)

    def flush(self):
        # Before, not after: what another thread writes meanwhile is not ours to call clean.
        self.is_clean = True
        try:
            super().flush()
        except BaseException:
            self.is_clean = False
            raise


class Stream(io.TextIOWrapper):
    """What user code prints to."""

    def __init__(self, fd, name):
        super().__init__(_Buffer(_Pipe(fd), BUFFER_BYTES), encoding="utf-8", errors="backslashreplace", newline="\n")
        self._is_clean = True
        self._name = name
        self._other = None
        self._window_end = 0.0
        self._lines = 0
        self._is_dirty = False
        self._arm = None

    @property
    def name(self):
        return self._name

    def write(self, text, _write=io.TextIOWrapper.write, _now=time.monotonic):
        if self._other._is_dirty:
            self._other.flush()
        self._is_clean = False
        count = _write(self, text)
        if self._is_dirty and self._lines > LINES_PER_WINDOW and _now() < self._window_end:
            return count
        self._after_write(text, _now())
        return count

    def _after_write(self, text, now):
        if now >= self._window_end:
            self._window_end = now + WINDOW_S
            self._lines = 0
        if "\n" in text:
            self._lines += 1
            if self._lines <= LINES_PER_WINDOW or self._arm is None:
                self.flush()
                return
        if not self._is_dirty:
            self._is_dirty = True
            if self._arm is None:
                self.flush()
            else:
                self._arm()

    def writelines(self, lines):
        for line in lines:
            self.write(line)

    def flush(self):
        if self._is_clean and self.buffer.is_clean:
            return
        self._is_dirty = False
        self._is_clean = True
        try:
            super().flush()
        except BaseException:
            self._is_clean = False
            raise

    def flush_if_dirty(self):
        """For the service thread."""
        if self._is_dirty:
            self.flush()
            return True
        return False

    def close(self):
        # A cell that closes sys.stdout must not take the next cell's output with it.
        self.flush()


stdout = stderr = None


def install():
    global stdout, stderr
    stdout = Stream(STDOUT_FD, "<stdout>")
    stderr = Stream(STDERR_FD, "<stderr>")
    stdout._other, stderr._other = stderr, stdout
    sys.stdout = sys.__stdout__ = stdout
    sys.stderr = sys.__stderr__ = stderr
    sys.stdin = sys.__stdin__ = open(os.devnull, encoding="utf-8")


def set_arm(arm):
    """`arm` wakes the service thread. None (in a forked child, where that thread does not exist): flush every write."""
    stdout._arm = stderr._arm = arm


def flush():
    stdout.flush()
    stderr.flush()


def send(message, is_followed=False):
    """A message in its place between the prints before and after it."""
    global _last_fd
    flush()
    # No waiting: before the agent looks at a message it takes what is in the other two pipes.
    _last_fd = channel.MESSAGES_FD
    channel.send(message, is_followed)
