# SPDX-License-Identifier: Apache-2.0
"""project, key, quota and usage: against a viald of the tests' own, and against the stand-in for answers that an honest server does not give."""

import csv
import io
import itertools
import json
import re
import shutil
import sys
import tempfile

import pytest
from conftest import ROOT, Server, make_vial

sys.path.insert(0, str(ROOT / "tests" / "api"))

from vial import Daemon  # noqa: E402

NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def daemon():
    folder = tempfile.mkdtemp(prefix="cli-")
    daemon = Daemon(folder)
    yield daemon
    daemon.stop()
    shutil.rmtree(folder)


@pytest.fixture
def vial(daemon, tmp_path):
    yield from make_vial(Server(daemon.url, daemon.key), tmp_path)


@pytest.fixture
def project(vial):
    """A project of its own for a test; a name is never given again, so each has another."""
    name = f"p{next(NUMBERS)}"
    vial("project", "create", name)
    yield name
    vial("project", "rm", "--force", name)


def as_key(vial, secret):
    return {"env": {"VIAL_API_KEY": secret}}


# --- projects ---


def test_a_project_is_made_shown_changed_and_ended(vial):
    done = vial("project", "create", "first", "--max-sandboxes", "20", "--max-memory-mb", "65536", "--network-modes", "disabled,filtered", "--description", "a test")
    assert done.stdout == "first\n" and done.stderr == ""
    shown = vial("project", "show", "first").stdout
    assert re.search(r"^max_memory_mb +64 GiB$", shown, re.M) and re.search(r"^network_modes +disabled, filtered$", shown, re.M)
    assert vial.json("project", "show", "first")["quotas"] == {"max_sandboxes": 20, "max_memory_mb": 65536, "network_modes": ["disabled", "filtered"]}
    changed = vial.json("project", "set", "first", "--max-sandboxes", "none", "--max-vcpu", "2.5", "--legal-hold")
    assert changed["legal_hold"] and changed["quotas"] == {"max_memory_mb": 65536, "network_modes": ["disabled", "filtered"], "max_vcpu": 2.5}
    assert not vial.json("project", "set", "first", "--no-legal-hold")["legal_hold"]
    assert {"default", "first"} <= set(vial("project", "ls", "-q").stdout.split())
    done = vial("project", "rm", "first", "--force")
    assert done.stdout == "first\n" and "0 sandboxes, 0 keys, 0 B of snapshots" in done.stderr
    assert "first" not in vial("project", "ls", "-q").stdout.split()


def test_the_table_of_projects_has_a_line_for_each(vial, project):
    lines = vial("project", "ls").stdout.splitlines()
    assert lines[0].split() == ["NAME", "STATE", "HOLD", "AGE", "QUOTAS", "DESCRIPTION"]
    assert any(line.split()[:2] == [project, "active"] for line in lines)


def test_ending_a_project_says_what_ended_with_it(vial):
    vial("project", "create", "full")
    vial("key", "create", "one", "--role", "viewer", "--project", "full")
    vial("key", "create", "two", "--role", "viewer", "--project", "full")
    assert vial.json("project", "rm", "full", "-f") == [{"sandboxes": 0, "keys": 2, "snapshot_bytes": 0, "name": "full"}]
    assert vial("key", "show", "one", check=False).returncode == 1


def test_ending_a_project_asks_first(vial):
    vial("project", "create", "asked")
    done = vial("project", "rm", "asked", check=False)
    assert done.returncode == 2 and "--force" in done.stderr
    terminal = vial.terminal("project", "rm", "asked")
    terminal.expect(r"End the project asked with all in it \(0 sandboxes, 0 keys, 0 B of snapshots\)\? .*\[y/N\]")
    terminal.type("n\n")
    assert terminal.wait() == 1 and b"nothing was removed" in terminal.output
    terminal = vial.terminal("project", "rm", "asked")
    terminal.expect(r"\[y/N\]")
    terminal.type("y\n")
    assert terminal.wait() == 0 and b"its records stay" in terminal.output
    assert "asked" not in vial("project", "ls", "-q").stdout.split()


def test_a_project_that_is_gone_is_an_error_unless_forced(vial):
    done = vial("project", "rm", "-f", "nosuch")
    assert done.stdout == "" and done.stderr == ""
    assert "there is no project nosuch" in vial("project", "show", "nosuch", check=False).stderr
    refused = vial("project", "rm", "-f", "default", check=False)
    assert refused.returncode == 1 and "cannot be deleted" in refused.stderr


