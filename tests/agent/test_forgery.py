# SPDX-License-Identifier: Apache-2.0
"""The message pipe of a kernel belongs to the code that runs in it: whatever is written there costs that run or that kernel, and nobody else."""
import json

import pytest

# In a cell: put(value) writes a message, `me` is the run's id.
FORGE = """
import json, os, sys
from vial_kernel.display import run as _run
def put(message):
    raw(json.dumps({'id': _run.id, **message}))
def raw(body):
    body = body.encode() if isinstance(body, str) else body
    data = memoryview(b'%d\\n%b' % (len(body), body))
    while data:
        data = data[os.write(4, data):]
def result(data, **more):
    put({'type': 'result', 'data': data, **more})
def nested(depth):
    return json.loads('[' * depth + ']' * depth)
"""


@pytest.fixture
def forge(notebook):
    """forge(code): runs it in a kernel that can forge; the context is the test's own."""
    context = notebook.call("ctx.create", language="python").result["context"]["id"]
    # Our modules are not on user code's path, but in the same process.
    assert notebook.run_cell("import sys; sys.path.append('/opt/vial/kernels/python')\n" + FORGE, id=context).error is None

    def run(code, **fields):
        return notebook.run_cell(code, id=context, **fields)

    run.context = context
    yield run
    notebook.call("ctx.delete", id=context)


def depth_of(value):
    if isinstance(value, dict):
        return 1 + max(map(depth_of, value.values()), default=0)
    return 1 + max(map(depth_of, value), default=0) if isinstance(value, list) else 0


def test_what_the_kernels_promise_passes(forge):
    cell = forge("result({'application/json': nested(24), 'text/plain': 'x'}); result({'text/html': 'y'}); 7")
    assert [list(one["data"]) for one in cell.results] == [["application/json", "text/plain"], ["text/html"], ["text/plain"]]
    assert depth_of(cell.results[0]) == 26 and not cell.result["truncated"]


@pytest.mark.parametrize("depth", [25, 29, 30, 31, 32, 200, 5000])
def test_a_result_nested_too_deeply_is_replaced_by_a_sentence(forge, notebook, depth):
    cell = forge(f"raw('{{\"type\":\"result\",\"id\":\"' + _run.id + '\",\"data\":{{\"application/json\":' + '[' * {depth} + ']' * {depth} + '}}}}'); 7")
    assert [one["data"] for one in cell.results] == [{"text/plain": "[a result was left out: it is nested too deeply]"}, {"text/plain": "7"}]
    assert cell.error is None and cell.result["truncated"] and not cell.result["kernel_restarted"]
    assert notebook.wire.ping() == b"x"


def test_two_hundred_thousand_names_and_names_of_a_megabyte_are_left_out(forge):
    cell = forge("result({'application/json': {str(i): 0 for i in range(200_000)}, 'text/plain': 'many'})\n"
                 "result({'application/json': {'n' * 1_000_000: 0}})\n"
                 "result({'m' * 1_000_000: 'x', 'text/plain': 'long'})\n7")
    texts = [one["data"] for one in cell.results]
    assert all(list(data) == ["text/plain"] for data in texts) and len(texts) == 4
    assert texts[0]["text/plain"].startswith("many\n[left out: 1 ") and texts[2]["text/plain"].startswith("long\n[left out: 1 ")
    assert cell.error is None and cell.result["truncated"]


def test_a_million_values_are_left_out(forge, notebook):
    cell = forge("result({'application/json': [0] * 2_000_000}); 7")
    assert [one["data"]["text/plain"] for one in cell.results] == ["[a result was left out: it has too many values]", "7"]


@pytest.mark.parametrize("mime", ["text/\x1b[31mred", "text/plain\n", "no slash", "", "/", "a b/c", "text/html; x=\x9b", "é/é"])
def test_a_mime_type_is_held_to_its_characters(forge, mime):
    cell = forge(f"result({{{mime!r}: 'x', 'image/png': 'kept'}}); 7")
    assert sorted(cell.results[0]["data"]) == ["image/png", "text/plain"], cell.results
    assert "left out" in cell.results[0]["data"]["text/plain"] and cell.error is None


def test_the_kernels_own_way_to_an_odd_mime_type_is_no_other(notebook):
    cell = notebook.run_cell("from IPython.display import display\ndisplay({'odd \\x1b[2J': '1', 'text/plain': 'x'}, raw=True)")
    assert list(cell.results[0]["data"]) == ["text/plain"] and "left out" in cell.text
    cell = notebook.run_cell("display('x', 'odd \\x1b[2J')", "javascript")
    assert list(cell.results[0]["data"]) == ["text/plain"] and "left out" in cell.text


