# SPDX-License-Identifier: Apache-2.0
"""The PyPI package podflare 0.0.22, unmodified, against viald: every method but those of terminals (test_podflare_pty.py) and Spaces (test_podflare_spaces.py)."""

import importlib
import os
import re
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from tools import add_key, records
from vial import slow

covers = pytest.mark.method
# What breaks clients that read lines: a line separator, an emoji beyond the BMP, NEL, what is not ASCII.
STRANGE = "Grüße \u2028 \U0001f600 \x85 Ångström\u2029 日本"


@pytest.fixture(scope="module")
def podflare(python_packages):
    sys.path.insert(0, str(python_packages("podflare==0.0.22")))
    module = importlib.import_module("podflare")
    yield module
    sys.path.pop(0)


@pytest.fixture(scope="module")
def transport(podflare, daemon):
    client = podflare.Client(host=daemon.url + "/podflare", api_key=daemon.key, timeout=slow(30))
    yield client
    client.close()


@pytest.fixture(scope="module")
def box(podflare, transport):
    with podflare.Sandbox(client=transport) as sandbox:
        yield sandbox


def status_of(podflare, call, *arguments, **keywords):
    """The one exception that this package knows, and whose answer it is."""
    httpx = sys.modules["httpx"]
    with pytest.raises(httpx.HTTPStatusError) as refused:
        call(*arguments, **keywords)
    return refused.value.response


# Sandboxes

@covers("Podflare Python 0.0.22", "Client.healthz", "Client.close")
def test_it_is_alive_and_says_so_in_one_word(podflare, daemon):
    client = podflare.Client(host=daemon.url + "/podflare")
    assert client.healthz() is True
    client.close()
    with pytest.raises(RuntimeError, match="closed"):
        client.healthz()


@covers("Podflare Python 0.0.22", "Client.create_sandbox", "Client.create_sandbox_info", "Client.destroy_sandbox")
def test_a_sandbox_is_what_was_asked_for(podflare, transport, client):
    made = transport.create_sandbox_info("minimal", timeout_seconds=777, idle_timeout_seconds=333, ram_mib=512, rootfs_gb=1, egress=True)
    assert (made["state"], made["template"]) == ("ready", "minimal")
    assert "endpoint" not in made, "the client would move there, and remember it on the disk"
    shown = client.call("GET", f"/v1/sandboxes/{made['id']}")
    assert (shown["memory_mb"], shown["network"]["mode"], shown["status"]) == (512, "open", "running")
    life = client.call("GET", f"/v1/sandboxes/{made['id']}/lifecycle")
    assert (life["ttl_seconds"], life["idle_seconds"], life["on_idle"], life["persistent"]) == (777, 333, "delete", False)
    assert [record["surface"] for record in records(client, sandbox=made["id"])] == ["podflare"]
    transport.destroy_sandbox(made["id"])
    assert status_of(podflare, transport.destroy_sandbox, made["id"]).status_code == 404
    assert isinstance(transport.create_sandbox(), str)


@covers("Podflare Python 0.0.22", "Client.create_sandbox", differs="A disk is as large as its template's: a `rootfs_gb` beyond it is refused.")
def test_a_disk_that_no_template_has_is_refused(podflare, transport, client):
    before = len(client.sandboxes())
    refused = status_of(podflare, transport.create_sandbox, rootfs_gb=64)
    assert refused.status_code == 400 and "disk" in refused.json()["error"] and len(client.sandboxes()) == before


@pytest.mark.parametrize("name", [None, "default", "python-datasci", "minimal"])
def test_the_names_of_its_templates_are_known(podflare, transport, name, start_daemon):
    if name == "python-datasci":  # whose image is large
        daemon = start_daemon("--template-aliases", "python-datasci=minimal")
        transport = podflare.Client(host=daemon.url + "/podflare", api_key=daemon.key, timeout=slow(30))
    with podflare.Sandbox(client=transport, template=name) as sandbox:
        assert sandbox.run_code("1 + 1").stdout == "2"
    assert status_of(podflare, podflare.Sandbox, client=transport, template="no-such").status_code == 400


def test_the_network_is_the_settings_unless_it_is_said(podflare, start_daemon):
    daemon = start_daemon("--podflare-network", "open")
    transport = podflare.Client(host=daemon.url + "/podflare", api_key=daemon.key, timeout=slow(30))
    modes = [daemon.client().call("GET", f"/v1/sandboxes/{transport.create_sandbox(egress=egress)}/network")["mode"] for egress in (None, True, False)]
    assert modes == ["open", "open", "disabled"]


