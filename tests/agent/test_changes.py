# SPDX-License-Identifier: Apache-2.0
"""`files` of a run: whichever limit cuts the list, the answer says so."""


def make(count, folder, name="f%d"):
    return f"import os\nos.makedirs({folder!r}, exist_ok=True)\nfor i in range({count}): open({folder!r} + '/' + {name!r} % i, 'w').close()"


def test_a_complete_list_is_not_marked(notebook):
    cell = notebook.run_cell(make(900, "/workspace/few"))
    assert len(cell.result["files"]) == 900 and "files_truncated" not in cell.result


def test_more_files_than_the_list_holds_are_marked(notebook):
    for count, folder in ((1001, "more"), (6000, "table")):
        cell = notebook.run_cell(make(count, f"/workspace/{folder}"))
        assert len(cell.result["files"]) == 1000 and cell.result["files_truncated"], folder


def test_long_names_fill_the_answer_before_the_count_does(notebook):
    cell = notebook.run_cell(make(900, "/workspace/" + "d" * 200 + "/" + "e" * 200, "\x1b" * 100 + "%d"))
    assert cell.result["ok"] and 0 < len(cell.result["files"]) < 900 and cell.result["files_truncated"]


def test_a_sea_of_files_is_not_none(notebook):
    cell = notebook.run_cell(make(40_000, "/workspace/sea"), timeout=240)
    assert len(cell.result["files"]) > 0 and cell.result["files_truncated"]
    cell = notebook.run_cell("open('/workspace/drop', 'w').close()")
    assert [file["path"] for file in cell.result["files"]] == ["/workspace/drop"] or cell.result["files_truncated"]
    notebook.call("fs.remove", path="sea", recursive=True)


def test_files_that_came_and_went_do_not_hide_those_that_stay(notebook):
    code = make(5000, "/workspace/temporary") + "\nimport shutil; shutil.rmtree('/workspace/temporary')\nopen('/workspace/stays', 'w').close()"
    cell = notebook.run_cell(code)
    assert "/workspace/stays" in [file["path"] for file in cell.result["files"]] or cell.result["files_truncated"]
    assert len(cell.result["files"]) >= 1
