# SPDX-License-Identifier: Apache-2.0
"""clear_output(), display(display_id=) and update_display(): events in the stream, and in the collected answer what a notebook shows at the end."""
import pytest

IMPORT = "from IPython.display import clear_output, display, update_display\nimport time\n"


@pytest.fixture
def collected(box):
    """Runs a cell for its one answer: (stdout, stderr, texts of the results)."""
    if box.name != "http":
        pytest.skip("it is viald that collects; the agent only tells of events")

    def run(code, **options):
        execution = box.run(IMPORT + code, **options)
        assert execution["exit_code"] == 0, execution
        return execution["stdout"], execution["stderr"], [bundle["text/plain"] for bundle in execution["results"]]

    return run


def events(box, code):
    found = []
    for name, value in box.stream(IMPORT + code):
        if name == "result":
            text = (value.get("data") or value)["text/plain"]
            found.append(("result", text, value.get("display_id"), bool(value.get("is_update"))))
        elif name == "clear":
            found.append(("clear", value["wait"]))
        elif name != "end":
            found.append((name, value))
    return found


def test_clearing_is_an_event_in_its_place(box):
    assert events(box, "print('a'); clear_output(); print('b'); clear_output(wait=True); display(3)") == [
        ("stdout", "a\n"), ("clear", False), ("stdout", "b\n"), ("clear", True), ("result", "3", None, False)]


def test_a_display_has_its_id_and_an_update_says_so(box):
    assert events(box, "h = display(1, display_id='one'); h.update(2); update_display(3, display_id='one'); display(4)") == [
        ("result", "1", "one", False), ("result", "2", "one", True), ("result", "3", "one", True), ("result", "4", None, False)]


def test_what_was_cleared_is_not_in_the_answer(collected):
    assert collected("import sys\nprint('a'); print('e', file=sys.stderr); display(1); clear_output(); print('b'); 2") == ("b\n", "", ["2"])


def test_nothing_is_left_when_nothing_comes_after(collected):
    assert collected("print('a'); display(1); clear_output()") == ("", "", [])


def test_clearing_that_waits_happens_with_the_next_output(collected):
    assert collected("print('a'); clear_output(wait=True); print('b')") == ("b\n", "", [])


def test_or_with_the_next_result(collected):
    assert collected("print('a'); clear_output(wait=True); 5") == ("", "", ["5"])


def test_or_never(collected):
    assert collected("print('a'); display(1); clear_output(wait=True)") == ("a\n", "", ["1"])


def test_an_update_takes_the_place_of_what_it_updates(collected):
    assert collected("display(1, display_id='x'); display(2); update_display(3, display_id='x'); print('p')") == ("p\n", "", ["3", "2"])


def test_everything_under_the_id_is_replaced(collected):
    assert collected("display(1, display_id='x'); display(2, display_id='x'); update_display(3, display_id='x')") == ("", "", ["3", "3"])


def test_a_handle_updates_what_it_shows(collected):
    assert collected("h = display('0 %', display_id=True)\nfor i in range(1, 4): h.update(f'{i} %')") == ("", "", ["'3 %'"])


def test_an_update_of_what_an_earlier_run_has_shown_is_a_result(collected):
    assert collected("h = display(1, display_id='early')") == ("", "", ["1"])
    assert collected("h.update(2); display(5); h.update(3)") == ("", "", ["3", "5"])


def test_an_update_after_clearing_is_a_result(collected):
    assert collected("display(1, display_id='x'); clear_output(); update_display(2, display_id='x')") == ("", "", ["2"])


def test_an_animation_leaves_its_last_picture(box, needs):
    needs("matplotlib")
    if box.name != "http":
        pytest.skip("it is viald that collects; the agent only tells of events")
    code = "import matplotlib.pyplot as plt\nfor i in range(4):\n    plt.plot([i, i]); plt.title(f'frame {i}')\n    clear_output(wait=True); plt.show()"
    results = box.run(IMPORT + code)["results"]
    assert [bundle["application/vnd.vial.chart+json"]["title"] for bundle in results] == ["frame 3"]


def test_what_was_cleared_does_not_count_towards_the_limit(collected):
    assert collected("for i in range(40):\n    clear_output(); print('x' * 999)", max_output_bytes=2000) == ("x" * 999 + "\n", "", [])


def test_results_that_were_cleared_do_not_count_either(collected):
    stdout, _, results = collected("from IPython.display import HTML\nfor i in range(5):\n    clear_output(wait=True); display(HTML('x' * 6_000_000))\n'last'")
    assert stdout == "" and len(results) == 2 and results[-1] == "'last'"
