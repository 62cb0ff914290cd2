# SPDX-License-Identifier: Apache-2.0
"""Where a default context begins: the first run that comes for it may say so, although its kernel was started elsewhere long before."""
import pytest

WHERE = {"python": "import os; os.getcwd()", "javascript": "process.cwd()", "bash": "pwd"}
PATIENCE = 600
LANGUAGES = pytest.mark.parametrize("language", WHERE)


@pytest.fixture
def box(notebook):
    """One in which no default context has run anything."""
    for context in notebook.call("ctx.list").result["contexts"]:
        notebook.call("ctx.delete", id=context["id"])
    return notebook


def where(box, language, **fields):
    cell = box.run_cell(WHERE[language], language, PATIENCE, **fields)
    assert cell.error is None, cell.error
    return (cell.text or cell.stdout).strip().strip("'")


@LANGUAGES
def test_the_first_run_says_where_and_no_later_one(box, language):
    box.open("warm", languages=[language]).collect(PATIENCE).ok()
    place = f"/tmp/{language} \"$HOME\" `ü`"
    box.call("fs.mkdir", path=place)
    assert where(box, language, cwd=place) == place
    assert where(box, language, cwd="/home") == place and where(box, language) == place
    assert [one["cwd"] for one in box.call("ctx.list").result["contexts"]] == [place]
    box.open("ctx.restart", id=f"default-{language}").collect(PATIENCE).ok()
    assert where(box, language) == place, "so does the kernel that follows"


@LANGUAGES
def test_a_place_that_cannot_be_entered_leaves_it_where_it_is(box, language):
    box.open("warm", languages=[language]).collect(PATIENCE).ok()
    assert where(box, language, cwd="/no/such/place") == "/workspace"


def test_where_nobody_says_so_it_is_the_workspace_and_stays_so(box):
    assert where(box, "bash") == "/workspace" and where(box, "bash", cwd="/tmp") == "/workspace"


def test_runs_that_wait_together_agree_with_the_first(box):
    streams = [box.start_cell("pwd", "bash", cwd=place) for place in ("/tmp", "/home", "/")]
    assert {stream.collect(PATIENCE).stdout for stream in streams} == {"/tmp\n"}


def test_a_context_that_was_made_has_its_own(box):
    made = box.open("ctx.create", language="bash", cwd="/home").collect(PATIENCE).ok().result["context"]["id"]
    assert where(box, "bash", id=made, cwd="/tmp") == "/home"


def test_what_is_no_place_is_refused(box):
    for cwd in (7, "x" * 5000):
        result = box.start_cell("true", "bash", cwd=cwd).collect(PATIENCE).result
        assert not result["ok"] and result["code"] == "invalid", (cwd, result)
