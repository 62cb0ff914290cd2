# SPDX-License-Identifier: Apache-2.0
"""A stand-in for viald, for tests of the CLI alone.

It answers the routes of the native API, running commands as plain processes of this machine in a directory per
sandbox: a test double for the client's behaviour, with no isolation at all. Hostile or broken answers, which the real
viald never gives, are asked for with special file names and commands (see `HOSTILE`)."""

import base64
import fcntl
import hashlib
import json
import os
import pty
import random
import re
import selectors
import shutil
import signal
import socket
import string
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
import urllib.parse
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from fake_governance import Governance
from fake_templates import Templates

KERNEL = r"""
import ast, contextlib, io, json, sys, traceback
names, real = {"__name__": "__main__"}, sys.stdout
def say(kind, **data):
    real.write(json.dumps({"event": kind, **data}) + "\n"); real.flush()
class Out(io.TextIOBase):
    def __init__(self, kind): self.kind = kind
    def write(self, text):
        if text: say(self.kind, chunk=text)
        return len(text)
def display(bundle): say("result", **bundle)
names["display"] = display
for line in sys.stdin:
    code, status = json.loads(line), "ok"
    with contextlib.redirect_stdout(Out("stdout")), contextlib.redirect_stderr(Out("stderr")):
        try:
            tree = ast.parse(code)
            last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
            exec(compile(tree, "<cell>", "exec"), names)
            if last:
                value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)
                if value is not None: say("result", **{"text/plain": repr(value), "is_main_result": True})
        except BaseException as error:
            status = "error"
            say("error", name=type(error).__name__, value=str(error), traceback=traceback.format_exc())
    say("end", status=status, exit_code=0 if status == "ok" else 1)
"""

WEBSOCKET_GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


def new_id():
    return "".join(random.choices(string.ascii_lowercase + string.digits, k=20))


def now():
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


EVIL = "\x1b]0;pwned\x07\x1b[6n\x1b]52;c;aGk=\x07\u009b6n\u009d0;pwned\u009c\x7f\x1bc"
PLAIN = {"id", "sandbox_id", "tree_id", "parent", "chunk_base64", "created_at", "expires_at", "mode", "type", "path"}


def tainted(value, name=""):
    """The answer of a server all of whose words are out to drive the terminal; ids and what the CLI acts on stay."""
    if isinstance(value, dict):
        return {(key + EVIL if name in ("metadata", "env") else key): tainted(item, key) for key, item in value.items()}
    if isinstance(value, list):
        return [tainted(item, name) for item in value]
    return value + EVIL if isinstance(value, str) and name not in PLAIN else value


class ApiError(Exception):
    def __init__(self, code, type_, sentence):
        self.body = {"code": code, "error": sentence, "message": sentence, "type": type_, "request_id": "req" + new_id()[:9]}
        self.code = code


def refuse(code, type_, sentence):
    raise ApiError(code, type_, sentence)


class Session:
    def __init__(self, language, cwd):
        self.id, self.language, self.cwd = new_id(), language, cwd
        self.start()

    def start(self):
        self.process = subprocess.Popen([sys.executable, "-u", "-c", KERNEL], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, cwd=self.cwd, start_new_session=True)

    def run(self, code, emit):
        before = snapshot_files(self.cwd)
        if self.language == "bash":
            done = subprocess.run(["bash", "-c", code], capture_output=True, text=True, cwd=self.cwd)
            if done.stdout:
                emit("stdout", {"chunk": done.stdout})
            if done.stderr:
                emit("stderr", {"chunk": done.stderr})
            end = {"status": "ok" if done.returncode == 0 else "error", "exit_code": done.returncode}
        else:
            self.process.stdin.write(json.dumps(code) + "\n")
            self.process.stdin.flush()
            end = None
            for line in self.process.stdout:
                event = json.loads(line)
                kind = event.pop("event")
                if kind == "end":
                    end = event
                    break
                emit(kind, event)
            if end is None:
                self.start()
                end = {"status": "error", "exit_code": 1, "kernel_restarted": True}
        changed = [p for p, t in snapshot_files(self.cwd).items() if before.get(p) != t]
        end["files"] = [{"path": "/workspace/" + os.path.relpath(p, self.cwd), "size": os.path.getsize(p), "mime": "text/plain"}
                        for p in sorted(changed)]
        end |= {"execution_id": new_id(), "execution_count": 1, "timed_out": False, "duration_ms": 1}
        emit("end", end)


