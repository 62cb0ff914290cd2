# SPDX-License-Identifier: Apache-2.0
"""What the specifications of the API share beyond vial.py: patience, events, and a look behind the daemon's back."""

import hashlib
import json
import os
import sqlite3
import subprocess
import time
from pathlib import Path
from urllib.parse import quote, urlencode

from vial import SLOWNESS, slow  # noqa: F401  (handed on)

UNKNOWN_ID = "a" * 20


def wait_until(condition, seconds=20, interval=0.05):
    """Calls `condition` until it gives something true, which is returned; fails when it never does."""
    deadline = time.monotonic() + slow(seconds)
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, f"not within {slow(seconds):g} s"
        time.sleep(interval)


def with_query(path, /, **query):
    return path + "?" + urlencode(query, quote_via=quote)


def check_refusal(answer, *statuses):
    """An error as every route tells it; gives its sentence."""
    assert answer.status in statuses, f"{answer.status}: {answer.body[:300]!r}"
    body = answer.json()
    assert body["code"] == answer.status
    assert body["error"] and body["message"] == body["error"]
    assert body["type"] and body["request_id"] == answer.headers["X-Request-Id"]
    return body["error"]


# Server-sent events

def read_events(response):
    name, data = None, []
    for line in response:
        line = line.decode().rstrip("\r\n")
        if line.startswith("event:"):
            name = line[6:].strip()
        elif line.startswith("data:"):
            data.append(line[5:].removeprefix(" "))
        elif not line and data:
            yield name, json.loads("\n".join(data))
            name, data = None, []


def follow(client, method, path, body=None):
    """The events of a stream as they arrive; leaving the loop hangs up."""
    response = client.open(method, path, body)
    try:
        assert response.status == 200, response.read()
        assert response.headers["Content-Type"].startswith("text/event-stream")
        yield from read_events(response)
    finally:
        response.close()
        response.connection.close()


def all_events(client, method, path, body=None):
    return list(follow(client, method, path, body))


def chunks(events, name):
    return "".join(data["chunk"] for event, data in events if event == name)


# Commands

def out(sandbox, cmd, **fields):
    """What a command prints; it must succeed."""
    result = sandbox.exec(cmd, **fields)
    assert result["exit_code"] == 0, result
    return result["stdout"]


def exec_argv(sandbox, *argv, **fields):
    return sandbox.call("POST", "/exec", {"argv": argv, **fields})


def run(sandbox, code, language="python", **fields):
    return sandbox.call("POST", "/run", {"code": code, "language": language, **fields})


def processes(sandbox):
    return {process["pid"]: process for process in sandbox.call("GET", "/processes")["processes"]}


def stat(sandbox, path, **query):
    return sandbox.call("GET", with_query("/fs/stat", path=path, **query))


# Behind the daemon's back

def database(daemon, mode="ro"):
    return sqlite3.connect(f"file:{daemon.data}/db.sqlite?mode={mode}", uri=True, timeout=10)


def records(client, **filters):
    """The audit, oldest first, of whoever asks; up to a thousand."""
    return client.call("GET", with_query("/v1/audit", limit=1000, **filters))["items"][::-1]


def calls(daemon, sandbox):
    """The records of what ran in a sandbox, oldest first."""
    return [record for record in records(daemon.client(), sandbox=sandbox.id) if record["action"] in ("run", "exec", "pty")]


def host_id(daemon, sandbox):
    """A sandbox's name on the host, which is not its id when it came from the pool."""
    db = database(daemon)
    try:
        document, = db.execute("SELECT document FROM sandboxes WHERE id = ?", (sandbox.id,)).fetchone()
    finally:
        db.close()
    return json.loads(document).get("host_id") or sandbox.id


def files_with(folder, text):
    """The files below that have this text in them; what viald removes meanwhile has not."""
    found = []
    for path in folder.rglob("*"):
        try:
            if path.is_file() and text.encode() in path.read_bytes():
                found.append(path)
        except FileNotFoundError:
            pass
    return found


def command_lines():
    """Every process of the machine as (pid, words)."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                yield int(entry.name), (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
            except OSError:
                pass


def host_processes(daemon, sandbox, program):
    """Pids of a sandbox's processes on the host whose program has this name."""
    name = host_id(daemon, sandbox)
    return [pid for pid, words in command_lines() if Path(words[0]).name == program and any(name in word for word in words)]


def engine_processes(daemon, sandbox):
    """The processes the sandbox itself runs in: gVisor's kernel, or the monitor."""
    return host_processes(daemon, sandbox, "runsc-sandbox") or host_processes(daemon, sandbox, "vial-vmm")


def shim_processes(daemon, sandbox):
    return host_processes(daemon, sandbox, "vial-shim") or host_processes(daemon, sandbox, "vial-vmm")


def cgroups(daemon):
    tag = hashlib.sha256(str(daemon.data).encode()).hexdigest()[:8]
    return [str(path) for pattern in (f"*/vial-{tag}/*", f"vial-{tag}/*") for path in Path("/sys/fs/cgroup").glob(pattern) if path.is_dir()]


def leftovers(daemon):
    """All that sandboxes could leave: processes, mounts, cgroups, folders."""
    folders = [str(path) for name in ("sandboxes", "forks") if (daemon.data / name).exists() for path in (daemon.data / name).iterdir()]
    return daemon.left_behind() + cgroups(daemon) + folders


def descriptors(daemon):
    """What viald holds open, without numbers and without what comes and goes with the worker threads."""
    found = []
    for fd in Path(f"/proc/{daemon.process.pid}/fd").iterdir():
        try:
            found.append(os.readlink(fd).split(":[")[0])
        except FileNotFoundError:
            pass
    return sorted(found)


def add_key(daemon, project, role="developer", **fields):
    """A key of that project, which is made if there is none. Asks as the operator."""
    client = daemon.client()
    if project not in [one["name"] for one in client.call("GET", "/v1/projects")]:
        client.call("POST", "/v1/projects", {"name": project})
    return client.call("POST", "/v1/keys", {"name": f"test of {project}", "role": role, "project": project, **fields})["key"]


def served_routes(program):
    """[(method, pattern, verb, role)] of the native API, as viald itself says; ANY is a method too."""
    if not program.exists():
        return []  # collected without a build: pytest.ini makes that an error
    lines = subprocess.run([program, "--print-routes"], capture_output=True, text=True, timeout=20).stdout.splitlines()
    return [tuple(words) for *words, surface in map(str.split, lines) if surface == "native"]
