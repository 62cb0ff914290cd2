# SPDX-License-Identifier: Apache-2.0
"""How much fits: cells of 8 MiB, input of any size, and answers that stay small however much a guest shows."""

import hashlib
import json
import time

import pytest

from rawhttp import Connection, request_bytes
from tools import check_refusal, follow, records, run, slow, wait_until

MEGABYTE = 1 << 20
CELL = 8 * MEGABYTE
ANSWER = 24 * MEGABYTE  # VIAL_ANSWER_MAX_BYTES


@pytest.fixture(scope="module")
def sandbox(client):
    sandbox = client.create("code-interpreter")
    yield sandbox
    sandbox.delete()


HEAD, TAIL = 'text = "', '"\nlen(text)'


def cell_of(size):
    """A cell of exactly so many bytes, whose value is how many of them are its text."""
    return HEAD + "x" * (size - len(HEAD) - len(TAIL)) + TAIL


# Cells


@pytest.mark.parametrize("size", [100, 64 * 1024, 64 * 1024 + 1, 300_000, 2 * MEGABYTE, CELL])
def test_a_cell_may_have_up_to_8_mib(sandbox, size):
    result = run(sandbox, cell_of(size), timeout_ms=int(slow(60_000)))
    assert result["exit_code"] == 0, result
    assert int(result["results"][-1]["text/plain"]) == size - len(HEAD) - len(TAIL)


def test_a_large_cell_is_streamed_into_a_context_of_its_own_too(client, sandbox):
    context = sandbox.call("POST", "/repl/sessions", {"language": "bash"})
    code = ": '" + "y" * (3 * MEGABYTE) + "'; echo done"
    events = list(follow(client, "POST", f"{sandbox.path}/repl/sessions/{context['id']}/run/stream", {"code": code}))
    assert ("stdout", {"chunk": "done\n"}) in events and events[-1][0] == "end" and events[-1][1]["exit_code"] == 0
    sandbox.ask("DELETE", f"/repl/sessions/{context['id']}")


def test_escapes_do_not_make_a_cell_too_large(sandbox):
    """Every character of it takes six bytes in the body."""
    body = ('{"code": "' + "\\u0023" * (CELL - 10) + '"}').encode()
    answer = sandbox.ask("POST", "/run", body, headers={"Content-Type": "application/json"})
    assert answer.status == 200 and answer.json()["exit_code"] == 0, answer.body[:300]


def test_a_larger_cell_is_refused_by_name(sandbox):
    for path in ("/run", "/run/stream", "/repl/sessions/none/run"):
        assert "code" in check_refusal(sandbox.ask("POST", path, {"code": "#" * (CELL + 1)}), 400)


def test_a_body_beyond_all_sense_is_refused_before_it_is_read(daemon, client, sandbox):
    for path in ("/run", "/run/stream", "/exec", "/exec/stream", "/processes/1/stdin"):
        with Connection(("127.0.0.1", daemon.port)) as connection:
            connection.send(request_bytes("POST", sandbox.path + path, [("Content-Length", str(60 * MEGABYTE)), ("Expect", "100-continue")], key=client.key))
            assert connection.answer("POST").status == 413


def test_only_those_with_a_key_may_send_that_much(daemon, sandbox):
    before = daemon.rss_kb()
    with Connection(("127.0.0.1", daemon.port)) as connection:
        connection.send(request_bytes("POST", sandbox.path + "/run", [("Content-Length", str(40 * MEGABYTE))], key="vial_" + "x" * 40))
        connection.send(b"x" * (20 * MEGABYTE))
        assert daemon.rss_kb() - before < 8 * 1024


def test_a_cell_is_written_to_the_record_once(client, sandbox):
    mark = "a cell that is on record"
    result = run(sandbox, f"'{mark}'")
    told = [record for record in records(client, sandbox=sandbox.id) if mark in json.dumps(record)]
    assert [record["operation"] for record in told] == [result["execution_id"]]
    assert mark in told[0]["body"]["code"] and told[0]["exit_code"] == 0


# Input