# Code

@covers("Podflare Python 0.0.22", "Sandbox.run_code")
def test_code_keeps_its_state_and_shows_its_value(box):
    assert box.run_code("x = 41\nprint('seen')").stdout == "seen"
    run = box.run_code("print('part', end='')\nx + 1")
    assert (run.stdout, run.stderr, run.exit_code, run.ok) == ("part\n42", "", 0, True)
    assert box.run_code("None").stdout == "" and box.run_code("'a\\nb'; [1,\n2]").stdout == "[1, 2]"
    failed = box.run_code("print('before')\n1 / 0")
    assert (failed.stdout, failed.exit_code, failed.ok) == ("before", 1, False) and "ZeroDivisionError: division by zero" in failed.stderr
    assert box.run_code("x").stdout == "41"


@covers("Podflare Python 0.0.22", "Sandbox.run_code")
def test_a_shell_keeps_its_state_too(box):
    assert box.run_code("cd /tmp; y=7; id -un", language="bash").stdout == "root"
    assert box.run_code("pwd; echo $y; echo wrong >&2; (exit 3)", language="bash").__dict__ == {"stdout": "/tmp\n7", "stderr": "wrong", "exit_code": 3}
    assert box.run_code("import os; print(os.getuid())").stdout == "0", "this dialect's examples write to /root"


@covers("Podflare Python 0.0.22", "Sandbox.run_code")
@pytest.mark.parametrize("code, language, stderr, exit_code", [
    ("exit 3", "bash", "", 3), ("exit", "bash", "", 0), ("set -e; false; echo no", "bash", "", 1), ("import sys; sys.exit(2)", "python", "", 2),
    ("exit()", "python", "", 0), ("import sys; sys.exit('no good')", "python", "no good", 1), ("no-such-command", "bash", "no-such-command", 127)])
def test_who_leaves_by_himself_is_no_error(box, code, language, stderr, exit_code):
    run = box.run_code(code, language=language)
    assert (run.stdout, run.exit_code) == ("", exit_code) and (stderr in run.stderr if stderr else run.stderr == "")
    assert box.run_code("echo goes on", language="bash").stdout == "goes on"


@covers("Podflare Python 0.0.22", "Sandbox.run_code_stream", "Client.exec_stream")
def test_events_come_line_by_line_while_it_runs(box, transport, client):
    """The program goes on when its line has arrived."""
    started, events = time.time(), []
    for event in box.run_code_stream("import os, sys, time\nfor i in range(3):\n  print(i)\n  while not os.path.exists(f'/tmp/arrived-{i}'): time.sleep(0.1)\n"
                                     "print('x\\n\\ny', end='')\nprint('e', file=sys.stderr)"):
        events.append(event)
        if event.data in ("0", "1", "2"):
            client.call("POST", f"/v1/sandboxes/{box.id}/exec", {"cmd": f"touch /tmp/arrived-{event.data}"})
    assert [(event.type, event.data) for event in events if event.type != "stderr"] == [
        ("stdout", "0"), ("stdout", "1"), ("stdout", "2"), ("stdout", "x"), ("stdout", ""), ("stdout", "y"), ("exit", 0)]
    assert [(event.type, event.data) for event in events if event.type == "stderr"] == [("stderr", "e")]
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert all(started - 2 < event.ts / 1000 < time.time() + 2 for event in events)
    assert [event.data for event in transport.exec_stream(box.id, "echo $((6 * 7))", "bash")] == ["42", 0]


@covers("Podflare Python 0.0.22", "Sandbox.run_code")
def test_no_character_is_lost_on_any_way(box):
    assert box.run_code(f"print({STRANGE!r}, end='')").stdout == STRANGE
    assert box.run_code(f"printf %s '{STRANGE}'", language="bash").stdout == STRANGE
    assert box.run_code(f"import sys; sys.stderr.write({STRANGE!r})").stderr == STRANGE
    assert box.run_code(f"{STRANGE!r}").stdout == repr(STRANGE)
    assert box.run_code(r"import sys; sys.stdout.buffer.write(b'a\xed\xa0\x80b')").stdout.strip("0123456789\n").strip("\ufffd") in ("a\ufffdb", "a" + "\ufffd" * 3 + "b")
    assert box.run_code("print('a\\r\\nb')").stdout == "a\r\nb"
    run = box.run_code(f"text = '{STRANGE}'\nprint(text)")
    assert (run.stdout, run.stderr) == (STRANGE, ""), "what is strange may stand in the code itself"