def test_an_errors_name_value_and_traceback_are_bounded(forge):
    cell = forge("put({'type': 'error', 'name': 'E\\x1b[2J' + 'n' * 1_000_000, 'value': 'v' * 5_000_000, 'traceback': 't' * 5_000_000})")
    assert len(cell.error["name"].encode()) <= 300 and "\x1b" not in cell.error["name"]
    assert len(cell.error["value"]) < 1_100_000 and cell.error["value"].endswith("[cut: 5000000 bytes in all]")
    assert len(cell.error["traceback"]) < 1_100_000


def test_a_run_has_one_error(forge):
    cell = forge("for i in range(1000): put({'type': 'error', 'name': 'E', 'value': str(i), 'traceback': ''})")
    assert [error["value"] for error in cell.errors] == ["0"]


@pytest.mark.parametrize("garbage", [
    b"hello", b"\n", b"12", b"5\nhello", b"2\n{}", b"2\n[]", b"-1\n", b"99999999999\n", b"\x00\xff\xfe", b"24\n{\"type\":\"result\",\"id\":1}",
    b"16\n{\"type\":\"other\"}", b"4\n\"\xff\xff\"",
])
def test_garbage_is_told_in_the_run_that_wrote_it(forge, notebook, garbage):
    forge("before = 1")
    cell = forge(f"print('shown')\nos.write(4, {garbage!r})\n'lost'")
    assert cell.error["name"] == "KernelDied" and "message pipe carried garbage" in cell.error["value"], (cell.error, cell.results)
    assert cell.result["kernel_restarted"] and cell.result["status"] == "error" and cell.stdout == "shown\n"
    after = forge("'before' in dir()")
    assert after.text == "False" and not after.result["kernel_restarted"] and after.error is None


def test_a_kernel_that_closes_its_message_pipe_is_told_in_the_same_run(forge):
    cell = forge("import time; os.close(4); time.sleep(1000)", timeout_ms=30000)
    assert cell.error["name"] == "KernelDied" and "closed its message pipe" in cell.error["value"] and not cell.result["timed_out"]
    assert forge("1 + 1").text == "2"


@pytest.mark.parametrize("done", ["{'exit_status': 0}", "{'exit_status': 0, 'execution_count': 2**63 - 1}", "{}"])
def test_a_forged_done_holds_nobody(forge, done):
    cell = forge(f"import time; put({{'type': 'done', 'execution_count': 9, **{done}}}); time.sleep(1000)", timeout_ms=60000)
    assert cell.result["ok"]
    if "exit_status" in done:
        after = forge("1 + 1", timeout_ms=60000)
        assert after.text == "2" and after.error is None
    else:  # the kernel is still asleep: the next run's time limit wakes it
        assert forge("1 + 1", timeout_ms=2000).result["timed_out"]
        assert forge("1 + 1", timeout_ms=60000).text == "2"


def test_forged_signs_of_life_do_not_put_off_the_end(forge):
    code = """
import threading, time
def lie():
    while True:
        put({'type': 'ending'}); put({'type': 'ready'}); put({'type': 'touched'}); raw('{"type":"reseeded","number":4294967295}')
        time.sleep(0.2)
threading.Thread(target=lie, daemon=True).start()
while True:
    try:
        time.sleep(1)
    except KeyboardInterrupt: pass
"""
    cell = forge(code, timeout_ms=12_000, grace_ms=1000)
    assert cell.result["timed_out"] and cell.error["name"] == "KernelKilled"
    assert forge("1 + 1").text == "2"


def test_a_flood_of_syncs_does_not_fill_the_agent(forge, notebook):
    cell = forge("for i in range(50_000): raw('{\"type\":\"sync\",\"number\":%d}' % i)\n7")
    assert cell.text == "7" and notebook.wire.ping() == b"x"


def test_who_is_left_behind_with_the_pipe_writes_to_nobody(forge, notebook):
    code = """
import os
if os.fork() == 0:
    os.setsid()
    with open('/tmp/left-behind', 'w') as file: file.write(str(os.getpid()))
    while True: os.write(4, b'x' * 65536)
os._exit(3)
"""
    cell = forge(code)
    assert cell.error["name"] == "KernelDied"
    assert notebook.wire.ping() == b"x"
    assert forge("1 + 1").text == "2"
    notebook.run("kill -9 $(cat /tmp/left-behind)")
    assert forge("1 + 1").text == "2"


# --- kernels that do not end ---