def snapshot_files(root):
    return {os.path.join(d, f): os.stat(os.path.join(d, f)).st_mtime_ns for d, _, fs in os.walk(root) for f in fs}


class Sandbox:
    def __init__(self, root, body, parent=None):
        self.id = new_id()
        self.dir = os.path.join(root, self.id)
        self.workspace = os.path.join(self.dir, "workspace")
        if parent:
            shutil.copytree(parent.dir, self.dir)
        else:
            os.makedirs(self.workspace)
        self.env = body.get("env") or {}
        self.info = {"id": self.id, "template": body.get("template", "code-interpreter"), "engine": "gvisor",
                     "isolation": "user-space kernel", "cpu": body.get("cpu", 2), "memory_mb": body.get("memory_mb", 2048),
                     "status": "running", "metadata": body.get("metadata") or {},
                     "network": body.get("network") or {"mode": "disabled"}, "boot_ms": 12.5, "boot_mode": "restore",
                     "created_at": now(), "idle_seconds": body.get("idle_seconds", 0), "on_idle": body.get("on_idle", "delete")}
        if body.get("from_snapshot"):
            self.info["from_snapshot"] = body["from_snapshot"]
        if parent:
            self.info |= {"parent": parent.id, "boot_mode": "fork"}
        self.sessions, self.processes, self.default = {}, {}, {}
        self.cpu_ms = 0
        self.kept = []  # what its files were before runs with undo

    def copy(self):
        """Its files as they are now."""
        kept = tempfile.mkdtemp(dir=os.path.dirname(self.dir))
        return shutil.copytree(self.dir, os.path.join(kept, "files"))

    def become(self, files):
        shutil.rmtree(self.dir)
        shutil.copytree(files, self.dir)

    def keep(self, body):
        if body.get("undo"):
            self.kept.append(self.copy())
            self.info["undos"] = len(self.kept)

    def path(self, given):
        if given.startswith("/tmp"):
            return given
        if given.startswith("/workspace"):
            given = given[len("/workspace"):].lstrip("/")
        return os.path.normpath(os.path.join(self.workspace, given.lstrip("/")))

    def session(self, language):
        if language not in self.default:
            self.default[language] = Session(language, self.workspace)
        return self.default[language]

    def end(self):
        for session in [*self.sessions.values(), *self.default.values()]:
            session.process.kill()
            session.process.wait()
        for process in self.processes.values():
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        shutil.rmtree(self.dir, ignore_errors=True)


class FakeViald:
    key = "vk_test_0123456789"

    def __init__(self, port=0):
        self.root = tempfile.mkdtemp(prefix="fakeviald-")
        self.sandboxes, self.snapshots, self.files, self.requests = {}, {}, {}, []
        self.lock = threading.Lock()
        self.is_evil = False  # see tainted()
        self.governance = Governance()
        self.templates = Templates()
        fake = self

        class Handler(RequestHandler):
            viald = fake

        self.server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.server.daemon_threads = True
        self.url = "http://127.0.0.1:%d" % self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()
        for sandbox in list(self.sandboxes.values()):
            sandbox.end()
        shutil.rmtree(self.root, ignore_errors=True)

    def find(self, id_):
        sandbox = self.sandboxes.get(id_)
        if not sandbox:
            raise ApiError(404, "not_found", f"there is no sandbox {id_}: it has ended or never was")
        return sandbox


class RequestHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    viald = None

    def log_message(self, *args):
        pass

    # --- plumbing ---

    def answer(self):
        parsed = urllib.parse.urlsplit(self.path)
        self.query = dict(urllib.parse.parse_qsl(parsed.query, keep_blank_values=True))
        self.viald.requests.append((self.command, self.path))
        try:
            if not parsed.path.startswith("/v1/"):
                raise ApiError(404, "not_found", "there is no such route")
            if parsed.path != "/v1/healthz" and self.headers.get("Authorization") != "Bearer " + self.viald.key:
                raise ApiError(401, "unauthorized", "the key is missing or wrong")
            words = [urllib.parse.unquote(w) for w in parsed.path.split("/")[2:]]
            self.route(words)
        except ApiError as error:
            self.drain()
            self.reply(error.code, error.body)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    do_GET = do_PUT = do_POST = do_DELETE = do_PATCH = answer

    def reply(self, status, body=None, content_type="application/json"):
        if self.viald.is_evil and not isinstance(body, bytes):
            body = tainted(body)
        data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body, ensure_ascii=False).encode()
        self.send_response(status)
        if status != 204:
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def body_pieces(self):
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            while size := int(self.rfile.readline().split(b";")[0], 16):
                yield self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            left = int(self.headers.get("Content-Length") or 0)
            while left:
                piece = self.rfile.read(min(left, 1 << 16))
                if not piece:
                    raise BrokenPipeError
                left -= len(piece)
                yield piece
        self.body_read = True

    def drain(self):
        if not getattr(self, "body_read", False):
            for _ in self.body_pieces():
                pass
        self.body_read = False

    def json(self):
        data = b"".join(self.body_pieces())
        self.body_read = True
        return json.loads(data) if data else {}

    def sse_begin(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        self.wfile.write(b": hello\n\n")

    def sse(self, event, data):
        if self.viald.is_evil:
            data = tainted(data)
        self.wfile.write(f"event: {event}\ndata: {json.dumps(data)}\n\n".encode())
        self.wfile.flush()

    # --- routes ---

    def route(self, words):
        self.body_read = False
        method = self.command
        if self.viald.governance.route(self, method, words, self.query, refuse) or self.viald.templates.route(self, method, words, refuse):
            return
        match (method, *words):
            case ("GET", "healthz"):
                self.reply(200, {"status": "ok", "version": "0.1.0"})
            case ("GET", "templates"):
                self.reply(200, [{"name": "code-interpreter", "aliases": ["base"], "ready": True, "size_bytes": 1 << 30},
                                 {"name": "minimal", "aliases": [], "ready": True, "cpu": 2, "memory_mb": 2048, "size_bytes": 200 << 20},
                                 *self.viald.templates.own.values()])
            case ("GET", "templates", name):
                self.reply(200, {"name": name, "status": "ready"})
            case ("POST", "sandboxes"):
                self.create()
            case ("GET", "sandboxes"):
                self.list_sandboxes()
            case (_, "sandboxes", id_, *rest):
                self.sandbox_route(method, self.viald.find(id_), rest)
            case ("GET", "snapshots"):
                self.reply(200, list(self.viald.snapshots.values()))
            case (_, "snapshots", id_):
                snapshot = self.viald.snapshots.get(id_)
                if not snapshot:
                    raise ApiError(404, "not_found", f"there is no snapshot {id_}")
                if method == "DELETE":
                    del self.viald.snapshots[id_]
                    self.reply(204)
                else:
                    self.reply(200, snapshot)
            case _:
                raise ApiError(404, "not_found", "there is no such route")

    def create(self):
        body = self.json()
        if body.get("template") not in (None, "code-interpreter", "base", "minimal"):
            raise ApiError(400, "invalid", f"template: there is no template \"{body['template']}\"")
        if body.get("from_snapshot") and body["from_snapshot"] not in self.viald.snapshots:
            raise ApiError(404, "not_found", "from_snapshot: there is no such snapshot")
        sandbox = Sandbox(self.viald.root, body)
        self.viald.sandboxes[sandbox.id] = sandbox
        self.reply(201, sandbox.info | {"request": body})

    def list_sandboxes(self):
        infos = [s.info for s in self.viald.sandboxes.values()]
        for key, value in self.query.items():
            if key == "state":
                infos = [i for i in infos if i["status"] == value]
            elif key.startswith("metadata."):
                infos = [i for i in infos if i["metadata"].get(key[9:]) == value]
        page, start = 3, int(self.query.get("cursor", 0))  # tiny pages, so that paging is really used
        items = infos[start:start + page]
        if start + page < len(infos) or start:
            self.reply(200, {"items": items, "next": str(start + page) if start + page < len(infos) else None})
        else:
            self.reply(200, items)

    def sandbox_route(self, method, sandbox, rest):
        viald = self.viald
        match (method, *rest):
            case ("GET",):
                self.reply(200, sandbox.info)
            case ("DELETE",):
                del viald.sandboxes[sandbox.id]
                sandbox.end()
                self.reply(204)
            case ("POST", "exec"):
                self.exec(sandbox)
            case ("POST", "exec", "stream"):
                self.exec_stream(sandbox)
            case ("GET", "processes"):
                self.reply(200, {"processes": [
                    {"pid": p.pid, "cmd": " ".join(p.args), "user": "user", "state": "running" if p.poll() is None else "exited",
                     "exit_code": p.returncode, "started_at_ms": int(time.time() * 1000), "cpu_ms": 10, "rss_kb": 2048,
                     "background": True} for p in sandbox.processes.values()]})
            case ("POST", "processes", pid, "signal"):
                process = sandbox.processes.get(int(pid))
                if not process:
                    raise ApiError(404, "not_found", f"there is no process {pid}")
                os.killpg(process.pid, getattr(signal, "SIG" + self.json()["signal"]))
                process.wait(5)
                self.reply(204)
            case ("GET", "processes", pid, "attach"):
                process = sandbox.processes.get(int(pid))
                if not process:
                    raise ApiError(404, "not_found", f"there is no process {pid}")
                self.sse_begin()
                while data := os.read(process.stdout.fileno(), 1 << 16):
                    self.sse("stdout", {"chunk": data.decode(errors="replace")})
                self.sse("exit", {"exit_code": process.wait()})
            case (_, "fs", *_):
                self.fs(method, sandbox, rest[1:])
            case ("POST", ("pause" | "resume" | "hibernate" | "wake") as verb):
                sandbox.info["status"] = {"pause": "paused", "hibernate": "hibernated"}.get(verb, "running")
                self.reply(204)
            case ("POST", "snapshots"):
                snapshot = {"id": new_id(), "name": self.json().get("name"), "sandbox_id": sandbox.id,
                            "template": sandbox.info["template"], "size_bytes": 64 << 20, "created_at": now()}
                viald.snapshots[snapshot["id"]] = snapshot
                viald.files[snapshot["id"]] = sandbox.copy()
                self.reply(201, snapshot)
            case ("POST", "fork"):
                self.reply(201, {"sandbox": self.fork(sandbox, self.json().get("metadata"))})
            case ("POST", "fork-tree"):
                body, tree_id = self.json(), new_id()
                self.reply(201, {"tree_id": tree_id, "errors": [],
                                 "children": [self.fork(sandbox, body.get("metadata"), tree_id) for _ in range(body["count"])]})
            case ("POST", "promote"):
                body, deleted = self.json(), []
                for other in list(viald.sandboxes.values()):
                    same = other.info.get("tree_id") == sandbox.info.get("tree_id") is not None
                    if body["cleanup_siblings"] and same and other is not sandbox:
                        deleted.append(other.id)
                        viald.sandboxes.pop(other.id).end()
                self.reply(200, {"winner": sandbox.id, "tree_id": sandbox.info.get("tree_id"), "deleted": deleted, "failures": {}})
            case ("POST", "rollback"):
                sandbox.become(viald.files.get(self.json()["snapshot"]) or sandbox.copy())
                self.reply(200, sandbox.info)
            case ("POST", "merge"):
                winner = viald.sandboxes[self.json()["winner"]]
                sandbox.become(winner.copy())
                if winner is not sandbox:
                    viald.sandboxes.pop(winner.id).end()
                self.reply(200, sandbox.info)
            case ("POST", "undo"):
                if not sandbox.kept:
                    raise ApiError(409, "conflict", "there is nothing to undo")
                sandbox.become(sandbox.kept.pop())
                sandbox.info["undos"] = len(sandbox.kept)
                self.reply(200, sandbox.info)
            case ("GET", "metrics"):
                sandbox.cpu_ms += 50
                self.reply(200, {"cpu_ms": sandbox.cpu_ms, "memory_used_kb": 51200, "memory_limit_kb": 2 << 20,
                                 "disk_used_kb": 1000, "disk_total_kb": 10 << 20, "processes": 7, "load": 0.5})
            case ("GET", "network"):
                self.reply(200, sandbox.info["network"])
            case ("PUT", "network"):
                sandbox.info["network"] = self.json()
                self.reply(200, sandbox.info["network"])
            case ("POST", "network", "check"):
                self.reply(200, {"verdict": "deny", "rule": "baseline", "reason": "no rule allows it"})
            case ("GET", "network", "events"):
                self.reply(200, {"events": [{"time": now(), "verdict": "deny", "kind": "dns", "name": "example.com", "address": None, "port": 53,
                                             "rule": "baseline"}]})
            case ("GET", "ports"):
                self.reply(200, {"ports": [{"port": 8000, "address": "0.0.0.0"}]})
            case ("GET", "logs"):
                self.logs()
            case ("GET", "pty"):
                Pty(self, sandbox).run()
            case ("POST", "run"):
                self.run_collected(sandbox)
            case ("POST", "run", "stream"):
                body = self.json()
                self.run_stream(sandbox.session(body.get("language", "python")), body)
            case ("POST", "repl", "sessions"):
                session = Session(self.json().get("language", "python"), sandbox.workspace)
                sandbox.sessions[session.id] = session
                self.reply(201, {"id": session.id, "language": session.language, "cwd": "/workspace"})
            case (_, "repl", "sessions", sid, *verb):
                self.session_route(sandbox, sid, verb)
            case _:
                raise ApiError(404, "not_found", "there is no such route")

    def session_route(self, sandbox, sid, verb):
        session = sandbox.sessions.get(sid)
        if not session:
            raise ApiError(404, "not_found", f"there is no session {sid}")
        match verb:
            case []:
                sandbox.sessions.pop(sid).process.kill()
                self.reply(204)
            case ["run", "stream"]:
                self.run_stream(session, self.json())
            case ["interrupt"]:
                os.killpg(session.process.pid, signal.SIGINT)
                self.reply(204)
            case ["restart"]:
                session.process.kill()
                session.start()
                self.reply(204)

    def fork(self, parent, metadata, tree_id=None):
        child = Sandbox(self.viald.root, {"metadata": metadata or parent.info["metadata"]}, parent)
        if tree_id:
            child.info["tree_id"] = tree_id
        self.viald.sandboxes[child.id] = child
        return child.info

    def logs(self):
        if self.query.get("follow") != "1":
            self.reply(200, b"first line\nsecond \x1b]0;evil\x07line\n", "text/plain")
            return
        self.sse_begin()
        for i in range(3):
            self.sse("log", {"line": f"line {i}\n"})

    # --- commands ---

    def popen(self, sandbox, body, stdout, stderr):
        argv = body.get("argv") or ["bash", "-lc", body["cmd"]]
        try:
            return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=stdout, stderr=stderr, start_new_session=True,
                                    cwd=sandbox.path(body.get("cwd") or "/workspace"),
                                    env=os.environ | sandbox.env | (body.get("env") or {}))
        except FileNotFoundError:
            return subprocess.Popen(["bash", "-c", 'echo "$0: command not found" >&2; exit 127', argv[0]],
                                    stdin=subprocess.PIPE, stdout=stdout, stderr=stderr, start_new_session=True)

    def exec(self, sandbox):
        body = self.json()
        sandbox.keep(body)
        if body.get("background"):
            process = self.popen(sandbox, body, subprocess.PIPE, subprocess.DEVNULL)
            sandbox.processes[process.pid] = process
            self.reply(200, {"pid": process.pid})
            return
        started = time.monotonic()
        process = self.popen(sandbox, body, subprocess.PIPE, subprocess.PIPE)
        timed_out = False
        try:
            out, err = process.communicate((body.get("stdin") or "").encode(), timeout=body.get("timeout_seconds"))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            timed_out = True
        self.reply(200, {"stdout": out.decode(errors="replace"), "stderr": err.decode(errors="replace"),
                         "exit_code": process.returncode % 256, "duration_ms": int((time.monotonic() - started) * 1000),
                         "timed_out": timed_out, "truncated": False})

    def exec_stream(self, sandbox):
        body = self.json()
        sandbox.keep(body)
        argv = body.get("argv") or []
        if argv[:1] == ["HOSTILE-cut"]:  # the connection breaks in the middle
            self.sse_begin()
            self.sse("stdout", {"chunk": "half"})
            return
        if argv[:1] == ["HOSTILE-error"]:
            self.sse_begin()
            self.sse("error", {"error": "the sandbox \x1b[2Jdied"})
            return
        if argv[:1] == ["HOSTILE-nonsense"]:
            self.sse_begin()
            self.wfile.write(b"event: stdout\ndata: {not json\n\n")
            return
        process = self.popen(sandbox, body, subprocess.PIPE, subprocess.PIPE)
        sandbox.processes[process.pid] = process
        threading.Thread(target=self.feed, args=(process, body.get("stdin") or ""), daemon=True).start()
        self.sse_begin()
        deadline = time.monotonic() + body.get("timeout_seconds", 3600)
        timed_out, is_base64 = False, body.get("encoding") == "base64"
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ, "stdout")
            selector.register(process.stderr, selectors.EVENT_READ, "stderr")
            selector.register(self.connection, selectors.EVENT_READ, "client")
            while len(selector.get_map()) > 1:
                if time.monotonic() > deadline:
                    timed_out = True
                    os.killpg(process.pid, signal.SIGKILL)
                for key, _ in selector.select(0.1):
                    if key.data == "client":
                        os.killpg(process.pid, signal.SIGKILL)  # the client left
                        process.wait()
                        return
                    data = os.read(key.fd, 1 << 16)
                    if not data:
                        selector.unregister(key.fileobj)
                    elif is_base64:
                        self.sse(key.data, {"chunk_base64": base64.b64encode(data).decode()})
                    else:
                        self.sse(key.data, {"chunk": data.decode(errors="replace")})
        code = process.wait()
        self.sse("exit", {"exit_code": code if code >= 0 else 128 - code, "duration_ms": 1, "timed_out": timed_out})

    @staticmethod
    def feed(process, text):
        try:
            process.stdin.write(text.encode())
            process.stdin.close()
        except BrokenPipeError:
            pass

    # --- kernels ---

    def run_stream(self, session, body):
        self.sse_begin()
        session.run(body["code"], self.sse)

    def run_collected(self, sandbox):
        body = self.json()
        execution = {"results": [], "stdout": "", "stderr": ""}

        def emit(kind, data):
            if kind in ("stdout", "stderr"):
                execution[kind] += data["chunk"]
            elif kind == "result":
                execution["results"].append(data)
            elif kind == "error":
                execution["error"] = data["traceback"]
            else:
                execution.update(data)

        sandbox.session(body.get("language", "python")).run(body["code"], emit)
        self.reply(200, execution)

    # --- files ---

    def entry(self, path, name, shown):
        info = os.lstat(path)
        kind = "directory" if os.path.isdir(path) else "file"
        if os.path.islink(path):
            kind = "symlink"
        return {"name": name, "path": shown, "is_dir": kind == "directory", "type": kind, "size": info.st_size,
                "mode": "%04o" % (info.st_mode & 0o7777), "mtime": info.st_mtime}

    def fs(self, method, sandbox, rest):
        if (method, *rest) == ("POST", "mkdir"):
            os.makedirs(sandbox.path(self.json()["path"]), exist_ok=True)
            self.reply(204)
            return
        given = self.query.get("path", "")
        path = sandbox.path(given)
        if method == "PUT":
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path + ".part", "wb") as file:
                for piece in self.body_pieces():
                    file.write(piece)
            os.chmod(path + ".part", int(self.query.get("mode", "0644"), 8))
            os.replace(path + ".part", path)
            self.reply(204)
            return
        if os.path.basename(path) == "HOSTILE-names" and rest == ["dir"]:
            self.reply(200, {"entries": [
                {"name": "../escaped", "path": "x", "is_dir": False, "size": 4, "mode": "0644", "mtime": 0},
                {"name": "..", "path": "x", "is_dir": True, "size": 4, "mode": "0755", "mtime": 0},
                {"name": "a/b", "path": "x", "is_dir": False, "size": 4, "mode": "0644", "mtime": 0},
                {"name": "good", "path": "x", "is_dir": False, "size": 4, "mode": "6777", "mtime": 0}]})
            return
        if not os.path.lexists(path):
            raise ApiError(404, "not_found", f"there is no file {given}")
        match (method, *rest):
            case ("GET", "stat"):
                self.reply(200, self.entry(path, os.path.basename(path), given))
            case ("GET", "dir"):
                self.reply(200, {"entries": [self.entry(os.path.join(path, n), n, given + "/" + n)
                                             for n in sorted(os.listdir(path))]})
            case ("GET",):
                self.send_file(path)
            case ("DELETE",):
                os.remove(path)
                self.reply(204)

    def send_file(self, path):
        size = os.path.getsize(path)
        self.send_response(200)
        self.send_header("Content-Type", "application/octet-stream")
        self.send_header("Content-Length", str(size + (100 if path.endswith("HOSTILE-cut") else 0)))
        self.end_headers()
        with open(path, "rb") as file:
            while piece := file.read(1 << 20):
                self.wfile.write(piece)
                if path.endswith("HOSTILE-slow"):
                    self.wfile.flush()
                    time.sleep(0.2)
                if path.endswith("HOSTILE-stalls"):  # until the client leaves
                    self.wfile.flush()
                    self.connection.recv(1)
                    self.close_connection = True
                    return
        if path.endswith("HOSTILE-cut"):
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)


