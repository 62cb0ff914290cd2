# SPDX-License-Identifier: Apache-2.0
"""Two ways to run code in a sandbox, with one interface: over viald's HTTP API, and straight over the wire to the agent under runsc.

An execution is the dict of the native API; a stream is the list of (event, data) in the order of arrival.
"""
import base64
import json
import os
import shutil
import sys
import tempfile
import urllib.error
import urllib.parse
import urllib.request
import uuid

HERE = os.path.dirname(os.path.abspath(__file__))
PROJECT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(PROJECT, "tests", "agent"))
from waiting import slow  # noqa: E402
from wireclient import wait_until  # noqa: E402, F401

TIMEOUT = slow(40)  # of one request: its own limits are viald's and the agent's business


class Refused(Exception):
    """The operation was refused; the text says why."""


class AgentRunner:
    """The real agent and the kernels of this tree under runsc, without viald."""

    name = "agent"

    def __init__(self, agent, rootfs, memory_mb=0, image=None, of=None):
        import wireclient

        self.wire = wireclient
        self.folder = None
        if image:
            self.box = wireclient.Sandbox.start(agent, rootfs, image=image, bundle_of=of.box)
        else:
            self.box = self._start(agent, rootfs)
        answer = self.box.hello(memory_limit_mb=memory_mb)
        assert "error" not in answer, answer
        if not image:
            self.box.run("id user || useradd -m -u 1000 -s /bin/bash user; chown user:user /workspace", user="root")

    def _start(self, agent, rootfs):
        """The kernels lie beside the agent in the folder that the guest sees as /opt/vial."""
        self.folder = tempfile.mkdtemp(prefix="vial-kernels-")
        os.chmod(self.folder, 0o755)
        source = os.path.join(self.folder, "kernels")
        shutil.copytree(os.path.join(PROJECT, "guest", "kernels"), source, ignore=shutil.ignore_patterns("__pycache__"))
        kernels = {"destination": "/opt/vial/kernels", "type": "bind", "source": source, "options": ["ro", "rbind"]}
        return self.wire.Sandbox.start(agent, rootfs, extra_mounts=(kernels,))

    def _open(self, code, language, context, options):
        fields = {"code": code, "execution_id": uuid.uuid4().hex, **options}
        fields.update({"id": context} if context else {"language": language})
        return self.box.open("ctx.run", **fields)

    def start(self, code, language="python", context=None, **options):
        """Without waiting for its end; give the answer to finish()."""
        return self._open(code, language, context, options)

    def finish(self, stream, timeout=TIMEOUT):
        answer = stream.collect(timeout)
        if not answer.result["ok"]:
            raise Refused(answer.result["error"])
        errors = [event for event in answer.events if event.get("event") == "error"]
        execution = {
            **answer.result,
            "stdout": answer.stdout,
            "stderr": answer.stderr,
            "results": [event["data"] for event in answer.events if event.get("event") == "result"],
            "exit_code": answer.result.get("exit_code", 1 if errors else 0),
        }
        if errors:
            execution.update(error_name=errors[-1]["name"], error_value=errors[-1]["value"], error=errors[-1]["traceback"])
        return execution

    def run(self, code, language="python", context=None, timeout=TIMEOUT, **options):
        return self.finish(self._open(code, language, context, options), timeout)

    def stream(self, code, language="python", context=None, seen=lambda event: None, **options):
        """seen() hears of each output as it arrives."""
        stream = self._open(code, language, context, options)
        events = []
        while True:
            kind, channel, value = stream.next(TIMEOUT)
            if kind == "data":
                events.append(("stdout" if channel == self.wire.STDOUT else "stderr", value.decode(errors="replace")))
                seen(events[-1])
            elif kind == "event" and value["event"] in ("result", "clear", "error"):
                events.append((value["event"], value))
            elif kind == "close":
                events.append(("end", value))
                return events

    def abandon(self, handle):
        """As a client that leaves."""
        handle.cancel()
        handle.collect(30)

    def _call(self, op, **fields):
        try:
            return self.box.call(op, **fields).result
        except self.wire.WireError as problem:
            raise Refused(str(problem)) from None

    def create(self, language, cwd=None):
        return self._call("ctx.create", language=language, **({"cwd": cwd} if cwd else {}))["context"]["id"]

    def contexts(self):
        return self._call("ctx.list")["contexts"]

    def restart(self, context):
        self._call("ctx.restart", id=context)

    def interrupt(self, context):
        self._call("ctx.interrupt", id=context)

    def delete(self, context):
        self._call("ctx.delete", id=context)

    def read(self, path):
        return self.box.read(path)

    def write(self, path, content):
        self.box.write(path, content)

    def memory_kb(self):
        return self.box.call("metrics").result["memory_used_kb"]

    def close(self):
        self.box.close()
        if self.folder:
            shutil.rmtree(self.folder)


