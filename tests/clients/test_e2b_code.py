# SPDX-License-Identifier: Apache-2.0
"""The PyPI packages e2b-code-interpreter 2.11.5 and e2b 2.63.0, unmodified, against viald: code in contexts, and git, which the larger image has."""

import base64
import json
import time

import pytest

import e2b_box
from e2b_box import CODE, STRANGE
from tools import wait_until
from vial import images_dir, slow

covers = pytest.mark.method
pytestmark = pytest.mark.skipif(not (images_dir() / "code-interpreter.json").exists(), reason="the image `code-interpreter` is not built")


@pytest.fixture(scope="module")
def e2b():
    return e2b_box.load()


@pytest.fixture(scope="module")
def ci():
    return e2b_box.load("e2b_code_interpreter")


@pytest.fixture(scope="module")
def box(daemon, ci):
    box = e2b_box.create(daemon, ci.Sandbox.default_template, "e2b_code_interpreter", timeout=3600, envs={"FROM_SANDBOX": "all"})
    yield box
    box.kill()


# Running code

@covers("E2B Code Interpreter Python 2.11", "Sandbox.run_code")
def test_code_tells_what_it_printed_and_what_it_is(box):
    seen = []
    run = box.run_code("import sys\nprint('out')\nprint('err', file=sys.stderr)\n6 * 7", on_stdout=seen.append, on_stderr=seen.append, on_result=seen.append)
    assert (run.logs.stdout, run.logs.stderr, run.text, run.error) == (["out\n"], ["err\n"], "42", None)
    assert [type(one).__name__ for one in seen].count("Result") == 1 and {one.line for one in seen if hasattr(one, "line")} == {"out\n", "err\n"}
    assert run.results[0].is_main_result and run.execution_count >= 1
    again = box.run_code("_ + 1")
    assert again.text == "43" and again.execution_count == run.execution_count + 1
    assert box.run_code("x = 5").results == [] and box.run_code("'quoted'").text == "quoted"


@covers("E2B Code Interpreter Python 2.11", "Sandbox.run_code")
def test_text_of_any_kind_arrives(box):
    run = box.run_code(f"print({STRANGE!r}, end='')\n{STRANGE!r}")
    assert ("".join(run.logs.stdout), run.text) == (STRANGE, repr(STRANGE)[1:-1])
    lone = box.run_code("print('\\ud83d'.encode('utf-8', 'surrogatepass').decode('utf-8', 'replace'))")
    assert lone.error is None and "\ufffd" in "".join(lone.logs.stdout)
    long = box.run_code("for i in range(20000): print(i, 'ü')")
    assert "".join(long.logs.stdout) == "".join(f"{i} ü\n" for i in range(20000))


@covers("E2B Code Interpreter Python 2.11", "Sandbox.run_code")
def test_code_that_fails_says_how(ci, box):
    errors = []
    run = box.run_code("def f(): raise ValueError('grüße')\nf()", on_error=errors.append)
    assert (run.error.name, run.error.value) == ("ValueError", "grüße") and "raise ValueError" in run.error.traceback and errors[0].name == "ValueError"
    assert box.run_code("1 +").error.name == "SyntaxError"
    assert box.run_code("import os; os.environ['OWN'] + os.environ['FROM_SANDBOX']", envs={"OWN": "mine "}).text == "mine all"
    assert box.run_code("import os; os.environ.get('OWN')").text in (None, "None")
    with pytest.raises(ci.InvalidArgumentException if hasattr(ci, "InvalidArgumentException") else Exception):
        box.run_code("1", language="python", context=ci.Context("x", "python", "/"))


@covers("E2B Code Interpreter Python 2.11", "Sandbox.run_code")
def test_each_kind_of_result_has_its_field(box):
    shown = """
class Shown:
    def _repr_mimebundle_(self, include=None, exclude=None):
        return {"text/plain": "plain", "text/html": "<b>h</b>", "text/markdown": "**m**", "image/svg+xml": "<svg/>", "text/latex": "$x$",
                "application/json": {"a": [1, "ü"]}, "application/javascript": "alert(1)", "image/jpeg": "/9j/", "application/pdf": "JVBERg==",
                "application/x-own": "own"}
Shown()
"""
    result, = box.run_code(shown).results
    assert (result.text, result.html, result.markdown, result.svg, result.latex) == ("plain", "<b>h</b>", "**m**", "<svg/>", "$x$")
    assert (result.json, result.javascript, result.jpeg, result.pdf) == ({"a": [1, "ü"]}, "alert(1)", "/9j/", "JVBERg==")
    assert result.extra == {"application/x-own": "own"}
    assert set(result.formats()) >= {"text", "html", "markdown", "svg", "latex", "json", "javascript", "jpeg", "pdf"}
    many = box.run_code("from IPython.display import display, HTML\ndisplay(HTML('<i>1</i>'))\ndisplay(2)\n3")
    assert [(one.html, one.text, one.is_main_result) for one in many.results][1:] == [(None, "2", False), (None, "3", True)]
    assert many.results[0].html == "<i>1</i>" and many.text == "3"


