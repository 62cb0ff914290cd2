# SPDX-License-Identifier: Apache-2.0
"""Looking for records: by every field, by words of the code, in pages, and each project only its own."""

import json
import sys
import threading
from pathlib import Path

import pytest
from record import bare_options, export, found, keys, shown, verdict, work
from tools import add_key, check_refusal, with_query
from vial import Daemon
from verifier import verify

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))

from audit_records import add  # noqa: E402

COUNT = 3000


@pytest.fixture(scope="module")
def many(folder):
    """A viald with some thousand records of a month, of a hundred projects."""
    daemon = Daemon(folder, *bare_options(folder))
    add_key(daemon, "project-3", "viewer")
    add_key(daemon, "project-4", "viewer")
    daemon.stop()
    add(daemon.data, COUNT)
    daemon.start()
    yield daemon
    daemon.stop()


@pytest.fixture(scope="module")
def client(many):
    return many.client()


@pytest.fixture(scope="module")
def records(client):
    """All there are, oldest first, to hold answers against."""
    return found(client, limit=1000)


def seqs(records):
    return [record["seq"] for record in records]


def has_words(record, *words):
    code = ((record["body"] or {}).get("code") or "").split()
    return all(word in code for word in words)


def test_there_are_as_many_as_were_made(client, records):
    assert seqs(records) == list(range(1, len(records) + 1)) and len(records) >= COUNT
    assert verdict(client)["ok"]


