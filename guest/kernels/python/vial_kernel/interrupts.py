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
_was_raised = False


def _on_sigint(signum, frame):
    global _pending, _was_raised
    if not _running:
        return
    if _held:
        _pending = True
        return
    _was_raised = True
    raise KeyboardInterrupt


def was_raised():
    """Whether this run has been interrupted."""
    return _was_raised


def install():
    """Ours again, whatever the last cell did to it."""
    if signal.getsignal(signal.SIGINT) is not _on_sigint:
        signal.signal(signal.SIGINT, _on_sigint)


def start():
    global _running, _pending, _was_raised
    _pending = _was_raised = False
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
        global _held, _pending, _was_raised
        if _thread.get_ident() == _main:
            _held -= 1
            if _pending and not _held and _running:
                _pending = False
                _was_raised = True
                raise KeyboardInterrupt
        return False


class dropped:
    """Ignores interrupts in the block: a cell that is being reported on is over, and its report must be whole."""

    __slots__ = ("_was_running",)

    def __enter__(self):
        global _running
        self._was_running, _running = _running, False

    def __exit__(self, *exc_info):
        global _running
        _running = self._was_running
        return False