@covers("Podflare Python 0.0.22", "Sandbox.run_code")
def test_a_line_is_whole_up_to_what_anybody_may_take(box):
    assert len(box.run_code("print('x' * 9_000_000, end='')").stdout) == 9_000_000
    first, rest = box.run_code("print('y' * 17_000_000)").stdout.split("\n")
    assert first + rest == "y" * 17_000_000 and len(first) >= 16 * 1024 * 1024


@covers("Podflare Python 0.0.22", "Sandbox.run_code")
def test_a_silent_stretch_does_not_end_it(podflare, daemon, box):
    """The client gives up after so long without a byte; it has 30 s by itself."""
    impatient = podflare.Client(host=daemon.url + "/podflare", api_key=daemon.key, timeout=30)
    run = podflare.Sandbox._from_id(box.id, impatient).run_code("import time; time.sleep(33); print('awake')")
    assert (run.stdout, run.exit_code) == ("awake", 0)
    impatient.close()


@covers("Podflare Python 0.0.22", "Sandbox.run_code_stream")
def test_who_leaves_in_the_middle_ends_the_run(box):
    events = box.run_code_stream("import time\nprint('begun')\ntime.sleep(600)")
    assert next(events).data == "begun"
    started = time.monotonic()
    events.close()
    assert box.run_code("'free'").stdout == "'free'" and time.monotonic() - started < slow(15)


@covers("Podflare Python 0.0.22", "Sandbox.run_code")
def test_a_language_that_is_not_there_is_told_as_output(box):
    """A model chooses it, and reads what comes; an exception would end its agent."""
    run = box.run_code("1", language="cobol")
    assert run.exit_code == -1 and not run.ok and "cobol" in run.stderr and "python" in run.stderr
    assert box.run_code("[1, 2].length", language="javascript").stdout == "2"


@covers("Podflare Python 0.0.22", "Sandbox.run_code")
def test_a_sandbox_that_is_ended_under_a_run_says_so(podflare, transport):
    sandbox = podflare.Sandbox(client=transport)
    events = sandbox.run_code_stream("import time\nprint('begun')\ntime.sleep(600)")
    assert next(events).data == "begun"
    sandbox.close()
    last = list(events)
    assert [event.type for event in last] == ["stderr", "exit"] and last[0].data and last[-1].data == -1


def test_a_server_that_goes_away_is_an_error_of_the_line(podflare, start_daemon):
    daemon = start_daemon()
    sandbox = podflare.Sandbox(client=podflare.Client(host=daemon.url + "/podflare", api_key=daemon.key, timeout=slow(30)))
    events = sandbox.run_code_stream("import time\nprint('begun')\ntime.sleep(600)")
    assert next(events).data == "begun"
    daemon.kill()
    with pytest.raises(sys.modules["httpx"].TransportError):
        list(events)
    daemon.start()


# Files

@covers("Podflare Python 0.0.22", "Sandbox.upload", "Sandbox.download")
def test_files_go_up_and_down(box, tmp_path):
    content = os.urandom(3_000_000)
    (tmp_path / "up").write_bytes(content)
    box.upload(str(tmp_path / "up"), "/root/data/blob")
    assert box.download("/root/data/blob") == content, "one line of four million characters"
    box.upload("ü".encode(), f"/root/{STRANGE}")
    assert box.download(f"/root/{STRANGE}") == "ü".encode()
    with pytest.raises(IOError, match="FileNotFoundError"):
        box.download("/root/none")
    with pytest.raises(IOError, match="NotADirectoryError|FileExistsError"):
        box.upload(b"x", "/root/data/blob/below")


# Forks

