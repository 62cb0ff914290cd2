# SPDX-License-Identifier: Apache-2.0
"""The service thread: what must happen while user code has the main thread.

It hears the agent's control messages (reseeding after a resume, also in the middle of a cell; that an interrupt is on its way)
and flushes output that a cell has printed without a flush. It is no threading.Thread, so that user code does not see it in
threading.enumerate().
"""

import _thread
import os
import select

from . import channel, interrupts, reseed, streams

FLUSH_AFTER_MS = 10
# How long an interrupt may be on its way to the handler before the main thread is woken for it.
NUDGE_AFTER_MS = (20, 100, 500)

_wake_fd = -1
_nudging = _thread.allocate_lock()


def start():
    global _wake_fd
    _wake_fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
    streams.set_arm(_arm)
    os.register_at_fork(before=streams.flush, after_in_child=_after_fork_in_child)
    _thread.start_new_thread(_run, ())


def _arm():
    os.eventfd_write(_wake_fd, 1)


def _after_fork_in_child():
    streams.set_arm(None)


def _run():
    reader = channel.Reader(channel.CONTROL_FD)
    poller = select.poll()
    poller.register(channel.CONTROL_FD, select.POLLIN)
    poller.register(_wake_fd, select.POLLIN)
    is_armed = False
    while True:
        try:
            ready = [fd for fd, _ in poller.poll(FLUSH_AFTER_MS if is_armed else None)]
            if channel.CONTROL_FD in ready:
                is_open = _control(reader)
                while is_open and reader.has_bytes():
                    is_open = _control(reader)
                if not is_open:
                    return
            if _wake_fd in ready:
                os.eventfd_read(_wake_fd)
                is_armed = True
            elif is_armed:
                # Not `or`: both.
                is_armed = streams.stdout.flush_if_dirty() | streams.stderr.flush_if_dirty()
        except BlockingIOError:
            pass
        except Exception:
            # A broken stream of the user's must not end reseeding.
            is_armed = False


def _control(reader):
    message = reader.receive()
    if message is None:
        return False
    if message.get("type") == "reseed":
        reseed.reseed(bytes.fromhex(message["seed"]))
        channel.send({"type": "reseeded", "number": message["number"]})
    elif message.get("type") == "interrupt":
        _start_nudging()
    return True


def _start_nudging():
    if not _nudging.acquire(blocking=False):
        return
    try:
        _thread.start_new_thread(_nudge, (interrupts.seen(),))
    except RuntimeError:
        # No thread to be had: the interrupt itself is on its way.
        _nudging.release()


def _nudge(seen):
    try:
        for wait in NUDGE_AFTER_MS:
            select.poll().poll(wait)
            if interrupts.seen() != seen:
                return
            interrupts.nudge()
    finally:
        _nudging.release()