class HttpRunner:
    """A sandbox of a running viald: VIAL_URL and VIAL_API_KEY."""

    name = "http"

    def __init__(self, url, key, template, memory_mb=None):
        self.url, self.key = url.rstrip("/"), key
        body = {"template": template, "ttl_seconds": 3600}
        if memory_mb:
            body["memory_mb"] = memory_mb
        self.id = self._json("POST", "/v1/sandboxes", body)["id"]

    def _request(self, method, path, body=None, timeout=TIMEOUT):
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data, method=method)
        request.add_header("Authorization", f"Bearer {self.key}")
        request.add_header("Content-Type", "application/json")
        try:
            return urllib.request.urlopen(request, timeout=timeout)
        except urllib.error.HTTPError as problem:
            raise Refused(problem.read().decode(errors="replace")) from None

    def _json(self, method, path, body=None, timeout=TIMEOUT):
        text = self._request(method, path, body, timeout).read()
        return json.loads(text) if text else None

    def _path(self, context):
        return f"/v1/sandboxes/{self.id}/" + (f"repl/sessions/{context}/run" if context else "run")

    def run(self, code, language="python", context=None, timeout=TIMEOUT, **options):
        body = {"code": code, **options} if context else {"code": code, "language": language, **options}
        return self._json("POST", self._path(context), body, timeout)

    def start(self, code, language="python", context=None, **options):
        import threading

        answer = {}
        handle = threading.Thread(target=lambda: answer.update(self.run(code, language, context, **options)))
        handle.answer = answer
        handle.start()
        return handle

    def finish(self, handle, timeout=TIMEOUT):
        handle.join(timeout)
        return handle.answer

    def stream(self, code, language="python", context=None, seen=lambda event: None, **options):
        body = {"code": code, **options} if context else {"code": code, "language": language, **options}
        events, name = [], None
        for line in self._request("POST", self._path(context) + "/stream", body):
            line = line.decode().rstrip("\n")
            if line.startswith("event: "):
                name = line[7:]
            elif line.startswith("data: "):
                value = json.loads(line[6:])
                events.append((name, value["chunk"] if name in ("stdout", "stderr") else value))
                if name in ("stdout", "stderr"):
                    seen(events[-1])
        return events

    def abandon(self, handle):
        raise NotImplementedError("a blocking client cannot leave; tests/api does this")

    def create(self, language, cwd=None):
        body = {"language": language, **({"cwd": cwd} if cwd else {})}
        return self._json("POST", f"/v1/sandboxes/{self.id}/repl/sessions", body)["id"]

    def contexts(self):
        return self._json("GET", f"/v1/sandboxes/{self.id}/repl/sessions")

    def restart(self, context):
        self._json("POST", f"/v1/sandboxes/{self.id}/repl/sessions/{context}/restart", {})

    def interrupt(self, context):
        self._json("POST", f"/v1/sandboxes/{self.id}/repl/sessions/{context}/interrupt", {})

    def delete(self, context):
        self._json("DELETE", f"/v1/sandboxes/{self.id}/repl/sessions/{context}")

    def read(self, path):
        return self._request("GET", f"/v1/sandboxes/{self.id}/fs?path={urllib.parse.quote(path)}").read()

    def write(self, path, content):
        self._request("PUT", f"/v1/sandboxes/{self.id}/fs?path={urllib.parse.quote(path)}", content).read()

    def memory_kb(self):
        metrics = self._json("GET", f"/v1/sandboxes/{self.id}/metrics")
        return metrics.get("memory_used_kb") or metrics["memory_used_bytes"] // 1024

    def close(self):
        self._request("DELETE", f"/v1/sandboxes/{self.id}")


def is_png(text):
    return base64.b64decode(text)[:4] == b"\x89PNG"
