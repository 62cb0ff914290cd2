# SPDX-License-Identifier: Apache-2.0
"""What an error says, to people and to client libraries."""

import pytest

from bad_input import check_error_body


@pytest.mark.parametrize("status,kind", [(400, "invalid"), (401, "unauthorized"), (403, "forbidden"), (404, "not_found"), (409, "conflict"), (429, "quota"),
                                         (500, "internal"), (502, "unavailable"), (503, "unavailable"), (504, "timeout"), (507, "quota")])
def test_an_error_says_the_same_to_everybody(server, status, kind):
    answer = server.ask("GET", f"/v1/fail?status={status}")
    assert answer.status == status
    check_error_body(answer)
    assert answer.json() == {"code": status, "error": f"this failed with {status}", "message": f"this failed with {status}", "type": kind,
                             "request_id": answer.headers["x-request-id"]}


def test_an_error_may_have_a_detail(server):
    answer = server.ask("GET", "/v1/fail?status=409&retry_after=3")
    check_error_body(answer)
    assert answer.json()["detail"] == {"limit": "sandboxes", "retry_after": 3}


NOT_AGAIN = {"should-retry": "false", "x-should-retry": "false"}
RETRY_HEADERS = ("retry-after", "should-retry", "x-should-retry")


@pytest.mark.parametrize("query,headers", [
    ("status=503", NOT_AGAIN),
    ("status=503&retry_after=5", {"retry-after": "5"}),
    ("status=500", NOT_AGAIN),
    ("status=502", NOT_AGAIN),
    ("status=504", NOT_AGAIN),
    ("status=504&retry_after=5", NOT_AGAIN),
    ("status=429", NOT_AGAIN),
    ("status=429&retry_after=30", {"retry-after": "30"}),
    ("status=429&retry_after=0", {"retry-after": "0"}),
    ("status=429&retry_after=-5", {"retry-after": "0"}),
    ("status=429&retry_after=soon", NOT_AGAIN),
    ("status=507", NOT_AGAIN),
    ("status=507&retry_after=30", NOT_AGAIN),
    ("status=400", {}),
    ("status=409&retry_after=30", {}),
])
def test_a_client_is_told_to_come_again_only_when_it_helps(server, query, headers):
    answer = server.ask("GET", f"/v1/fail?{query}")
    assert {name: value for name, value in answer.headers.items() if name in RETRY_HEADERS} == headers
