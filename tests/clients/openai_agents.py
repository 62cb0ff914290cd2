# SPDX-License-Identifier: Apache-2.0
"""What the tests of the OpenAI Agents SDK for Python do with it, step by step, in a process that has it (worker.py). Bytes come and go as latin-1 text.

Which client it is, Cloudflare's or E2B's, is said once (`provider`); the steps are the same."""

import asyncio
import hashlib
import io
import json
import os
import time
from pathlib import Path

from agents import RunConfig, Runner, set_tracing_disabled
from agents.sandbox import LocalSnapshotSpec, Manifest, SandboxAgent, SandboxRunConfig, User
from agents.sandbox.entries import Dir, File
from agents.testing import ScriptedModel, assistant_message, function_call
from openai.types.responses import ResponseCustomToolCall

set_tracing_disabled(True)
client, options, sessions = None, {}, {}


def provider(name, **fields):
    """The client, and the options of every sandbox made from here on."""
    global client
    if name == "cloudflare":
        from agents.extensions.sandbox.cloudflare import CloudflareSandboxClient as Client, CloudflareSandboxClientOptions as Options
    else:
        from agents.extensions.sandbox.e2b import E2BSandboxClient as Client, E2BSandboxClientOptions as Options
    client = Client()
    options["class"], options["fields"] = Options, fields


def made_options(**changed):
    return options["class"](**{**options["fields"], **changed})


def known(session):
    return sessions[session]


def sandbox_id(session):
    return known(session)._inner.state.sandbox_id


def entries_of(tree):
    """{"dir": {"file": "text"}} as a manifest has it."""
    return {name: Dir(children=entries_of(what)) if isinstance(what, dict) else File(content=what.encode("latin-1")) for name, what in tree.items()}


async def create(session="main", files=None, env=None, snapshots=None, start=True, **changed):
    manifest = Manifest(entries=entries_of(files or {}), environment={"value": env or {}})
    made = await client.create(manifest=manifest, options=made_options(**changed), snapshot=LocalSnapshotSpec(base_path=Path(snapshots)) if snapshots else None)
    sessions[session] = made
    if start:
        await made.start()
    return sandbox_id(session)


async def end(session="main", times=1):
    for _ in range(times):
        await client.delete(known(session))


async def close(session="main"):
    await known(session).aclose()


async def stop(session="main"):
    await known(session).stop()


async def shutdown(session="main"):
    await known(session).shutdown()


def state_of(session="main"):
    """As an application keeps it between two processes."""
    return json.loads(json.dumps(client.serialize_session_state(known(session).state)))


async def resume(state, session="resumed", start=True):
    sessions[session] = await client.resume(client.deserialize_session_state(state))
    if start:
        await sessions[session].start()
    return sandbox_id(session)


async def running(session="main"):
    return await known(session).running()


def result_of(result):
    return [result.stdout.decode("latin-1"), result.stderr.decode("latin-1"), result.exit_code]


async def run(*_, argv, session="main", shell=False, timeout=None, user=None):
    return result_of(await known(session).exec(*argv, shell=shell, timeout=timeout, user=user))


async def timed_run(argv, timeout, session="main"):
    """What it raises, and after how long."""
    begun = time.monotonic()
    try:
        await known(session).exec(*argv, shell=False, timeout=timeout)
    except Exception as error:
        return type(error).__name__, time.monotonic() - begun
    return None, time.monotonic() - begun


async def big_output(megabytes, session="main"):
    result = await known(session).exec("head", "-c", str(megabytes << 20), "/dev/zero", shell=False, timeout=600)
    return [len(result.stdout), result.exit_code]


async def leave(argv, seconds, session="main"):
    """A command whose client leaves in the middle."""
    task = asyncio.ensure_future(known(session).exec(*argv, shell=False))
    await asyncio.sleep(seconds)
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        return True


async def write(path, content, session="main", user=None):
    await known(session).write(Path(path), io.BytesIO(content.encode("latin-1")), user=user)


async def write_text(path, text, session="main"):
    await known(session).write(Path(path), io.StringIO(text))


async def read(path, session="main", user=None):
    stream = await known(session).read(Path(path), user=user)
    return stream.read().decode("latin-1")


async def read_bounded(path, max_bytes, session="main"):
    return (await known(session).read_bounded(Path(path), max_bytes=max_bytes)).decode("latin-1")


async def many(count, size, session="main"):
    """Files written, and read again, all at the same time."""
    contents = [os.urandom(size) for _ in range(count)]
    await asyncio.gather(*(known(session).write(Path(f"many/{i}"), io.BytesIO(content)) for i, content in enumerate(contents)))
    back = await asyncio.gather(*(known(session).read(Path(f"many/{i}")) for i in range(count)))
    return [stream.read() for stream in back] == contents


async def big_file(megabytes, session="main"):
    """Up, and down again: is it the same, and how long took each."""
    content = os.urandom(1 << 20) * megabytes
    times = [time.monotonic()]
    await known(session).write(Path("big"), io.BytesIO(content))
    times.append(time.monotonic())
    back = (await known(session).read(Path("big"))).read()
    times.append(time.monotonic())
    await known(session).rm(Path("big"))
    return [hashlib.sha256(back).digest() == hashlib.sha256(content).digest(), times[1] - times[0], times[2] - times[1]]


async def ls(path, session="main"):
    return [[Path(entry.path).name, entry.kind.value, entry.size, entry.owner] for entry in await known(session).ls(Path(path))]


async def mkdir(path, session="main"):
    await known(session).mkdir(Path(path), parents=True)