@pytest.mark.parametrize("args, words", [
    (["project"], "create, ls, show, set, rm"),
    (["project", "creat", "x"], 'did you mean "create"'),
    (["project", "create"], "something is missing: vial project create NAME"),
    (["project", "create", "x", "--max-sandboxes", "many"], "--max-sandboxes: max_sandboxes wants a whole number, or none"),
    (["project", "create", "x", "--max-sandboxes", "-1"], "wants a whole number"),
    (["project", "create", "x", "--max-vcpu", "1e999"], "wants a number"),
    (["project", "create", "x", "--network-modes", ""], "words separated by commas"),
    (["project", "set", "x"], "say what to change"),
    (["project", "set", "x", "--legal-hold", "--no-legal-hold"], "exclude each other"),
    (["project", "ls", "--force"], "it is for `vial project rm`"),
    (["key"], "create, ls, show, set, rotate, rm"),
    (["key", "create", "x"], "--role"),
    (["key", "create", "x", "--role", "viewer", "--expires", "soon"], "--expires wants a time"),
    (["key", "create", "x", "--role", "viewer", "--expires", "90"], "--expires wants a time"),
    (["key", "set", "x"], "say what to change"),
    (["key", "rotate", "x", "--overlap", "long"], "duration"),
    (["key", "ls", "--all", "--project", "x"], "exclude each other"),
    (["quota", "set", "default"], "something is missing"),
    (["quota", "set", "default", "max_sandboxes"], "NAME=VALUE"),
    (["quota", "set", "default", "max_sandbox=1"], "did you mean max_sandboxes?"),
    (["quota", "set", "default", "max_ttl_seconds=long"], "seconds, such as 28800 or 8h"),
    (["usage", "--csv", "--json"], "exclude each other"),
    (["usage", "--from", "yesterday"], "--from wants a day"),
    (["usage", "--from", "2026-02-30"], "--from wants a day"),
])
def test_wrong_usage_says_what_would_do(vial, args, words):
    done = vial(*args, check=False)
    assert done.returncode == 2 and done.stdout == "" and done.stderr.count("\n") == 1
    assert words in (json.loads(done.stderr)["error"] if done.stderr.startswith("{") else done.stderr)


@pytest.mark.parametrize("args, words", [
    (["project", "create", "Not A Name"], "small letters, digits"),
    (["project", "create", "default"], "default"),
    (["project", "set", "default", "--network-modes", "disabled,wild"], "network_modes[1]"),
    (["project", "set", "default", "--tiers", "9x9"], "tiers[0]"),
    (["key", "create", "x", "--role", "king"], "viewer, runner, developer, admin or operator"),
    (["key", "create", "x", "--role", "viewer", "--form", "odd"], "form"),
    (["key", "create", "x", "--role", "viewer", "--expires", "2020-01-01"], "in the past"),
    (["key", "create", "x", "--role", "viewer", "--allow-source", "nowhere"], "source_cidrs"),
    (["key", "create", "x", "--role", "viewer", "--project", "nosuch"], "there is no project nosuch"),
    (["key", "show", "nosuch"], "there is no key with the name or id"),
    (["key", "rotate", "0" * 20], "there is no key with the name or id"),
    (["key", "rm", "admin"], "keys/admin.key"),
    (["quota", "nosuch"], "there is no project nosuch"),
    (["usage", "--by", "moon"], "group_by"),
    (["usage", "--project", "nosuch"], "there is no project nosuch"),
])
def test_what_viald_refuses_is_said_in_its_own_words(vial, args, words):
    done = vial(*args, check=False)
    assert done.returncode == 1 and words in done.stderr and done.stdout == "" and done.stderr.count("\n") == 1


# --- keys ---


def test_the_secret_alone_goes_to_standard_output(vial, project):
    done = vial("key", "create", "ci", "--role", "runner", "--project", project, "--expires", "90d", "--allow-template", "minimal", "--allow-source",
                "10.0.0.0/8", "--max-sandboxes", "2")
    assert re.fullmatch(r"vial_[0-9a-f]{40}\n", done.stdout)
    assert "not shown again" in done.stderr and done.stdout.strip() not in done.stderr
    key = vial.json("key", "show", "ci")
    assert (key["role"], key["project"], key["allow"], key["limits"]) == (
        "runner", project, {"templates": ["minimal"], "source_cidrs": ["10.0.0.0/8"]}, {"max_sandboxes": 2})
    assert "key" not in key and re.search(r"in 89d 23h|in 90d", vial("key", "show", "ci").stdout)