@covers("Podflare Python 0.0.22", "Sandbox.fork", "Client.fork_sandbox", "Sandbox.diff", "Sandbox.merge_into", "Client.merge_into", "Sandbox.close")
def test_a_branch_is_tried_compared_and_taken_over(podflare, transport):
    with podflare.Sandbox(client=transport) as parent:
        parent.run_code("x = 1; open('/root/same', 'w').write('same'); open('/root/changed', 'w').write('old'); open('/root/gone', 'w').write('g')")
        children = parent.fork(2)
        assert len({parent.id, *(child.id for child in children)}) == 3
        winner, other = children
        winner.run_code("x = 2; import os; os.remove('/root/gone'); open('/root/changed', 'w').write('new'); open('/root/added', 'w').write('a')")
        assert [child.run_code("x").stdout for child in (parent, winner, other)] == ["1", "2", "1"]
        assert parent.diff(winner, paths=["/root"]) == {"added": ["/root/added"], "removed": ["/root/gone"], "modified": ["/root/changed"]}
        with pytest.raises(ValueError):
            parent.merge_into(parent)
        parent.merge_into(winner)
        assert parent.run_code("print(open('/root/changed').read(), x)").stdout == "new 2"
        assert status_of(podflare, winner.run_code, "1").status_code == 404
        winner.close()  # which it knows
        assert transport.fork_sandbox(other.id, 1) != [other.id]
        assert status_of(podflare, transport.fork_sandbox, other.id, 1000).status_code == 400
        transport.merge_into(parent.id, other.id)
        assert parent.run_code("x").stdout == "1"
    assert status_of(podflare, parent.run_code, "1").status_code == 404


# The record

@covers("Podflare Python 0.0.22", "Sandbox.replay", "Client.replay", differs="Its events are the records of the audit, whole: `type` is the action, `data` the record. "
        "What code printed is not kept there.")
def test_what_was_done_can_be_read_again(podflare, transport):
    with podflare.Sandbox(client=transport) as sandbox:
        sandbox.run_code(f"print({STRANGE!r})")
        sandbox.run_code("exit_me = 1 / 0")
        events = sandbox.replay()
        assert [event.type for event in events] == ["sandbox.create", "run", "run"]
        assert [event.data["outcome"] for event in events] == ["done", "done", "error"]
        assert events[1].data["body"]["code"] == f"print({STRANGE!r})" and events[2].data["error"] == "ZeroDivisionError"
        assert [event.seq for event in events] == sorted(event.seq for event in events)
        assert all(abs(event.ts / 1000 - time.time()) < slow(60) for event in events)
        assert transport.replay(sandbox.id) == events
    assert status_of(podflare, transport.replay, "a" * 20).status_code == 404


# Refusals

def test_each_refusal_has_its_status_and_a_sentence(podflare, daemon, transport, box):
    none = "a" * 20
    for call in (lambda: transport.fork_sandbox(none), lambda: list(transport.exec_stream(none, "1")), lambda: transport.merge_into(box.id, none),
                 lambda: transport.destroy_sandbox(none), lambda: transport.pty_list(none), lambda: transport.resume_space(none)):
        refused = status_of(podflare, call)
        assert refused.status_code == 404
    assert status_of(podflare, transport.create_sandbox, ram_mib=1).status_code == 400
    assert status_of(podflare, transport.create_sandbox, timeout_seconds="soon").status_code == 400
    assert status_of(podflare, transport.fork_sandbox, box.id, 0).status_code == 400
    nobody = podflare.Client(host=daemon.url + "/podflare", api_key="pf_" + "0" * 40)
    refused = status_of(podflare, nobody.create_sandbox)
    assert refused.status_code == 401 and refused.json()["error"]
    viewer = podflare.Client(host=daemon.url + "/podflare", api_key=add_key(daemon, "default", role="viewer"))
    assert status_of(podflare, viewer.create_sandbox).status_code == 403


def test_a_full_project_says_so_at_once(podflare, daemon):
    key = add_key(daemon, "pf-full")
    daemon.client().call("PUT", "/v1/projects/pf-full/quotas", {"max_sandboxes": 1})
    client = podflare.Client(host=daemon.url + "/podflare", api_key=key, timeout=slow(30))
    with podflare.Sandbox(client=client) as only:
        for call in (client.create_sandbox, only.fork):
            refused = status_of(podflare, call)
            assert refused.status_code == 429 and "Retry-After" not in refused.headers and "max_sandboxes" in refused.json()["error"]


def test_two_projects_do_not_see_each_other(podflare, daemon, box):
    other = podflare.Client(host=daemon.url + "/podflare", api_key=add_key(daemon, "pf-other", form="pf"), timeout=slow(30))
    mine = podflare.Sandbox(client=other)
    for call in (lambda: podflare.Sandbox._from_id(box.id, other).run_code("1"), lambda: other.fork_sandbox(box.id), lambda: other.replay(box.id),
                 lambda: other.destroy_sandbox(box.id), lambda: other.merge_into(mine.id, box.id), lambda: other.pty_list(box.id),
                 lambda: other.pty_input(box.id, "1", b"x"), lambda: other.pty_kill(box.id, "1"), lambda: other.pty_read(box.id, "1", 0),
                 lambda: other.delete_space(box.id), lambda: other.resume_space(box.id)):
        assert status_of(podflare, call).status_code == 404
    assert box.run_code("'here'").stdout == "'here'" and mine.run_code("'there'").stdout == "'there'"
    mine.close()


