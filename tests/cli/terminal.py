# SPDX-License-Identifier: Apache-2.0
"""A program on a pseudo-terminal, driven as a person would: type, wait for what appears, look at the terminal afterwards."""

import fcntl
import os
import re
import select
import signal
import struct
import termios
import time


class Terminal:
    def __init__(self, argv, env, rows=24, columns=80):
        self.master, self.slave = os.openpty()  # ours stays open: the terminal's modes can be read after the program's end
        self.resize(rows, columns)
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self.master)
            os.login_tty(os.dup(self.slave))
            os.close(self.slave)
            os.execve(argv[0], argv, env)
        self.output, self.seen = b"", 0
        self.status = None

    def mode(self):
        return termios.tcgetattr(self.slave)

    def is_raw(self):
        return not self.mode()[3] & termios.ICANON

    def resize(self, rows, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, text):
        os.write(self.master, text.encode() if isinstance(text, str) else text)

    def read_some(self, timeout):
        ready, _, _ = select.select([self.master], [], [], timeout)
        if not ready:
            return False
        try:
            data = os.read(self.master, 65536)
        except OSError:
            return False
        self.output += data
        return bool(data)

    def expect(self, pattern, timeout=60):
        """Waits until `pattern` appears after what was matched before; returns the match."""
        pattern = re.compile(pattern.encode() if isinstance(pattern, str) else pattern, re.S)
        deadline = time.monotonic() + timeout
        while True:
            match = pattern.search(self.output, self.seen)
            if match:
                self.seen = match.end()
                return match
            if time.monotonic() > deadline:
                raise AssertionError(f"{pattern.pattern!r} did not appear after:\n{self.output[self.seen:]!r}")
            self.read_some(0.1)

    def wait(self, timeout=60):
        """The exit status, 128 + n for a signal; reads what is still printed."""
        deadline = time.monotonic() + timeout
        while self.status is None:
            self.read_some(0.05)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                code = os.waitstatus_to_exitcode(status)
                self.status = code if code >= 0 else 128 - code
            elif time.monotonic() > deadline:
                raise AssertionError(f"the program did not end; it printed:\n{self.output!r}")
        while self.read_some(0):
            pass
        return self.status

    def close(self):
        if self.status is None:
            try:
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
            except (ProcessLookupError, ChildProcessError):
                pass
        os.close(self.slave)
        os.close(self.master)
