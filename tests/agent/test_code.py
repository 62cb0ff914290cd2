# SPDX-License-Identifier: Apache-2.0
"""ctx.run with its code behind it: a cell of any size the guest takes, whole or not at all."""
import pytest

from wireclient import MAX_PAYLOAD

MIB = 1024 * 1024


def python_cell(size):
    head, tail = b"text = '''", b"'''\nlen(text)"
    return head + b"\xc3\xa9x\n#" * ((size - len(head) - len(tail)) // 5) + tail


def javascript_cell(size):
    head, tail = b"var text = `", b"`\ntext.length"
    return head + b"\xc3\xa9x\n'" * ((size - len(head) - len(tail)) // 5) + tail


def bash_cell(size):
    head, tail = b"text=$(cat <<'END'\n", b"\nEND\n)\necho ${#text}"
    return head + b"it's\n" * ((size - len(head) - len(tail)) // 5) + tail


def test_python_takes_a_cell_of_eight_mebibytes(notebook):
    code = python_cell(8 * MIB)
    cell = notebook.run_cell(code, "python")
    assert cell.error is None, cell.error
    assert int(cell.text) == len(code.decode()) - len("text = ''''''\nlen(text)")


def test_javascript_takes_a_cell_of_eight_mebibytes(notebook):
    code = javascript_cell(8 * MIB)
    cell = notebook.run_cell(code, "javascript")
    assert cell.error is None, cell.error
    assert int(cell.text) == len(code.decode()) - len("var text = ``\ntext.length")


def test_bash_takes_a_cell_of_eight_mebibytes(notebook):
    code = bash_cell(8 * MIB)
    cell = notebook.run_cell(code, "bash")
    assert cell.error is None, cell.error
    assert int(cell.stdout) == len(code) - len("text=$(cat <<'END'\n\nEND\n)\necho ${#text}") - 1


def test_many_statements_are_as_good_as_one_long_one(notebook):
    for language, line, last in (("python", b"n = 1\n", b"n"), ("javascript", b"n = 1;\n", b"n"), ("bash", b"n=1\n", b"echo $n")):
        cell = notebook.run_cell(line * 20000 + last, language)
        assert cell.error is None and (cell.text or cell.stdout).strip() == "1", (language, cell.error)


def test_a_small_cell_may_be_streamed_too(notebook):
    assert notebook.run_cell(b"6 * 7").text == "42"
    assert notebook.run_cell("6 * 7").text == "42"
    assert notebook.run_cell(b"").result["status"] == "ok"


def test_what_waits_in_the_queue_runs_in_order_and_whole(notebook):
    streams = [notebook.start_cell(python_cell(2 * MIB) + b"%+d" % number) for number in range(6)]
    texts = [int(stream.collect().events[-1]["data"]["text/plain"]) for stream in streams]
    assert [text - texts[0] for text in texts] == [0, 1, 2, 3, 4, 5]


def refusal(stream):
    result = stream.collect().result
    assert not result["ok"], result
    return result["code"], result["error"]


@pytest.mark.parametrize("sent", [0, 5, 11, MAX_PAYLOAD])
def test_a_wrong_sum_runs_nothing(notebook, sent):
    notebook.run_cell("ran = False")
    stream = notebook.open("ctx.run", language="python", execution_id="e", code_bytes=10)
    stream.send_data((b"ran = True" + b"#" * sent)[:sent] if sent < 10 else b"ran = True" + b"#" * (sent - 10))
    stream.send_eof()
    code, sentence = refusal(stream)
    assert code == "invalid" and "code_bytes" in sentence and "nothing ran" in sentence
    assert notebook.run_cell("ran").text == "False"


@pytest.mark.parametrize("code, word", [(b"x = '\xff\xfe'", "UTF-8"), (b"x = '\xed\xa0\x80'", "UTF-8"), (b"x = 1\0", "NUL")])
def test_bytes_that_are_no_text_run_nothing(notebook, code, word):
    stream = notebook.start_cell(code)
    refused, sentence = refusal(stream)
    assert refused == "invalid" and word in sentence and "nothing ran" in sentence


@pytest.mark.parametrize("fields, word", [
    ({"code_bytes": 16 * MIB + 1}, "code_bytes"), ({"code_bytes": -1}, "code_bytes"), ({"code_bytes": "1"}, "code_bytes"),
    ({"code_bytes": 1, "code": "1"}, "either"), ({}, "code"),
])
def test_a_size_beyond_the_limit_or_no_size_is_refused_at_once(notebook, fields, word):
    code, sentence = refusal(notebook.open("ctx.run", language="python", execution_id="e", **fields))
    assert code == "invalid" and word in sentence


def test_what_is_wrong_with_the_request_is_told_after_the_code_as_before_it(notebook):
    for fields in ({"language": "cobol"}, {"id": "nobody"}, {"language": "python", "timeout_ms": -1}):
        stream = notebook.open("ctx.run", execution_id="e", code_bytes=1, **fields)
        stream.send_data(b"1")
        stream.send_eof()
        assert refusal(stream)[0] in ("invalid", "not_found")


def test_cancelling_half_way_gives_the_memory_back(notebook):
    half = b"#" * (8 * MIB)
    for _ in range(12):  # more than the budget of all that waits, were it not given back
        stream = notebook.open("ctx.run", language="python", execution_id="e", code_bytes=16 * MIB)
        stream.send_data(half)
        stream.cancel()
        assert refusal(stream)[0] == "unavailable"
    assert notebook.run_cell("1 + 1").text == "2"


def test_too_much_waiting_code_is_refused_with_a_sentence(notebook):
    busy = notebook.start_cell("import os, time\nwhile not os.path.exists('/tmp/go'): time.sleep(0.05)")
    try:
        waiting = [notebook.start_cell(b"#" * (16 * MIB - 1) + b"\n") for _ in range(3)]
        more = [notebook.open("ctx.run", language="python", execution_id="e", code_bytes=16 * MIB) for _ in range(2)]
        code, sentence = refusal(more[1])
    finally:
        notebook.write("/tmp/go", b"")
    assert code == "limit" and "waiting" in sentence
    more[0].cancel()
    assert all(stream.collect().result["ok"] for stream in [busy, *waiting])
    assert notebook.run_cell("1 + 1").text == "2"


def test_an_environment_name_is_judged_by_one_rule(notebook):
    for name in ("", "A=B", "="):
        for operation, fields in (("exec", {"cmd": "true"}), ("ctx.run", {"language": "python", "code": "1", "execution_id": "e"})):
            code, sentence = refusal(notebook.open(operation, env={name: "x"}, **fields))
            assert code == "invalid" and sentence == f'env has a name that no environment variable can have: "{name}"'
    odd = {"with-dash": "1", "with space": "2", "NUMBER": 3, "é": "4"}
    assert notebook.run_cell("import os; [os.environ[n] for n in ('with-dash', 'with space', 'NUMBER', 'é')]", env=odd).text == "['1', '2', '3', '4']"
    assert notebook.run_cell("[process.env['with-dash'], process.env.NUMBER].join()", "javascript", env=odd).text == "'1,3'"
    cell = notebook.run_cell("echo $NUMBER ${HOME-none}", "bash", env={**odd, "a[$(touch /tmp/injected)]": "x", "HOME": None})
    assert cell.stdout == "3 none\n" and cell.error is None
    assert notebook.run_cell("echo ${NUMBER-gone}; env | grep -c ^HOME=; ls /tmp/injected 2>&1", "bash").stdout.startswith("gone\n1\nls: ")


def test_a_time_limit_has_one_maximum(notebook):
    week_ms = 7 * 24 * 3600 * 1000
    for operation, fields in (("exec", {"argv": ["true"]}), ("ctx.run", {"language": "python", "code": "1", "execution_id": "e"})):
        assert notebook.open(operation, timeout_ms=week_ms, **fields).collect().result["ok"]
        code, sentence = refusal(notebook.open(operation, timeout_ms=week_ms + 1, **fields))
        assert code == "invalid" and str(week_ms) in sentence