@covers("E2B Code Interpreter Python 2.11", "Sandbox.run_code")
def test_pictures_charts_and_tables(box):
    frame = box.run_code("import pandas\npandas.DataFrame({'a': [1, 2], 'b': ['x', 'ü']})").results[0]
    assert "<table" in frame.html and frame.data == {"a": [1, 2], "b": ["x", "ü"]}
    run = box.run_code("import matplotlib.pyplot as plt\nplt.plot([1, 2, 3], [4, 5, 6], label='l')\nplt.title('T')\nplt.xlabel('X')\nplt.show()")
    picture = next(one for one in run.results if one.png)
    assert base64.b64decode(picture.png).startswith(b"\x89PNG")
    chart = picture.chart
    assert (chart.type.value, chart.title, chart.x_label, chart.elements[0].label, [tuple(point) for point in chart.elements[0].points]) == (
        "line", "T", "X", "l", [(1, 4), (2, 5), (3, 6)])
    kinds = {}
    for kind, code in {"scatter": "plt.scatter([1, 2], [3, 4])", "bar": "plt.bar(['a', 'b'], [1, 2])", "pie": "plt.pie([1, 2], labels=['a', 'b'])",
                       "box_and_whisker": "plt.boxplot([[1, 2, 3]])",
                       "superchart": "figure, (left, right) = plt.subplots(1, 2)\nleft.plot([1, 2])\nright.bar(['a'], [1])"}.items():
        run = box.run_code(f"{code}\nplt.show()")
        kinds[kind] = [one.chart.type.value for one in run.results if one.chart]
    assert kinds == {kind: [kind] for kind in kinds}


def chart_of(box, code):
    run = box.run_code(f"import matplotlib.pyplot as plt, datetime\nplt.close('all')\n{code}\nplt.show()")
    assert run.error is None, run.error
    result, = run.results
    return result.chart


def test_numbers_of_charts_are_floats(box):
    chart = chart_of(box, "plt.plot([1, 2], [3, 4])")
    assert all(type(number) is float for number in [*sum(chart.elements[0].points, ()), *chart.x_ticks, *chart.y_ticks])
    bar, = chart_of(box, "plt.bar(['a'], [2])").elements
    wedge, = chart_of(box, "plt.pie([1], labels=['a'])").elements
    framed, = chart_of(box, "plt.boxplot([1, 2, 3])").elements
    assert all(type(number) is float for number in (bar.value, wedge.angle, wedge.radius, framed.min, framed.median, framed.max))
    inner, _ = chart_of(box, "figure, (left, right) = plt.subplots(1, 2)\nleft.bar(['a'], [2])\nright.plot([1, 2])").elements
    assert type(inner.elements[0].value) is float


def test_axes_of_charts_say_what_they_are(box):
    chart = chart_of(box, "plt.plot([datetime.date(2023, 9, 1), datetime.date(2023, 9, 2)], [1, 100])\nplt.yscale('log')\nplt.xlabel('Time (s)')\nplt.ylabel('v [m/s]')")
    assert (chart.x_scale.value, chart.y_scale.value, chart.x_unit, chart.y_unit) == ("datetime", "log", "s", "m/s")
    assert [x for x, _ in chart.elements[0].points] == ["2023-09-01", "2023-09-02"] and all(isinstance(tick, str) for tick in chart.x_ticks)
    assert chart_of(box, "plt.plot([1, 2], ['low', 'high'])").y_scale.value == "categorical"


def test_bars_and_boxes_that_lie_are_told_as_those_that_stand(box):
    for drawing in ("plt.barh(['a', 'b'], [1, 2])", "plt.boxplot([[1, 2], [2, 3]], tick_labels=['a', 'b'], orientation='horizontal')"):
        chart = chart_of(box, f"{drawing}\nplt.xlabel('Count (n)')\nplt.ylabel('Kind')")
        assert (chart.x_label, chart.x_unit, chart.y_label, chart.y_unit) == ("Kind", None, "Count (n)", "n"), drawing
        assert [one.label for one in chart.elements] == ["a", "b"]


def test_a_figure_in_which_nothing_is_drawn_has_no_chart(box):
    assert chart_of(box, "plt.subplots()") is None
    assert chart_of(box, "plt.gca().add_artist(plt.Circle((0, 0), 1))").type.value == "unknown"


