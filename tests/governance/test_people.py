# SPDX-License-Identifier: Apache-2.0
"""People in a running viald: a token of the identity provider stands for a person with a project and a role, who is on record, charged and cut off like a key."""

import time

import pytest

import forge
from fake import Fake
from test_matrix import CALLS, ask, least, lines
from tools import UNKNOWN_ID, check_refusal, records, wait_until
from vial import Client, Daemon
from world import Project, Stream, all_end

RULES = ("groups=operators -> default:operator, groups=lab-developers -> lab:developer, groups=lab-viewers -> lab:viewer, groups=both -> lab:runner, groups=both -> other:viewer, "
         "groups=ghosts -> nowhere:viewer, groups=admins -> lab:admin")


@pytest.fixture(scope="module")
def key():
    return forge.Key("ES256", "k1")


@pytest.fixture(scope="module")
def provider(key):
    provider = Fake(forge.key_set(key))
    yield provider
    provider.stop()


@pytest.fixture(scope="module")
def daemon(folder, provider):
    daemon = Daemon(folder, "--oidc-issuer", provider.issuer, "--oidc-audience", "vial", "--oidc-rules", RULES, "--oidc-clock-skew-seconds", 0)
    yield daemon
    daemon.stop()


@pytest.fixture(scope="module")
def lab(client):
    project = Project(client, "lab")
    project.sandbox = project.client.create()
    Project(client, "other")
    return project


@pytest.fixture
def person(client, provider, key, lab):
    """person(groups..., claims...): a client with a token."""
    def make(*groups, **claims):
        return Client(client.url, forge.token(key, **{"iss": provider.issuer, "groups": list(groups), "sub": "u-1", "email": "u@example.com", **claims}))
    return make


def test_a_person_is_who_the_token_says_with_what_the_rules_give(person):
    me = person("lab-developers").call("GET", "/v1/me")
    assert (me["project"], me["role"], "key_id" in me) == ("lab", "developer", False)
    assert (me["principal"]["kind"], me["principal"]["id"], me["principal"]["name"]) == ("person", "u-1", "u@example.com")
    assert person("operators").call("GET", "/v1/me")["role"] == "operator"


def test_a_person_chooses_among_his_projects_by_a_header(person):
    both = person("both")
    assert both.call("GET", "/v1/me")["project"] == "lab"
    for project, role in (("lab", "runner"), ("other", "viewer")):
        me = both.call("GET", "/v1/me", headers={"X-Vial-Project": project})
        assert (me["project"], me["role"]) == (project, role)
    for project, status in (("default", 403), ("nowhere", 403), ("LAB", 400), ("lab,other", 400)):
        check_refusal(both.ask("GET", "/v1/me", headers={"X-Vial-Project": project}), status)


def test_a_key_says_nothing_by_that_header(lab):
    assert lab.client.call("GET", "/v1/me", headers={"X-Vial-Project": "other"})["project"] == "lab"


def test_a_role_of_a_person_is_enough_or_not_like_a_key_s(person, lab):
    viewer, developer = person("lab-viewers", sub="v"), person("lab-developers", sub="d")
    assert viewer.call("GET", lab.sandbox.path)["id"] == lab.sandbox.id
    answer = viewer.ask("POST", f"{lab.sandbox.path}/exec", {"cmd": "true"})
    assert "runner" in check_refusal(answer, 403) and answer.json()["detail"]["role"] == "runner"
    assert developer.call("POST", f"{lab.sandbox.path}/exec", {"cmd": "echo x"})["stdout"] == "x\n"
    check_refusal(developer.ask("GET", lab.sandbox.path, headers={"X-Vial-Project": "other"}), 403)
    other = person("both", sub="b")
    check_refusal(other.ask("GET", lab.sandbox.path, headers={"X-Vial-Project": "other"}), 404)


def test_a_person_meets_the_same_rule_at_every_route(client, person, lab):
    """One role is enough to show that rights are looked at in one place: test_matrix.py has them all, for keys."""
    viewer, nobody = person("lab-viewers", sub="v"), person("lab-viewers", sub="v", exp=1000)
    ids = {"id": lab.sandbox.id, "project": "lab", "port": "8000", "path": "x", "name": "minimal", "key": UNKNOWN_ID, "snapshot": UNKNOWN_ID, "pid": "1", "sid": UNKNOWN_ID, "seq": "1",
           "winner": UNKNOWN_ID, "build": UNKNOWN_ID, "agent": "nobody", "version": "1", "session": "s", "user": "u"}
    elsewhere = {**ids, "id": client.create().id, "project": "default"}
    for line in lines():
        assert ask(nobody, line, ids)[0] == 401, line
        if least(line) != "viewer":
            answer = ask(viewer, line, ids)
            assert answer[0] == 403 and answer[1]["detail"]["role"] == least(line), (line, answer)
        elif "{id}" in line or "{project}" in line:
            assert ask(viewer, line, ids)[0] in CALLS[line].expect, line
            assert ask(viewer, line, elsewhere)[0] == 404, line
    client.ask("DELETE", f"/v1/sandboxes/{elsewhere['id']}")


