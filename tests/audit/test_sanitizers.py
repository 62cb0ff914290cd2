# SPDX-License-Identifier: Apache-2.0
"""The record's own paths under AddressSanitizer and UndefinedBehaviorSanitizer: work, questions, exports that are left, crashes, damage, failing places."""

import pytest
from record import bare_options, change, found, prove, verdict, work
from sanitized import Sanitized
from tools import check_refusal, with_query
from vial import Daemon


@pytest.fixture
def sanitized(place):
    programs = Sanitized(place)
    faults = place / "faults"
    options = (*bare_options(place), "--audit-sync", "true", "--audit-head-records", 5, "--audit-heads-to", f"http://127.0.0.1:9/x,file:{place}/heads")
    daemon = Daemon(place, *options, programs=programs.path, env={**programs.env, "VIAL_FAULTS": str(faults)})
    yield daemon, faults
    daemon.stop()
    programs.check()


def test_nothing_is_found_in_work_questions_crashes_and_damage(sanitized):
    daemon, faults = sanitized
    client = daemon.client()
    work(client, 30)
    prove(client)
    for filters in ({"text": "key-3"}, {"from": "2020-01-01T00:00:00Z", "to": "2100-01-01T00:00:00Z"}, {"principal": "admin", "action": "key.create", "limit": 3},
                    {"sandbox": "x", "text": "x"}, {"trace_id": "x"}):
        found(client, **filters)
    check_refusal(client.ask("GET", with_query("/v1/audit", **{"from": "x"})), 400)
    for _ in range(3):
        response = client.open("GET", "/v1/audit/export")  # and away
        response.connection.close()
    faults.write_text("audit.commit\n")
    for number in range(3):
        client.ask("POST", "/v1/keys", {"name": f"failing-{number}", "role": "viewer"})
    verdict(client)
    client.ask("GET", "/v1/audit/export")
    faults.write_text("audit.append\n")
    client.ask("POST", "/v1/keys", {"name": "unwritten", "role": "viewer"})
    faults.unlink()
    daemon.kill()
    daemon.start()
    assert verdict(daemon.client())["ok"]
    daemon.kill()
    change(daemon, "DELETE FROM records WHERE seq = 7", "UPDATE records SET hash = x'00' WHERE seq = 9")
    segment = sorted((daemon.data / "audit").glob("*.spool"))[0]
    content = bytearray(segment.read_bytes())
    content[3000] ^= 0xFF
    segment.write_bytes(content)
    daemon.start()
    assert not verdict(daemon.client())["ok"]
    work(daemon.client(), 3)