async def rm(path, recursive=False, session="main"):
    await known(session).rm(Path(path), recursive=recursive)


async def mv(source, destination, session="main"):
    await known(session).mv(Path(source), Path(destination))


async def same_file(one, other, session="main"):
    return await known(session).same_file(Path(one), Path(other))


async def extract(path, archive, session="main"):
    await known(session).extract(Path(path), io.BytesIO(Path(archive).read_bytes()))


async def apply_patch(operations, session="main"):
    return await known(session).apply_patch(operations)


async def apply_manifest(files, session="main"):
    """More files for a sandbox that is there."""
    known(session).state.manifest = Manifest(entries=entries_of(files), environment=known(session).state.manifest.environment)
    return [str(file.path) for file in (await known(session).apply_manifest()).files]


async def persist(path, session="main"):
    Path(path).write_bytes((await known(session).persist_workspace()).read())


async def hydrate(path, session="main"):
    await known(session).hydrate_workspace(io.BytesIO(Path(path).read_bytes()))


async def skip(path, session="main"):
    return str(known(session).register_persist_workspace_skip_path(Path(path)))


def update_of(update):
    return [update.process_id, update.output.decode("utf-8", "replace"), update.exit_code]


async def pty(command, tty=True, seconds=10, session="main", user=None):
    begun = time.monotonic()
    update = await known(session).pty_exec_start(command, tty=tty, yield_time_s=seconds, user=user)
    return [*update_of(update), time.monotonic() - begun]


async def type_in(process, chars, seconds=5, session="main"):
    return update_of(await known(session).pty_write_stdin(session_id=process, chars=chars, yield_time_s=seconds))


async def type_until(process, chars, word, session="main"):
    """Types, and reads until a word is shown or the process has ended."""
    shown, deadline = "", time.monotonic() + 120
    while time.monotonic() < deadline:
        id, output, code = await type_in(process, chars, 0.3, session)
        shown, chars = shown + output, ""
        if word in shown or id is None:
            return [id, shown, code]
    return [id, shown, code]


async def pty_end(session="main"):
    await known(session).pty_terminate_all()


async def port(number, session="main"):
    endpoint = await known(session).resolve_exposed_port(number)
    return [endpoint.host, endpoint.port, endpoint.tls]


async def mount(bucket, path, session="main"):
    await known(session)._inner.mount_bucket(bucket=bucket, mount_path=path, options={})


async def unmount(path, session="main"):
    await known(session)._inner.unmount_bucket(path)


def tell(session="main"):
    known_session = known(session)
    return [known_session.describe(), str(known_session.normalize_path(Path("a/../b"))), known_session.supports_pty(), known_session.supports_docker_volume_mounts()]


async def hooks(session="main"):
    """What an application may leave with a session: is it called, once, before the session stops?"""
    seen = []

    async def before_stop():
        seen.append("stopping")

    known(session).register_pre_stop_hook(before_stop)
    known(session).set_dependencies(None)
    await known(session).run_pre_stop_hooks()
    return seen


async def accounts(session="main"):
    """Users of a manifest."""
    known(session).state.manifest = Manifest(users=[User(name="ada")])
    asked = known(session).should_provision_manifest_accounts_on_resume()
    await known(session)._inner.provision_manifest_accounts()
    return asked


def patch(text):
    return ResponseCustomToolCall(type="custom_tool_call", call_id="patch", name="apply_patch", input=text)


def output_of(call, id):
    """What the model is told of a call, in what it is asked next."""
    for item in call.input:
        if isinstance(item, dict) and item.get("call_id") == id and item["type"].endswith("_output"):
            return item["output"]


async def agent(cwd=None):
    """A whole run of an agent: a scripted model calls each of the sandbox's tools, and an answer of one decides what it does next."""
    def session_id(call):
        text = output_of(call, "ask")
        return [function_call("write_stdin", {"session_id": int(text.split("session ID ")[1].split()[0]), "chars": "Ada\n", "yield_time_ms": 5000}, call_id="type")]

    from agents.testing import ModelStep
    model = ScriptedModel([
        [function_call("exec_command", {"cmd": "printf '\\211PNG\\r\\n\\032\\n' > picture.png; cat notes.txt; echo problem >&2; exit 3", "yield_time_ms": 20000}, call_id="cat")],
        [function_call("exec_command", {"cmd": "read -p 'name? ' name; echo hello $name", "tty": True, "shell": "bash", "yield_time_ms": 1500}, call_id="ask")],
        ModelStep.respond(session_id),
        [patch("*** Begin Patch\n*** Update File: notes.txt\n@@\n-from the manifest\n+from the pätch\n*** Add File: sub/new.txt\n+added\n*** End Patch\n")],
        [function_call("exec_command", {"cmd": "cat notes.txt sub/new.txt", "yield_time_ms": 20000}, call_id="after")],
        [function_call("view_image", {"path": "picture.png"}, call_id="look")],
        [assistant_message("done")],
    ])
    helper = SandboxAgent(name="helper", instructions="Help.", model=model,
                          default_manifest=Manifest(entries={"notes.txt": File(content=b"from the manifest\n")}))
    result = await Runner.run(helper, "go", run_config=RunConfig(sandbox=SandboxRunConfig(client=client, options=made_options(), cwd=cwd)))
    model.assert_complete()
    last = model.calls[-1]
    return {"final": result.final_output, "tools": [tool.name for tool in model.calls[0].tools],
            **{id: output_of(last, id) for id in ("cat", "ask", "type", "patch", "after", "look")}}