@pytest.mark.parametrize("form, begins", [("vial", "vial_"), ("e2b", "e2b_"), ("pds", "pds_"), ("pf", "pf_"), ("sk", "sk-")])
def test_keys_come_in_the_forms_that_other_sdks_insist_on(vial, project, form, begins):
    secret = vial("key", "create", "form", "--role", "viewer", "--form", form, "--project", project, "-q")
    assert re.fullmatch(begins + r"[0-9a-f]{40}\n", secret.stdout) and secret.stderr == ""
    assert vial("quota", **as_key(vial, secret.stdout.strip())).returncode == 0


def test_a_key_works_until_it_is_revoked(vial, project):
    secret = vial("key", "create", "brief", "--role", "viewer", "--project", project).stdout.strip()
    assert f"project {project}" in vial("quota", **as_key(vial, secret)).stdout
    id_ = vial.json("key", "show", "brief")["id"]
    assert vial("key", "rm", "brief").stdout == id_ + "\n"
    assert vial("quota", check=False, **as_key(vial, secret)).returncode == 1
    assert vial("key", "rm", "brief", check=False).returncode == 1 and vial("key", "rm", "-f", "brief").stdout == ""


def test_both_secrets_work_while_a_rotation_overlaps(vial, project):
    old = vial("key", "create", "turning", "--role", "viewer", "--project", project).stdout.strip()
    done = vial("key", "rotate", "turning", "--overlap", "1d")
    assert re.fullmatch(r"vial_[0-9a-f]{40}\n", done.stdout) and "works until" in done.stderr
    for secret in (old, done.stdout.strip()):
        vial("quota", **as_key(vial, secret))
    last = vial("key", "rotate", "turning", "--overlap", "0")
    assert "does not work any more" in last.stderr
    assert vial("quota", check=False, **as_key(vial, done.stdout.strip())).returncode == 1
    vial("quota", **as_key(vial, last.stdout.strip()))


def test_a_changed_key_keeps_what_was_not_named(vial, project):
    vial("key", "create", "narrow", "--role", "viewer", "--project", project, "--allow-template", "a,b", "--allow-network", "disabled", "--max-sandboxes", "3",
         "--max-vcpu", "4", "--expires", "30d")
    changed = vial.json("key", "set", "narrow", "--role", "runner", "--allow-network", "none", "--allow-source", "10.0.0.1", "--max-vcpu", "none")
    assert changed["role"] == "runner" and changed["allow"]["templates"] == ["a", "b"] and "network_modes" not in changed["allow"]
    assert changed["allow"]["source_cidrs"] and changed["limits"] == {"max_sandboxes": 3} and "expires_at" in changed
    changed = vial.json("key", "set", "narrow", "--name", "wide", "--allow-template", "none", "--allow-source", "none", "--max-sandboxes", "none", "--expires", "never")
    assert changed["name"] == "wide" and not changed.get("allow") and not changed.get("limits") and "expires_at" not in changed


def test_a_name_that_several_keys_have_is_not_guessed(vial, project):
    ids = []
    for _ in range(2):
        vial("key", "create", "same", "--role", "viewer", "--project", project)
        ids = [k["id"] for k in vial.json("key", "ls", "--project", project) if k["name"] == "same"]
    done = vial("key", "rm", "same", check=False)
    assert done.returncode == 1 and "2 keys are named" in done.stderr and all(id_ in done.stderr for id_ in ids)
    vial("key", "rm", ids[0])
    assert vial("key", "rm", "same").stdout.strip() == ids[1]


def test_the_table_of_keys(vial, project):
    vial("key", "create", "seen", "--role", "developer", "--project", project, "--allow-template", "minimal", "--max-sandboxes", "1")
    lines = vial("key", "ls", "--project", project).stdout.splitlines()
    assert lines[0].split() == ["ID", "NAME", "ROLE", "PROJECT", "SECRET", "AGE", "USED", "EXPIRES", "NARROWED"]
    assert re.match(rf"[a-z0-9]{{20}}  seen +developer +{project} +vial_\w+ +\d+s +never +never +templates, limits$", lines[1]), lines
    assert vial("key", "ls", "-q", "--project", project).stdout.split() == [k["id"] for k in vial.json("key", "ls", "--project", project)]
    assert "seen" not in vial("key", "ls").stdout and "seen" in vial("key", "ls", "--all").stdout