def test_input_in_the_body_may_be_large(sandbox):
    text = "0123456789abcdef" * (20 * MEGABYTE // 16)
    assert sandbox.exec("wc -c", stdin=text)["stdout"].strip() == str(len(text))
    assert sandbox.exec("md5sum", stdin=text)["stdout"].split()[0] == hashlib.md5(text.encode()).hexdigest()


def test_input_of_any_size_is_streamed_to_a_process(daemon, sandbox):
    size = 150 * MEGABYTE
    pid = sandbox.spawn("wc -c > /tmp/counted", stdin="")
    before = daemon.rss_kb()
    answer = sandbox.ask("PUT", f"/processes/{pid}/stdin?close=true", b"z" * size)
    assert answer.status == 200 and answer.json() == {"bytes": size}
    assert daemon.rss_kb() - before < 32 * 1024
    wait_until(lambda: sandbox.exec("cat /tmp/counted")["stdout"].strip() == str(size))


def test_input_can_be_sent_in_several_parts(sandbox):
    pid = sandbox.spawn("cat > /tmp/parts", stdin="one ")
    assert sandbox.ask("PUT", f"/processes/{pid}/stdin", b"two ").json() == {"bytes": 4}
    assert sandbox.call("POST", f"/processes/{pid}/stdin", {"data": "three", "close": True}) == {"bytes": 5}
    wait_until(lambda: sandbox.exec("cat /tmp/parts")["stdout"] == "one two three")
    assert sandbox.ask("PUT", "/processes/999999/stdin", b"x").status == 404


# Answers


SHOW = "from IPython.display import display\nfor i in range(400): display({'text/html': str(i) + 'x' * 1_000_000}, raw=True)"


def test_a_collected_answer_has_a_budget_and_the_rest_is_in_a_file(daemon, sandbox):
    before = daemon.rss_kb()
    answer = sandbox.ask("POST", "/run", {"code": SHOW, "timeout_ms": int(slow(120_000))})
    result = answer.json()
    assert answer.status == 200 and len(answer.body) < ANSWER
    assert result["truncated"] is True and 1 <= len(result["results"]) < 20
    assert len(result["results"]) + result["results_omitted"] == 400
    assert daemon.rss_kb() - before < 200 * 1024
    lines = sandbox.exec(f"wc -l < {result['results_file']}; head -c 200 {result['results_file']}")["stdout"]
    assert int(lines.split()[0]) + result.get("results_lost", 0) == result["results_omitted"] and "text/html" in lines


def test_small_results_are_not_touched_by_the_budget(sandbox):
    result = run(sandbox, "from IPython.display import display\nfor i in range(50): display(i)")
    assert [bundle["text/plain"] for bundle in result["results"]] == [str(i) for i in range(50)]
    assert result["truncated"] is False and "results_omitted" not in result


def test_output_asked_for_beyond_the_budget_is_cut_and_kept(sandbox):
    result = run(sandbox, "print('x' * 30_000_000)", max_output_bytes=60 * MEGABYTE, timeout_ms=int(slow(60_000)))
    assert result["truncated"] is True and len(result["stdout"]) <= 4 * MEGABYTE
    assert sandbox.exec(f"wc -c < {result['full_output']}")["stdout"].strip() == "30000001"


def test_a_watch_that_nobody_reads_costs_viald_little(daemon, client, sandbox):
    """More changes than a window of the wire holds: what is not read stays in the guest, which says so in the end."""
    sandbox.exec("mkdir -p watched")
    response = client.open("GET", sandbox.path + "/fs/watch?path=/workspace/watched")
    assert b"watching" in response.readline() + response.readline()
    before = daemon.rss_kb()
    code = ("import os\n"
            "name = 'watched/' + 'n' * 200\n"
            "for i in range(60000):\n"
            "    open(name + str(i % 100), 'w').close(); os.unlink(name + str(i % 100))")
    assert sandbox.call("POST", "/exec", {"argv": ["python3", "-c", code], "timeout_seconds": slow(120)})["exit_code"] == 0
    time.sleep(1)
    grown = daemon.rss_kb() - before
    assert grown < 8 * 1024, f"viald holds {grown} KiB for a client that does not read"
    response.connection.close()