@covers("E2B Code Interpreter Python 2.11", "Sandbox.run_code")
def test_code_begins_where_files_and_commands_do(daemon):
    box = e2b_box.create(daemon, "code-interpreter-v1", "e2b_code_interpreter")
    try:
        assert {one.cwd for one in box.list_code_contexts()} == {"/home/user"}
        box.files.write("note.txt", "found")
        assert box.run_code("open('note.txt').read()").text == "found"
        assert box.run_code("require('fs').readFileSync('note.txt', 'utf8')", language="js").text == "found"
        assert "".join(box.run_code("cat note.txt; pwd", language="bash").logs.stdout) == "found/home/user\n"
        box.run_code("import os; os.chdir('/tmp')")
        assert box.run_code("os.getcwd()").text == "/tmp", "it is the code's own from then on"
        box.restart_code_context("default-python")
        assert box.run_code("import os; os.getcwd()").text == "/home/user"
    finally:
        box.kill()


@covers("E2B Code Interpreter Python 2.11", "Sandbox.run_code", differs="Languages are python, javascript, typescript (both of Node, one context) and bash; code runs as `user`. "
        "A list or dict as the value has no `json`, and saving a picture does not show it.")
def test_other_languages(box):
    assert box.run_code("console.log('js'); 6 * 7", language="javascript").text == "42" and box.run_code("40 + 2", language="js").text == "42"
    assert "".join(box.run_code("const x: number = 3; console.log(x)", language="typescript").logs.stdout) == "3\n"
    assert "".join(box.run_code("echo $((6 * 7)) $HOME", language="bash").logs.stdout) == "42 /home/user\n"
    for language in ("r", "java", "deno", "cobol"):
        with pytest.raises(Exception, match=f'no kernel for "{language}"; there are python, javascript, typescript and bash'):
            box.run_code("x", language=language)
    assert box.run_code("import getpass; getpass.getuser()").text == "user" and box.run_code("{'a': [1]}").results[0].formats() == ["text"]
    saved = box.run_code("from PIL import Image\npicture = Image.new('RGB', (2, 2))\npicture.save('/tmp/picture.png')")
    assert saved.error is None and saved.results == []
    assert box.run_code("picture.show()").results[0].png and box.run_code("picture").results[0].png


@covers("E2B Code Interpreter Python 2.11", "Sandbox.run_code")
def test_a_time_limit_and_a_client_that_leaves_interrupt_the_code(e2b, box):
    begun = time.monotonic()
    with pytest.raises(e2b.TimeoutException):
        box.run_code("import time\nstate = 'kept'\nwhile True: time.sleep(0.1)", timeout=2)
    assert wait_until(lambda: box.run_code("state").text) == "kept", "what it had, it has"
    assert time.monotonic() - begun < slow(20)


# Contexts

@covers("E2B Code Interpreter Python 2.11", "Sandbox.create_code_context", "Sandbox.list_code_contexts", "Sandbox.restart_code_context", "Sandbox.remove_code_context")
def test_contexts_are_made_listed_restarted_and_removed(e2b, box):
    context = box.create_code_context(cwd="/tmp", language="python")
    assert (context.language, context.cwd) == ("python", "/tmp")
    box.run_code("y = 'theirs'", context=context)
    assert box.run_code("import os; y + os.getcwd()", context=context).text == "theirs/tmp"
    assert box.run_code("y").error.name == "NameError", "another context knows nothing of it"
    listed = {one.id: one.language for one in box.list_code_contexts()}
    assert listed[context.id] == "python" and set(listed.values()) >= {"python", "javascript"}
    box.restart_code_context(context)
    assert box.run_code("y", context=context).error.name == "NameError"
    other = box.create_code_context()
    assert other.cwd == "/home/user" and other.language == "python"
    box.remove_code_context(other.id)
    box.remove_code_context(context)
    assert not {context.id, other.id} & {one.id for one in box.list_code_contexts()}
    for call in (lambda: box.run_code("1", context=context), lambda: box.restart_code_context(context), lambda: box.remove_code_context(context)):
        with pytest.raises(e2b.NotFoundException):
            call()


@covers("E2B Code Interpreter Python 2.11", "Sandbox.create_code_context", differs="Its directory has to be there, and be one that `user` may enter, which `/root` is not.")
def test_a_context_begins_only_where_it_can(e2b, box):
    before = {one.id for one in box.list_code_contexts()}
    for cwd in ("/root", "/home/user/no/such"):
        with pytest.raises(e2b.SandboxException, match=f"{cwd} cannot be entered"):
            box.create_code_context(cwd=cwd)
    assert {one.id for one in box.list_code_contexts()} == before