@pytest.mark.parametrize("field,read", [
    ("project", lambda record: record["project"]), ("action", lambda record: record["action"]), ("sandbox", lambda record: record.get("sandbox")),
    ("agent", lambda record: record.get("agent")), ("session", lambda record: record.get("session")),
    ("trace_id", lambda record: record.get("origin", {}).get("trace_id")), ("principal", lambda record: record["principal"]["id"]),
    ("principal", lambda record: record["principal"]["name"]),
], ids=["project", "action", "sandbox", "agent", "session", "trace_id", "principal's id", "principal's name"])
def test_records_are_found_by_each_field(client, records, field, read):
    value = read(records[COUNT // 2])
    wanted = [record for record in records if read(record) == value]
    assert 0 < len(wanted) < len(records)
    assert found(client, **{field: value}) == wanted
    assert found(client, **{field: value + "-none"}) == []


def test_records_are_found_by_time(client, records):
    first, last = records[1000]["time"], records[2000]["time"]
    assert seqs(found(client, limit=1000, **{"from": first, "to": last})) == [r["seq"] for r in records if first <= r["time"] < last]
    assert seqs(found(client, limit=1000, to=first)) == [r["seq"] for r in records if r["time"] < first]
    assert seqs(found(client, limit=1000, action="run", **{"from": last})) == [r["seq"] for r in records if last <= r["time"] and r["action"] == "run"]
    assert found(client, **{"from": "2100-01-01T00:00:00Z"}) == []


def test_records_are_found_by_words_of_the_code(client, records):
    assert seqs(found(client, text="cell1234")) == [r["seq"] for r in records if has_words(r, "cell1234")] != []
    wanted = [r["seq"] for r in records if has_words(r, "solve", "numpy")]
    assert seqs(found(client, text="numpy solve", limit=1000)) == wanted and 0 < len(wanted)
    assert seqs(found(client, text="SOLVE", project="project-3")) == [r["seq"] for r in records if has_words(r, "solve") and r["project"] == "project-3"]
    for nothing in ("cell1234 cell1235", "nowhere", "...", "(", '"', "NOT", "cell* AND", "a OR b", "-"):
        assert found(client, text=nothing) == [], nothing


def test_conditions_are_joined(client, records):
    one = records[COUNT // 2]
    conditions = {"project": one["project"], "sandbox": one["sandbox"], "session": one["session"], "agent": one["agent"], "action": one["action"],
                  "principal": one["principal"]["id"], "trace_id": one["origin"]["trace_id"], "text": one["body"]["code"].split()[-1],
                  "from": one["time"], "to": "2100-01-01T00:00:00Z"}
    assert found(client, **conditions) == [one]
    for field in conditions:
        other = dict(conditions, **{field: "2099-01-01T00:00:00Z" if field == "from" else "2001-01-01T00:00:00Z" if field == "to" else "other"})
        assert found(client, **other) == [], field


@pytest.mark.parametrize("limit", [1, 7, 1000])
def test_pages_have_no_gaps_and_no_repeats_while_records_are_added(many, client, limit):
    filters = {"project": "project-3"} if limit == 1 else {}
    before = seqs(found(client, limit=1000, **filters))
    stop = threading.Event()

    def disturb():
        while not stop.is_set():
            work(client, 1, "meanwhile")

    thread = threading.Thread(target=disturb)
    thread.start()
    try:
        pages = found(client, limit=limit, **filters)
    finally:
        stop.set()
        thread.join()
    got = seqs(pages)
    assert len(set(got)) == len(got) and got == sorted(got)
    assert [seq for seq in got if seq <= before[-1]] == before


def test_what_was_done_before_the_question_is_in_the_answer(client):
    for number in range(20):
        work(client, 1, f"fresh-{number}")
        assert client.call("GET", "/v1/audit?limit=1")["items"][0]["body"]["name"] == f"fresh-{number}-0"


BAD = [("limit", "0"), ("limit", "1001"), ("limit", "-1"), ("limit", "x"), ("limit", "1.5"), ("limit", ""), ("limit", "9" * 30),
       ("cursor", "0"), ("cursor", "-1"), ("cursor", "x"), ("cursor", "9" * 30), ("from", "yesterday"), ("from", "2026-13-01T00:00:00Z"), ("from", ""),
       ("to", "2026-01-01"), ("to", "1")] + \
      [(field, value) for field in ("principal", "agent", "session", "sandbox", "action", "trace_id", "text") for value in ("x" * 5000, "\udcff")]


@pytest.mark.parametrize("field,value", BAD, ids=[f"{field}={value[:12]!a}" for field, value in BAD])
@pytest.mark.parametrize("path", ["/v1/audit", "/v1/audit/export"])
def test_a_bad_value_is_refused_and_the_field_named(client, path, field, value):
    query = f"{path}?{field}=%FF" if value == "\udcff" else with_query(path, **{field: value})
    sentence = check_refusal(client.ask("GET", query), 400)
    assert field in sentence or value == "\udcff"


def test_what_an_export_cannot_do_it_refuses(client):
    for field, value in (("text", "word"), ("limit", "5"), ("cursor", "5")):
        assert f'"{field}"' in check_refusal(client.ask("GET", with_query("/v1/audit/export", **{field: value})), 400)


def test_a_number_that_is_none_is_not_found(client, records):
    for seq in ("0", "-1", "x", "1.5", "99999999", "9" * 40, "%00"):
        check_refusal(client.ask("GET", f"/v1/audit/{seq}"), 404, 400)
    assert client.call("GET", "/v1/audit/7") == records[6]


def test_a_project_sees_its_own_alone(many, client, records):
    viewer = many.client(add_key(many, "project-3", "viewer"))
    own = [record for record in found(client, limit=1000) if record["project"] == "project-3"]
    assert found(viewer) == own and own
    foreign = next(record for record in records if record["project"] == "project-4" and record["action"] == "run")
    for filters in ({"sandbox": foreign["sandbox"]}, {"session": foreign["session"], "action": foreign["action"]}, {"trace_id": foreign["origin"]["trace_id"]},
                    {"principal": foreign["principal"]["id"]}, {"text": foreign["body"]["code"].split()[-1]}):
        assert all(record["project"] == "project-3" for record in found(viewer, **filters))
    check_refusal(viewer.ask("GET", f"/v1/audit/{foreign['seq']}"), 404)
    check_refusal(viewer.ask("GET", "/v1/audit?project=project-4"), 404)
    check_refusal(viewer.ask("GET", "/v1/audit/export?project=project-4"), 404)
    assert viewer.call("GET", f"/v1/audit/{own[0]['seq']}") == own[0]
    assert seqs(found(client, project="project-4")) == [record["seq"] for record in records if record["project"] == "project-4"]


def test_a_viewer_can_have_the_whole_verified_and_export_his_part_of_it(many, client):
    viewer = many.client(add_key(many, "project-3", "viewer"))
    assert verdict(viewer)["ok"]
    lines = export(viewer)
    assert verify(lines, keys(viewer))[0] == "good"
    assert {header["project"] for header, _ in shown(lines)} == {"project-3"}
    assert not [line for line in lines if "project-5" in line]


@pytest.mark.parametrize("filters", [{"action": "run"}, {"project": "project-3"}, {"sandbox": 1}, {"trace_id": 1}, {"from": 1}, {"to": 1}, {"from": 1, "to": 1, "agent": 1}],
                         ids=lambda filters: " ".join(filters))
def test_an_export_of_a_part_is_proven_to_be_part_of_the_whole(client, records, filters):
    one, other = records[500], records[2500]
    values = {"sandbox": one["sandbox"], "trace_id": one["origin"]["trace_id"], "from": one["time"], "to": other["time"], "agent": one["agent"]}
    asked = {name: values[name] if value == 1 else value for name, value in filters.items()}
    lines = export(client, **asked)
    assert verify(lines, keys(client))[0] == "good"
    wanted = [record["seq"] for record in records
              if asked.get("from", "") <= record["time"] < asked.get("to", "3") and record["action"] == asked.get("action", record["action"])
              and record["project"] == asked.get("project", record["project"]) and record.get("sandbox") == asked.get("sandbox", record.get("sandbox"))
              and record.get("agent") == asked.get("agent", record.get("agent"))
              and ("trace_id" not in asked or record.get("origin", {}).get("trace_id") == asked["trace_id"])]
    got = [header["seq"] for header, _ in shown(lines)]
    assert [seq for seq in got if seq <= len(records)] == wanted


def test_an_empty_export_is_one(client):
    lines = export(client, **{"from": "2100-01-01T00:00:00Z"})
    assert len(lines) == 1 and json.loads(lines[0])["vial_audit"] == 1