def test_hundreds_of_keys_come_over_several_pages(vial, daemon, project):
    client = daemon.client()
    for number in range(620):
        client.call("POST", "/v1/keys", {"name": f"many-{number}", "role": "viewer", "project": project})
    names = [k["name"] for k in vial.json("key", "ls", "--project", project)]
    assert sorted(names) == sorted(f"many-{number}" for number in range(620))
    assert len(vial("key", "ls", "--project", project).stdout.splitlines()) == 621
    assert vial.json("key", "show", "many-619")["name"] == "many-619"


# --- weak roles ---


def test_a_viewer_sees_quotas_and_usage_and_nothing_of_others(vial, project):
    secret = vial("key", "create", "look", "--role", "viewer", "--project", project).stdout.strip()
    viewer = as_key(vial, secret)
    assert vial.json("quota", **viewer)["project"] == project and vial.json("usage", **viewer) == []
    assert "there is no project default" in vial("quota", "default", check=False, **viewer).stderr
    for args, role in [(["usage", "--all"], "operator"), (["project", "ls"], "operator"), (["project", "create", "x"], "operator"), (["key", "ls"], "admin"),
                       (["key", "create", "x", "--role", "viewer"], "admin"), (["quota", "set", project, "max_sandboxes=1"], "operator"),
                       (["project", "rm", "-f", project], "operator"), (["key", "rm", "look"], "admin")]:
        done = vial(*args, check=False, **viewer)
        assert done.returncode == 1 and f"role {role}" in done.stderr and "role viewer" in done.stderr, (args, done.stderr)


def test_an_admin_rules_the_keys_of_his_project_only(vial, project):
    admin = as_key(vial, vial("key", "create", "boss", "--role", "admin", "--project", project).stdout.strip())
    vial("key", "create", "mine", "--role", "runner", **admin)
    assert {k["name"] for k in vial.json("key", "ls", **admin)} == {"boss", "mine"}
    assert vial("key", "show", "admin", check=False, **admin).returncode == 1
    assert "operator" in vial("key", "create", "more", "--role", "operator", check=False, **admin).stderr
    vial("key", "rm", "mine", **admin)


# --- quotas and usage ---


def test_quotas_are_set_shown_and_taken_away(vial, project):
    state = vial.json("quota", "set", project, "max_sandboxes=50", "max-memory-mb=64G", "max_snapshot_bytes=20G", "max_ttl_seconds=8h", "max_vcpu=2.5",
                      "network_modes=disabled,filtered", "tiers=2x4")
    assert state["quotas"] == {"max_sandboxes": 50, "max_memory_mb": 65536, "max_snapshot_bytes": 20 << 30, "max_ttl_seconds": 28800, "max_vcpu": 2.5,
                               "network_modes": ["disabled", "filtered"], "tiers": ["2x4"]}
    rows = {line.split()[0]: line.split()[1:] for line in vial("quota", project).stdout.splitlines()}
    assert rows["QUOTA"] == ["LIMIT", "USED", "LEFT"] and rows["max_sandboxes"] == ["50", "0", "50"] and rows["max_vcpu"] == ["2.5", "0", "2.5"]
    assert rows["max_ttl_seconds"] == ["8h", "-", "-"] and rows["max_disk_mb"] == ["none", "0", "B", "-"]
    assert vial.json("quota", "set", project, "max_vcpu=none")["quotas"].keys() == state["quotas"].keys() - {"max_vcpu"}
    assert vial.json("quota", "show", project)["project"] == project


def test_a_project_called_like_a_verb_can_be_shown(vial):
    vial("project", "create", "set")
    assert vial.json("quota", "show", "set")["project"] == "set"
    vial("project", "rm", "-f", "set")


def test_usage_without_any_is_said_and_csv_has_its_names(vial, project):
    done = vial("usage", "--project", project)
    assert done.stdout == "" and "nothing was used" in done.stderr
    table = list(csv.reader(io.StringIO(vial("usage", "--project", project, "--csv", "--by", "day,key,template").stdout)))
    assert table == [["day", "template", "key_id", "sandbox_seconds", "vcpu_seconds", "memory_gb_seconds", "runs", "bytes_in", "bytes_out"]]