# The environment

def run_script(packages, source, **environment):
    return subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=slow(120),
                          env={"PATH": os.environ["PATH"], "PYTHONPATH": str(packages), **environment})


def test_both_variables_are_needed(podflare, python_packages, daemon, tmp_path):
    """Sandbox() looks at one of them, Client() and Sandbox(api_key=...) at the other: docs/podflare.md tells to set both."""
    here = daemon.url + "/podflare"
    source = ("import os, podflare\nwith podflare.Sandbox() as s: print(s.run_code('6 * 7').stdout)\n"
              "with podflare.Sandbox(api_key=os.environ['PODFLARE_API_KEY']) as s: print(s.run_code('6 * 7').stdout)\nprint(podflare.Client().healthz())")
    done = run_script(python_packages("podflare==0.0.22"), source, PODFLARE_API_URL=here, PODFLARE_HOSTD_URL=here, PODFLARE_API_KEY=daemon.key,
                      HOME=str(tmp_path))
    assert done.stdout.split() == ["42", "42", "True"], done.stderr[-2000:]
    assert not list(tmp_path.rglob("region-cache.json")), "nothing that would lead later sandboxes elsewhere was kept"


def test_the_sample_does_what_it_says(podflare, python_packages, daemon, tmp_path):
    here, page = daemon.url + "/podflare", (Path(__file__).resolve().parents[2] / "docs/podflare.md").read_text(encoding="utf-8")
    (source, says), = re.findall(r"^```python\n(.*?)^```\n\nprints\n\n((?:    [^\n]*\n)+)", page, re.MULTILINE | re.DOTALL)
    done = run_script(python_packages("podflare==0.0.22"), source, PODFLARE_API_URL=here, PODFLARE_HOSTD_URL=here, PODFLARE_API_KEY=daemon.key,
                      HOME=str(tmp_path))
    assert done.stdout == textwrap.dedent(says), done.stderr[-2000:]


def test_a_trace_goes_through(podflare, daemon, client):
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    traced = podflare.Client(host=daemon.url + "/podflare", api_key=daemon.key, traceparent=f"00-{trace}-00f067aa0ba902b7-01", timeout=slow(30))
    with podflare.Sandbox(client=traced) as sandbox:
        sandbox.run_code("1")
        assert [record["action"] for record in records(client, trace_id=trace)] == ["sandbox.create", "run"]


# The native paths, where it is plain whose words they are

def test_without_the_prefix_it_works_where_it_is_unambiguous(podflare, daemon, client):
    bare = podflare.Client(host=daemon.url, api_key=daemon.key, timeout=slow(30))
    with podflare.Sandbox(client=bare, egress=False, timeout_seconds=600) as sandbox:
        assert sandbox.run_code("import os; x = 5; print(os.getuid())").stdout == "0"
        child, = sandbox.fork(1)
        child.run_code("x = 6")
        ends = [client.call("GET", f"/v1/sandboxes/{one.id}")["expires_at"] for one in (sandbox, child)]
        assert all(ends), "a branch has the time to live of where it comes from"
        sandbox.merge_into(child)
        assert sandbox.run_code("x").stdout == "6"
        assert {record["surface"] for record in records(client, sandbox=sandbox.id)} == {"podflare"}
        assert client.call("POST", f"/v1/sandboxes/{sandbox.id}/exec", {"cmd": "echo native"})["stdout"] == "native\n"
        forked = client.call("POST", f"/v1/sandboxes/{sandbox.id}/fork", {})
        assert forked["sandbox"]["id"] and forked["tree_id"]
    assert bare.healthz() is False, "there this word is JSON"
    keyed = podflare.Client(host=daemon.url, api_key=add_key(daemon, "pf-keyed", form="pf"), timeout=slow(30))
    with podflare.Sandbox(client=keyed) as sandbox:
        assert sandbox.pty.list() == []


def test_one_sandbox_through_two_surfaces_is_one(box, client):
    box.run_code("open('/root/seen', 'w').write('by both')")
    answer = client.call("POST", f"/v1/sandboxes/{box.id}/exec", {"cmd": "cat /root/seen", "user": "root"})
    assert answer["stdout"] == "by both"
    assert box.id in [one["id"] for one in client.call("GET", "/v1/sandboxes")]