def test_the_lines_are_what_the_clients_read(daemon, box):
    answer = e2b_box.ask(daemon, "POST", "/execute", e2b_box.headers(box, CODE), {"code": "print('\\u00fc\\u2028')\n1", "context_id": None, "language": None, "env_vars": None})
    lines = answer.body.split(b"\n")
    assert answer.status == 200 and answer.body.isascii() and lines[-1] == b"" and all(lines[:-1]), "no empty line, nothing but ASCII"
    events = [json.loads(line) for line in lines[:-1]]
    assert {event["type"] for event in events} == {"number_of_executions", "stdout", "result", "end_of_execution"} and events[-1]["type"] == "end_of_execution"
    assert all(event["timestamp"] for event in events if event["type"] == "stdout")
    both = e2b_box.ask(daemon, "POST", "/execute", e2b_box.headers(box, CODE), {"code": "1", "context_id": "x", "language": "python"})
    missing = e2b_box.ask(daemon, "POST", "/execute", e2b_box.headers(box, CODE), {"code": "1", "context_id": "x"})
    assert (both.status, missing.status) == (400, 404) and missing.headers["Content-Type"].startswith("text/plain")


def test_a_sandbox_ended_in_the_middle_is_told_as_that(daemon, e2b, ci):
    box = e2b_box.create(daemon, "minimal", "e2b_code_interpreter")
    with pytest.raises(e2b.TimeoutException, match="killed"):
        box.run_code("import time\nprint('begun')\ntime.sleep(1000)", on_stdout=lambda line: box.kill())
    with pytest.raises(e2b.TimeoutException):
        box.run_code("1")


# git, which is commands

@covers("E2B Python 2.63", "git.init", "git.configure_user", "git.set_config", "git.get_config", "git.add", "git.commit", "git.status", "git.branches", "git.create_branch",
        "git.checkout_branch", "git.delete_branch", "git.reset", "git.restore", "git.remote_add", "git.remote_get", "git.push", "git.pull", "git.clone",
        "git.dangerously_authenticate")
def test_git_works_in_the_sandbox(e2b, box):
    git, home = box.git, "/home/user/repositories"
    git.init(f"{home}/origin", bare=True, initial_branch="main")
    git.init(f"{home}/work", initial_branch="main")
    git.configure_user("Ada Ü", "ada@example.com")
    assert git.get_config("user.name") == "Ada Ü" and git.get_config("no.such") is None
    git.set_config("core.editor", "true", scope="local", path=f"{home}/work")
    assert git.get_config("core.editor", scope="local", path=f"{home}/work") == "true"
    box.files.write(f"{home}/work/a.txt", "one\n")
    state = git.status(f"{home}/work")
    assert (state.current_branch, state.is_clean, [entry.name for entry in state.file_status]) == ("main", False, ["a.txt"])
    git.add(f"{home}/work")
    git.commit(f"{home}/work", "first ü")
    assert git.status(f"{home}/work").is_clean
    git.remote_add(f"{home}/work", "origin", f"{home}/origin")
    assert git.remote_get(f"{home}/work", "origin") == f"{home}/origin" and git.remote_get(f"{home}/work", "other") is None
    git.push(f"{home}/work", remote="origin", branch="main")
    git.clone(f"{home}/origin", f"{home}/copy")
    assert box.files.read(f"{home}/copy/a.txt") == "one\n"
    git.create_branch(f"{home}/work", "feature")
    assert sorted(git.branches(f"{home}/work").branches) == ["feature", "main"] and git.branches(f"{home}/work").current_branch == "feature"
    box.files.write(f"{home}/work/a.txt", "two\n")
    git.restore(f"{home}/work", ["a.txt"])
    assert box.files.read(f"{home}/work/a.txt") == "one\n"
    git.checkout_branch(f"{home}/work", "main")
    git.delete_branch(f"{home}/work", "feature", force=True)
    box.files.write(f"{home}/work/b.txt", "b\n")
    git.add(f"{home}/work", files=["b.txt"])
    git.commit(f"{home}/work", "second", author_name="Bob", author_email="bob@example.com")
    git.push(f"{home}/work")
    git.pull(f"{home}/copy")
    assert box.files.read(f"{home}/copy/b.txt") == "b\n"
    git.reset(f"{home}/work", mode="hard", target="HEAD~1")
    assert box.files.exists(f"{home}/work/b.txt") is False
    with pytest.raises(e2b.GitUpstreamException):
        git.pull(f"{home}/origin")
    git.dangerously_authenticate("ada", "secret", host="git.example.com")
    assert "ada:secret@git.example.com" in box.files.read("~/.git-credentials")