def test_usage_and_quotas_count_a_sandbox(vial):
    id_ = vial("create", "--template", "minimal").stdout.strip()
    try:
        vial("exec", id_, "true")
        rows = vial.json("usage", "--by", "template")
        assert [r["template"] for r in rows] == ["minimal"] and rows[0]["runs"] >= 1 and rows[0]["sandbox_seconds"] > 0
        assert re.search(r"^KEY +NAME +SANDBOX-S .*\n[a-z0-9]{20}  admin +", vial("usage", "--by", "key").stdout)
        shown = vial("usage", "--all", "--from", "1d").stdout.splitlines()
        assert shown[0].split() == ["DAY", "PROJECT", "SANDBOX-S", "VCPU-S", "GB-S", "RUNS", "IN", "OUT"] and shown[1].split()[1] == "default"
        assert vial.json("usage", "--to", "2d") == []
        state = vial.json("quota")
        assert state["used"]["sandboxes"] == 1 and state["by"] == {"keys": {"admin": 1}, "templates": {"minimal": 1}}
        assert "sandboxes: 1 by admin" in vial("quota").stdout
    finally:
        vial("rm", id_)


# --- what an honest server does not say ---


def test_pages_of_keys_are_followed_in_the_stand_in(fake_vial):
    assert len(fake_vial.json("key", "ls", "--all")) == 10  # in pages of three
    assert fake_vial("key", "ls", "--names").stdout.split() == [f"key-{n}" for n in range(7)] + [f"{n:020d}" for n in (7, 8, 9)]


def test_a_key_that_goes_while_pages_are_read_makes_none_appear_twice(fake_vial):
    fake_vial.server.fake.governance.restarts = 1
    assert [k["id"] for k in fake_vial.json("key", "ls", "--all")] == [f"{n:020d}" for n in range(10)]


def test_usage_has_a_line_of_sums(fake_vial):
    lines = fake_vial("usage", "--by", "day,template").stdout.splitlines()
    assert lines[-1].split() == ["total", "20.5", "41.0", "41.0", "6", "4.0", "KiB", "8.0", "KiB"]


def test_a_narrow_terminal_cuts_lines_and_a_pipe_does_not(fake_vial):
    terminal = fake_vial.terminal("key", "ls", "--all", columns=36)
    assert terminal.wait() == 0
    shown = re.sub(r"\x1b\[[0-9;]*m", "", terminal.output.decode()).splitlines()
    assert len(shown) == 11 and all(len(line) <= 36 for line in shown) and shown[1].endswith("…")
    assert all(len(line) > 60 for line in fake_vial("key", "ls", "--all").stdout.splitlines())


def test_only_what_was_named_is_sent(fake_vial):
    asked = fake_vial.server.fake.governance.asked
    fake_vial("project", "set", "default", "--max-vcpu", "none")
    assert asked[-1] == ("PATCH", "projects/default", {"quotas": {"max_vcpu": None}})
    fake_vial("quota", "set", "default", "max_templates=0")
    assert asked[-1] == ("PATCH", "projects/default", {"quotas": {"max_templates": 0}})
    fake_vial("key", "create", "k", "--role", "viewer", "--expires", "2030-01-01")
    assert asked[-1] == ("POST", "keys", {"name": "k", "role": "viewer", "expires_at": "2030-01-01T00:00:00Z"})
    fake_vial("key", "set", "key-1", "--expires", "never")
    assert asked[-1] == ("PATCH", f"keys/{1:020d}", {"expires_at": None})
    fake_vial("key", "rotate", "key-1")
    assert asked[-1] == ("POST", f"keys/{1:020d}/rotate", {})


def test_an_option_of_another_verb_is_told_apart_from_one_that_is_none(fake_vial):
    done = fake_vial("key", "ls", "--overlap", "1d", check=False)
    assert done.returncode == 2 and "there is no option --overlap here; it is for `vial key rotate`" in done.stderr
    assert "did you mean --overlap?" in fake_vial("key", "rotate", "x", "--overlop", "1d", check=False).stderr
    assert fake_vial("quota", "--json", "show", "default").returncode == 0