@pytest.mark.parametrize("claims,status", [
    ({"exp": 1000}, 401), ({"aud": "somebody-else"}, 401), ({"iss": "https://elsewhere.example"}, 401), ({"nbf": 4 * 10**9}, 401), ({"sub": None}, 401), ({"groups": ["nobody"]}, 403),
    ({"groups": ["ghosts"]}, 403)], ids=str)
def test_a_token_that_is_not_good_opens_nothing(person, claims, status):
    sentence = check_refusal(person("lab-developers", **claims).ask("GET", "/v1/me"), status)
    assert "eyJ" not in sentence


def test_a_token_of_somebody_else_s_key_or_without_a_signature_opens_nothing(client, provider, key, lab):
    claims = forge.claims(iss=provider.issuer, groups=["operators"])
    none = forge.assemble({"alg": "none", "typ": "JWT"}, claims, lambda data: b"")
    for token in (forge.token(forge.Key("ES256", "k1"), **claims), forge.token(forge.Key("ES256", "k9"), **claims), none, forge.token(key, **claims)[:-4] + "AAAA"):
        check_refusal(Client(client.url, token).ask("GET", "/v1/me"), 401)


def test_what_a_person_has_open_ends_with_the_token(person, lab):
    end = int(time.time()) + 20
    runner = person("lab-developers", sub="short", exp=end)
    stream = Stream(runner, "POST", f"{lab.sandbox.path}/exec/stream", {"cmd": "echo here; sleep 1000"}).wait_for(b"here")
    all_end([stream], time.monotonic() + end - time.time())
    check_refusal(runner.ask("GET", "/v1/me"), 401)


def test_the_record_names_the_person_and_usage_is_charged_to_him(client, person, lab):
    someone = person("lab-developers", sub="auth0|alice", email="alice@example.com")
    sandbox = someone.create()
    sandbox.exec("echo x")
    sandbox.delete()
    found = wait_until(lambda: [record for record in records(client, project="lab", principal="auth0|alice") if record["action"] == "exec"])
    assert found[0]["principal"] == {"kind": "person", "id": "auth0|alice", "name": "alice@example.com", "role": "developer"}
    usage = {row["key_id"]: row for row in lab.usage("key")}
    assert usage["auth0|alice"]["runs"] == 1 and usage["auth0|alice"]["sandbox_seconds"] > 0


def test_a_person_whose_id_looks_like_a_key_s_is_not_taken_for_the_key(client, person, lab):
    """Else he would be charged as the key, have its limits, and show its name to another project."""
    victim = client.call("POST", "/v1/keys", {"role": "developer", "name": "of another project", "limits": {"max_sandboxes": 0}})
    twin = person("lab-developers", sub=victim["id"], email=None)
    sandbox = twin.create()
    assert twin.call("GET", "/v1/me")["principal"]["id"] == f"person:{victim['id']}"
    lab.set_quotas(max_sandboxes=2)
    answer = twin.ask("POST", "/v1/sandboxes", {"template": "minimal"})
    lab.set_quotas()
    assert answer.status == 429 and "of another project" not in answer.text and f"person:{victim['id']}" in answer.text
    sandbox.delete()
    assert victim["id"] not in {row["key_id"] for row in lab.usage("key")}
    prefixed = person("lab-developers", sub=f"person:{victim['id']}")
    assert prefixed.call("GET", "/v1/me")["principal"]["id"] == f"person:person:{victim['id']}"


def test_a_person_s_admin_gives_keys_that_outlive_his_session(person):
    admin = person("admins", sub="boss")
    made = admin.call("POST", "/v1/keys", {"role": "viewer"})
    assert made["created_by"] == "boss" and made["project"] == "lab" and "expires_at" not in made
    check_refusal(admin.ask("POST", "/v1/keys", {"role": "operator"}), 403)


def test_a_person_in_a_project_that_was_deleted_is_nobody(client, person):
    """Last: the project goes."""
    someone = person("both", sub="left")
    assert someone.ask("GET", "/v1/me", headers={"X-Vial-Project": "other"}).status == 200
    client.call("DELETE", "/v1/projects/other")
    check_refusal(someone.ask("GET", "/v1/me", headers={"X-Vial-Project": "other"}), 403)
