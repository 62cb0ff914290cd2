# SPDX-License-Identifier: Apache-2.0
"""Projects with keys of every role, and what the tests of governance ask again and again."""

import itertools
import socket
import threading
import time

from tools import check_refusal, wait_until
from vial import Client, slow

ROLES = ("viewer", "runner", "developer", "admin", "operator")  # each may do what those before it may
CUT_SECONDS = slow(10)  # within which what a key has open ends with it. The promise is a second; a machine that stalls is given more, and nothing else would end it so soon
counter = itertools.count(1)


def new_name():
    """With a dash, which no id has: a name is never part of one by chance."""
    return f"p-{next(counter)}"


class Project:
    """One that is made for a test. Its client is a developer's."""

    def __init__(self, operator, name=None, **fields):
        self.operator = operator
        self.name = name or new_name()
        self.path = f"/v1/projects/{self.name}"
        operator.call("POST", "/v1/projects", {"name": self.name, **fields})
        self.client = self.key("developer")

    def make_key(self, role="developer", **fields):
        """As it was answered: with its secret."""
        return self.operator.call("POST", "/v1/keys", {"name": f"{role} of {self.name}", "role": role, "project": self.name, **fields})

    def key(self, role="developer", **fields):
        """A client with a new key."""
        return Client(self.operator.url, self.make_key(role, **fields)["key"])

    def set_quotas(self, **quotas):
        return self.operator.call("PUT", self.path + "/quotas", quotas)

    def used(self):
        return self.operator.call("GET", self.path + "/quotas")["used"]

    def usage(self, group_by="none", **query):
        more = "".join(f"&{name}={value}" for name, value in query.items())
        return self.operator.call("GET", f"{self.path}/usage?group_by={group_by}{more}")

    def total(self):
        return self.usage()[0]


def refused_limit(answer, name, status=429):
    """A refusal for want of room: the sentence and the detail say which limit it is. Gives that detail."""
    sentence = check_refusal(answer, status)
    limit = answer.json()["detail"]["limit"]
    assert limit["name"] == name and name in sentence, answer.body
    return limit


def with_client(client, key):
    return Client(client.url, key)


def at_once(n, ask):
    """n threads that all call ask(number) at the same moment; what each got, in order."""
    results, gate = [None] * n, threading.Barrier(n)

    def go(number):
        gate.wait()
        try:
            results[number] = ask(number)
        except OSError as problem:
            results[number] = problem

    threads = [threading.Thread(target=go, args=(number,)) for number in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


class Stream:
    """An answer that goes on, read by a thread, which notes when it ends."""

    def __init__(self, client, method, path, body=None):
        self.response = client.open(method, path, body)
        assert self.response.status == 200, self.response.read()
        self.data, self.ended_at, self.socket = b"", None, self.response.fp.raw._sock
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        try:
            while piece := self.response.read1(65536):
                self.data += piece
        except (OSError, ValueError):
            pass
        except Exception:  # http.client tells of an end in the middle of a chunk in more than one way
            pass
        self.ended_at = time.monotonic()

    def wait_for(self, data):
        wait_until(lambda: data in self.data)
        return self

    def close(self):
        """Its reader notices; closing under it would wait for it."""
        try:
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


class OpenSocket:
    """A websocket, likewise."""

    def __init__(self, websocket):
        self.websocket, self.ended_at = websocket, None
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        try:
            while self.websocket.receive() is not None:
                pass
        except Exception:
            pass
        self.ended_at = time.monotonic()

    def close(self):
        try:
            self.websocket.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def all_end(streams, since, seconds=CUT_SECONDS):
    """Whether all have ended within so many seconds after `since`."""
    while time.monotonic() < since + seconds and not all(stream.ended_at for stream in streams):
        time.sleep(0.01)
    late = [index for index, stream in enumerate(streams) if not stream.ended_at]
    assert not late, f"of {len(streams)} streams these went on: {late}"
