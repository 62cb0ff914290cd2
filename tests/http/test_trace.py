# SPDX-License-Identifier: Apache-2.0
"""Whose trace a request belongs to, and that the log says so."""

import pytest

TRACE_ID, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
NONE = {"trace_id": None, "parent_span": None}


def test_a_trace_is_remembered(server):
    for name in ("traceparent", "Traceparent"):
        answer = server.ask("GET", "/v1/trace", headers=[(name, f"00-{TRACE_ID}-{SPAN}-01")])
        assert answer.json() == {"trace_id": TRACE_ID, "parent_span": SPAN}


@pytest.mark.parametrize("values", [[], [""], [f"00-{TRACE_ID}-{SPAN}"], [f"00-{TRACE_ID.upper()}-{SPAN}-01"], [f"01-{TRACE_ID}-{SPAN}-01"],
                                    [f"00-{'0' * 32}-{SPAN}-01"], [f"00-{TRACE_ID}-{'0' * 16}-01"], [f"00-{TRACE_ID}-{SPAN}-01"] * 2])
def test_anything_else_is_ignored(server, values):
    answer = server.ask("GET", "/v1/trace", headers=[("traceparent", value) for value in values])
    assert answer.status == 200 and answer.json() == NONE


def test_the_log_names_the_trace(start, tmp_path):
    log = tmp_path / "log"
    server = start("--log", "debug", log=log)
    header = [("traceparent", f"00-{TRACE_ID}-{SPAN}-01")]
    assert server.ask("GET", "/v1/hello?traced", headers=[*header, ("X-Request-Id", "traced")]).status == 200
    assert server.ask("GET", "/v1/fail?status=500", headers=[*header, ("X-Request-Id", "failed")]).status == 500
    assert server.ask("GET", "/v1/fail?status=500", headers=[("X-Request-Id", "alone")]).status == 500
    server.stop()
    lines = [line for line in log.read_text().splitlines() if "request_id" in line]
    assert sum("request answered" in line for line in lines) == 3 and sum("a request failed" in line for line in lines) == 2
    for line in lines:
        assert (f'trace_id="{TRACE_ID}"' in line) != ('request_id="alone"' in line), line