class Pty:
    """The WebSocket of docs/cli.md over a real pseudo-terminal."""

    def __init__(self, handler, sandbox):
        self.handler, self.sandbox, self.socket = handler, sandbox, handler.connection
        self.buffer = b""

    def run(self):
        handler, query = self.handler, self.handler.query
        if handler.headers.get("Upgrade", "").lower() != "websocket":
            raise ApiError(400, "invalid", "this route wants a WebSocket")
        if query.get("cwd") == "/HOSTILE-refused":
            raise ApiError(409, "conflict", "the sandbox is not in a state for a terminal")
        accept = base64.b64encode(hashlib.sha1((handler.headers["Sec-WebSocket-Key"] + WEBSOCKET_GUID).encode()).digest())
        handler.close_connection = True
        handler.wfile.write(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                            b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n")
        handler.wfile.flush()
        if query.get("cmd") == "HOSTILE-error":
            self.send(1, b'{"type":"error","error":"no terminal \\u001b[2Jtoday"}')
            self.send(8, struct.pack(">H", 1011))
            return
        if query.get("cmd") == "HOSTILE-drop":
            return
        pid, fd = pty.fork()
        if pid == 0:
            os.chdir(self.sandbox.path(query.get("cwd") or "/workspace"))
            argv = ["bash", "-c", query["cmd"]] if query.get("cmd") else ["bash", "--norc", "-i"]
            os.execvpe(argv[0], argv, os.environ | {"PS1": "guest$ ", "TERM": "xterm"})
        self.resize(fd, int(query.get("rows", 24)), int(query.get("cols", 80)))
        try:
            self.pump(pid, fd)
        finally:
            os.close(fd)

    @staticmethod
    def resize(fd, rows, columns):
        fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def send(self, opcode, payload):
        head = bytes([0x80 | opcode])
        if len(payload) < 126:
            head += bytes([len(payload)])
        else:
            head += bytes([126]) + struct.pack(">H", len(payload))
        self.socket.sendall(head + payload)

    def frames(self):
        """Complete frames of the buffer, unmasked."""
        while len(self.buffer) >= 2:
            length, at = self.buffer[1] & 0x7F, 2
            assert self.buffer[1] & 0x80, "a client's frames are masked"
            if length >= 126:
                size = 2 if length == 126 else 8
                if len(self.buffer) < at + size:
                    return
                length, at = int.from_bytes(self.buffer[at:at + size], "big"), at + size
            if len(self.buffer) < at + 4 + length:
                return
            mask, data = self.buffer[at:at + 4], self.buffer[at + 4:at + 4 + length]
            opcode = self.buffer[0] & 0x0F
            self.buffer = self.buffer[at + 4 + length:]
            yield opcode, bytes(b ^ mask[i % 4] for i, b in enumerate(data))

    def pump(self, pid, fd):
        with selectors.DefaultSelector() as selector:
            selector.register(fd, selectors.EVENT_READ, "pty")
            selector.register(self.socket, selectors.EVENT_READ, "client")
            while True:
                for key, _ in selector.select():
                    if key.data == "pty":
                        try:
                            data = os.read(fd, 60000)
                        except OSError:
                            data = b""
                        if data:
                            self.send(2, data)
                            continue
                        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                        self.send(1, json.dumps({"type": "exit", "exit_code": status if status >= 0 else 128 - status}).encode())
                        self.send(8, struct.pack(">H", 1000))
                        return
                    data = self.socket.recv(65536)
                    self.buffer += data
                    leaves = not data
                    for opcode, payload in self.frames():
                        if opcode == 2:
                            os.write(fd, payload)
                        elif opcode == 1:
                            message = json.loads(payload)
                            if message["type"] == "resize":
                                self.resize(fd, message["rows"], message["cols"])
                        elif opcode == 8:
                            leaves = True
                    if leaves:
                        os.kill(pid, signal.SIGKILL)
                        os.waitpid(pid, 0)
                        return


if __name__ == "__main__":
    fake = FakeViald(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    print(f"VIAL_URL={fake.url} VIAL_API_KEY={fake.key}", flush=True)
    try:
        signal.pause()
    except KeyboardInterrupt:
        fake.stop()