NEVER_ENDING = [
    ("python", "import multiprocessing, time, sys\nmultiprocessing.get_context('fork').Process(target=time.sleep, args=(1000,)).start()\nsys.exit()"),
    ("python", "import atexit, time\natexit.register(time.sleep, 1000)\nraise SystemExit(3)"),
    ("python", "import atexit, signal\nsignal.signal(15, signal.SIG_IGN)\natexit.register(lambda: [None for _ in iter(int, 1)])\nexit()"),
    ("javascript", "process.on('exit', () => { while (1) {} }); process.exit(1)"),
    ("bash", "trap '' TERM HUP; trap 'sleep 1000' EXIT; exit 2"),  # our own trap is gone with it: only the time limit ends it
]


@pytest.mark.parametrize("language, code", NEVER_ENDING, ids=[f"{language} {number}" for number, (language, _) in enumerate(NEVER_ENDING)])
def test_a_kernel_that_does_not_end_is_ended(notebook, language, code):
    context = notebook.call("ctx.create", language=language).result["context"]["id"]
    ended = notebook.run_cell(code, id=context, timeout_ms=3000)
    assert ended.result["ok"], ended.result
    after = notebook.run_cell("echo alive" if language == "bash" else "40 + 2", id=context, timeout_ms=60000)
    assert after.error is None and (after.stdout == "alive\n" or after.text == "42"), (after.error, after.result)
    notebook.call("ctx.delete", id=context)


def test_a_time_limit_covers_the_wait_for_a_kernel(notebook):
    """Python reads usercustomize before it is ours: that is a kernel which never comes up."""
    place = notebook.run("python3 -m site --user-site").stdout.strip()
    notebook.run(f"mkdir -p {place} && echo 'import time; time.sleep(1000)' > {place}/usercustomize.py")
    try:
        context = notebook.call("ctx.create", language="python").result["context"]["id"]
        streams = [notebook.start_cell("ran = True", id=context, timeout_ms=800) for _ in range(2)]
        for stream in streams:
            answer = stream.collect(30)
            assert answer.result["ok"] and answer.result["timed_out"] and answer.result["status"] == "error", answer.result
            assert answer.events[-1]["name"] == "KernelNotReady" and answer.result["files"] == []
    finally:
        notebook.run(f"rm {place}/usercustomize.py")
    notebook.call("ctx.restart", id=context)
    assert notebook.run_cell("'ran' in dir()", id=context, timeout_ms=60000).text == "False"
    notebook.call("ctx.delete", id=context)


# --- the budget of results ---


SHOW = "from IPython.display import HTML, display\nfor i in range({count}): display(HTML(str(i).rjust({size}, '.')))\n'the value'"


def test_results_beyond_the_budget_are_in_a_file(notebook):
    cell = notebook.run_cell(SHOW.format(count=40, size=100_000), max_results_bytes=1_000_000)
    assert 8 <= len(cell.results) <= 10 and cell.result["truncated"]
    omitted = [json.loads(line) for line in notebook.read(cell.result["results_file"]).splitlines()]
    assert len(omitted) == cell.result["results_omitted"] == 41 - len(cell.results) and "results_lost" not in cell.result
    everything = [int(one["data"]["text/html"].strip(".")) for one in (cell.results + omitted)[:-1]]
    assert everything == list(range(40)) and omitted[-1]["data"] == {"text/plain": "'the value'"} and omitted[-1]["is_main_result"]


def test_results_within_the_budget_leave_no_trace(notebook):
    cell = notebook.run_cell(SHOW.format(count=20, size=100_000))
    assert len(cell.results) == 21 and not cell.result["truncated"]
    assert not {"results_omitted", "results_file", "results_lost"} & set(cell.result)


def test_the_budget_has_a_default(notebook):
    cell = notebook.run_cell(SHOW.format(count=80, size=1_000_000))
    assert 60 <= len(cell.results) <= 68 and cell.result["results_omitted"] == 81 - len(cell.results)
    assert notebook.run(f"wc -l < {cell.result['results_file']}").stdout.strip() == str(cell.result["results_omitted"])


def test_a_full_disk_loses_whole_lines_and_says_how_many(notebook):
    notebook.run("df --output=avail -B1 /tmp | tail -1 > /tmp/room; head -c $(($(cat /tmp/room) - 3000000)) /dev/zero > /tmp/ballast", user="root")
    try:
        cell = notebook.run_cell(SHOW.format(count=20, size=1_000_000), max_results_bytes=0)
        assert cell.results == [] and cell.result["results_omitted"] == 21 and cell.result["results_lost"] > 0
        kept = [json.loads(line) for line in notebook.read(cell.result["results_file"]).splitlines()]
        assert len(kept) == 21 - cell.result["results_lost"]
    finally:
        notebook.run("rm -f /tmp/ballast", user="root")
