# SPDX-License-Identifier: Apache-2.0
"""SIGINT: raises KeyboardInterrupt in user code, and never in ours.

Python runs signal handlers in the main thread between two byte codes, so a plain flag is enough. Between cells an interrupt
is dropped: it came too late for the cell it was meant for.

The handler only notes the signal where it comes between the last byte code and a system call that waits, or to another thread:
the main thread then waits on, with an interrupt that nobody raises. Python cannot close that gap, so the service thread hears of
every interrupt as well and wakes the main thread (`nudge`), some times, unless the handler has run.
"""

import signal
import _signal
import _thread

_main = _thread.get_ident()
_running = False
_held = 0
_pending = False
_was_raised = False
_seen = 0

# Ends a system call and does nothing else; by default it is ignored, also in processes that the user's code starts.
_NUDGE = signal.SIGURG

_getsignal, _SIGINT, _SIGURG = _signal.getsignal, int(signal.SIGINT), int(_NUDGE)


def _on_sigint(signum, frame):
    global _pending, _was_raised, _seen
    _seen += 1
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


def _on_nudge(signum, frame):
    pass


def seen():
    """How many have reached the handler."""
    return _seen


def nudge():
    """From another thread."""
    signal.pthread_kill(_main, _NUDGE)


def install():
    """Ours again, whatever the last cell did to it."""
    # In every run, so without signal's enumerations.
    if _getsignal(_SIGINT) is not _on_sigint:
        signal.signal(signal.SIGINT, _on_sigint)
    if _getsignal(_SIGURG) == _signal.SIG_DFL:
        signal.signal(_NUDGE, _on_nudge)


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
