# SPDX-License-Identifier: Apache-2.0
"""SIGINT: raises KeyboardInterrupt in user code, and never in ours.

Python runs signal handlers in the main thread between two byte codes, so a plain flag is enough. Between cells an interrupt
is dropped: it came too late for the cell it was meant for.
"""

import signal
import _thread

_main = _thread.get_ident()
_running = False
_held = 0
_pending = False


def _on_sigint(signum, frame):
    global _pending
    if not _running:
        return
    if _held:
        _pending = True
        return
    raise KeyboardInterrupt


def install():
    """Ours again, whatever the last cell did to it."""
    if signal.getsignal(signal.SIGINT) is not _on_sigint:
        signal.signal(signal.SIGINT, _on_sigint)


def start():
    global _running, _pending
    _pending = False
    _running = True


def stop():
    global _running
    _running = False


class held:
    """Puts an interrupt off until the block is left. Does nothing in other threads, which are never interrupted."""

    __slots__ = ()

    def __enter__(self):
        global _held
        if _thread.get_ident() == _main:
            _held += 1

    def __exit__(self, *exc_info):
        global _held, _pending
        if _thread.get_ident() == _main:
            _held -= 1
            if _pending and not _held and _running:
                _pending = False
                raise KeyboardInterrupt
        return False
