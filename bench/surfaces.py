# SPDX-License-Identifier: Apache-2.0
"""Other services' dialects beside the native one, as their SDKs send it but without the SDKs' own time: a run, a create, an upload."""

import functools
import json

from harness import Daemon, ratio_row, timed

TURN = 10
UPLOAD_BYTES = 64 << 20
BINARY = {"Content-Type": "application/octet-stream"}
# What the Python package sends of bytes; of a file or a stream it sends the bytes as they are.
FORM = {"Content-Type": "multipart/form-data; boundary=boundary"}
FORM_HEAD = b'--boundary\r\nContent-Disposition: form-data; name="file"; filename="/tmp/up"\r\nContent-Type: application/octet-stream\r\n\r\n'
FORM_TAIL = b"\r\n--boundary--\r\n"


class E2B:
    """One sandbox, made through E2B's surface."""

    def __init__(self, daemon):
        self.daemon = daemon
        made = self.create()
        self.sandbox = made["sandboxID"]
        self.data = {"E2b-Sandbox-Id": self.sandbox, "X-Access-Token": made["envdAccessToken"]}

    def create(self):
        return json.loads(self.daemon.request("POST", "/v2/sandboxes", {"templateID": self.daemon.template, "timeout": 600}, {"X-API-Key": self.daemon.key}))

    def kill(self, sandbox):
        self.daemon.request("DELETE", f"/sandboxes/{sandbox}", None, {"X-API-Key": self.daemon.key})

    def run(self):
        answer = self.daemon.request("POST", "/execute", {"code": "1+1", "language": "python"}, {**self.data, "E2b-Sandbox-Port": "49999"})
        if b'"text":"2"' not in answer:
            raise RuntimeError(f"1+1 through E2B is {answer[:300]}")

    def upload(self, content, kind):
        self.daemon.request("POST", "/files?path=/tmp/up&username=user", content, {**self.data, **kind, "E2b-Sandbox-Port": "49983"})


def by_turns(n, ours, floor):
    """Times of both, in turns, so that what else the machine does meets both."""
    times = ([], [])
    ours(), floor()
    for _ in range(max(1, n // TURN)):
        for action, found in zip((ours, floor), times):
            found += [timed(action) for _ in range(TURN)]
    return times


def runs(n):
    with Daemon(pool_size=0, template="code-interpreter") as daemon:
        e2b = E2B(daemon)
        box = f"/v1/sandboxes/{e2b.sandbox}"
        bearer = {"Authorization": "Bearer " + daemon.key}
        context = json.loads(daemon.request("POST", box + "/repl/sessions", {"language": "python"}, bearer))["id"]
        panda = {**bearer, "User-Agent": "pandastack-py/0.10.0"}

        def native():
            daemon.run(e2b.sandbox)

        def command():
            daemon.call("POST", f"/sandboxes/{e2b.sandbox}/exec", {"argv": ["true"]})

        dialects = {
            "E2B": (e2b.run, native),
            "PandaStack": (lambda: daemon.request("POST", f"{box}/repl/sessions/{context}/run", {"code": "1+1"}, panda), native),
            "Podflare": (lambda: daemon.request("POST", f"/podflare{box}/exec", {"code": "1+1", "language": "python"}, bearer), native),
            "OpenAI Agents": (lambda: daemon.request("POST", f"/v1/sandbox/{e2b.sandbox}/exec", {"argv": ["true"], "timeout_ms": 30000}, bearer), command),
        }
        return [ratio_row(f"{'exec true' if floor is command else 'run 1+1'} through {name}", *by_turns(n, ours, floor),
                          "the same natively", 1.2) for name, (ours, floor) in dialects.items()]


def creates(n):
    with Daemon(pool_size=0, pool_blanks=0, template="minimal") as daemon:
        e2b = E2B(daemon)

        def timed_create(make, end):
            made = []
            spent = timed(lambda: made.append(make()))
            end(made[0])
            return spent

        times = ([], [])
        for _ in range(n):
            times[0].append(timed_create(lambda: e2b.create()["sandboxID"], e2b.kill))
            times[1].append(timed_create(daemon.create, daemon.delete))
        return [ratio_row("create through E2B", *times, "the same natively", 1.1)]


def uploads(n):
    content = bytes(UPLOAD_BYTES)
    with Daemon(pool_size=0, template="minimal") as daemon:
        e2b = E2B(daemon)
        native = f"/v1/sandboxes/{e2b.sandbox}/fs?path=/tmp/up"
        bearer = {"Authorization": "Bearer " + daemon.key, **BINARY}
        form = FORM_HEAD + content + FORM_TAIL
        times = ([], [], [])
        for _ in range(n):
            times[0].append(timed(lambda: e2b.upload(content, BINARY)))
            times[1].append(timed(lambda: e2b.upload(form, FORM)))
            times[2].append(timed(lambda: daemon.request("PUT", native, content, bearer)))
        # At least 0.8 times as fast.
        return [ratio_row(f"upload of {UPLOAD_BYTES >> 20} MiB through E2B{how}", ours, times[2], "the same natively", 1.25)
                for how, ours in (("", times[0]), (" as a form", times[1]))]


def cases(quick):
    return [functools.partial(runs, 40 if quick else 200), functools.partial(creates, 8 if quick else 30), functools.partial(uploads, 3 if quick else 10)]
