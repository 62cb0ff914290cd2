# SPDX-License-Identifier: Apache-2.0
"""Tokens of a real identity provider (the npm package oidc-provider), fetched and rotated as in life."""

import base64
import http.cookiejar
import json
import time
import urllib.error
import urllib.parse
import urllib.request

import pytest

from conftest import FORGETFUL, IMPATIENT
from waiting import slow

ALGORITHMS = ["RS256", "ES256", "EdDSA"]
RULES = ("groups=ml-platform -> default:operator, department=data -> analytics:developer, email=*@example.com -> sandbox:viewer, "
         "groups=everybody -> default:runner")


def post(url, fields):
    with urllib.request.urlopen(url, urllib.parse.urlencode(fields).encode(), timeout=slow(20)) as answer:
        return json.load(answer)


def access_token(provider, who, algorithm="RS256", seconds=300, audience="vial"):
    return post(f"{provider.issuer}/token", {"grant_type": "client_credentials", "client_id": who, "client_secret": "secret",
                                             "resource": f"urn:vial:{algorithm}:{seconds}:{audience}"})["access_token"]


class NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *arguments):
        return None


def id_token(provider, algorithm):
    """What a browser and the page behind it do: code flow, one redirect after the other."""
    client, back = f"vial-page-{algorithm}", "https://page.example/back"
    browser = urllib.request.build_opener(NoRedirect, urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()))
    url = f"{provider.issuer}/auth?" + urllib.parse.urlencode({"client_id": client, "redirect_uri": back, "response_type": "code",
                                                               "scope": "openid email groups"})
    for _ in range(10):
        try:
            raise AssertionError(f"no redirect: {browser.open(url, timeout=slow(20)).read()}")
        except urllib.error.HTTPError as answer:
            assert answer.code in (302, 303), answer.read()
            url = urllib.parse.urljoin(url, answer.headers["Location"])
        if url.startswith(back):
            break
    code = urllib.parse.parse_qs(urllib.parse.urlsplit(url).query)["code"][0]
    return post(f"{provider.issuer}/token", {"grant_type": "authorization_code", "code": code, "redirect_uri": back, "client_id": client,
                                             "client_secret": "secret"})["id_token"]


def header_of(token):
    head = token.split(".")[0]
    return json.loads(base64.urlsafe_b64decode(head + "=" * (-len(head) % 4)))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_an_access_token_is_an_identity(provider, driver, algorithm):
    before = int(time.time())
    token = access_token(provider, "alice", algorithm)
    after = time.time()
    assert header_of(token)["alg"] == algorithm and header_of(token)["typ"] == "at+jwt"
    who = driver(oidc_issuer=provider.issuer, oidc_rules=RULES).who(token)
    assert {**who, "expires_at_ms": 0} == {"id": "alice", "name": "alice@example.com", "project": "default", "role": "operator", "kind": "person",
                                           "expires_at_ms": 0}
    assert before + 300 <= who["expires_at_ms"] / 1000 <= after + 301


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_an_id_token_of_a_person_is_one_too(provider, driver, algorithm):
    token = id_token(provider, algorithm)
    assert header_of(token)["alg"] == algorithm
    one = driver(oidc_issuer=provider.issuer, oidc_audience=f"other, vial-page-{algorithm}", oidc_rules="groups=people -> default:developer")
    assert one.who(token)["name"] == "carol@example.com"


def test_the_rules_tell_people_apart(provider, driver):
    one = driver(oidc_issuer=provider.issuer, oidc_rules=RULES)
    assert one.who(access_token(provider, "bob"))["project"] == "analytics"
    assert one.who(access_token(provider, "bob"), "default")["role"] == "runner"
    assert one.who(access_token(provider, "bob"))["name"] == "bob"
    status, sentence = one.refusal(access_token(provider, "eve"))
    assert status == 403 and "no rule" in sentence
    status, sentence = one.refusal(access_token(provider, "bob"), "sandbox")
    assert status == 403 and "sandbox" in sentence


def test_a_token_for_another_service_is_refused(provider, driver):
    one = driver(oidc_issuer=provider.issuer)
    assert one.refusal(access_token(provider, "alice", audience="payroll")) == (401, "the token is for another audience")


def test_questions_before_the_keys_are_there_wait_for_them(provider, driver):
    tokens = [access_token(provider, "alice", algorithm) for algorithm in ALGORITHMS]
    one = driver(oidc_issuer=provider.issuer)
    numbers = [one.start(token) for token in tokens * 5]
    answers = [one.answer(n) for n in numbers]
    assert all("identity" in answer for answer in answers)
    # Asked five times before the first was known, and yet one object each.
    assert len({answer["object"] for answer in answers}) == 3


def test_the_same_token_is_the_same_identity(provider, driver):
    one = driver(oidc_issuer=provider.issuer, oidc_rules=RULES)
    token = access_token(provider, "alice")
    assert one.ask(token)["object"] == one.ask(token)["object"]
    assert one.ask(token, "sandbox")["object"] == one.ask(token, "sandbox")["object"]
    assert one.ask(token, "sandbox")["object"] != one.ask(token)["object"]


def test_a_token_ends_when_it_expires(provider, driver):
    one = driver(oidc_issuer=provider.issuer)
    long = access_token(provider, "bob")
    one.who(long)
    token = access_token(provider, "alice", seconds=15)
    first = one.start(token)
    ends_at = one.answer(first)["identity"]["expires_at_ms"] / 1000
    assert one.ended() == [first] and time.time() >= ends_at
    assert one.refusal(token) == (401, "the token has expired")
    one.who(long)


def test_a_new_key_is_fetched_when_a_token_names_it(provider, driver):
    one = driver(oidc_issuer=provider.issuer, times=IMPATIENT)
    old = access_token(provider, "alice")
    one.who(old)
    assert len(provider.order(keys=["RS256", "ES256", "EdDSA"], keep=True)["keys"]) == 6
    new = access_token(provider, "alice")
    assert header_of(new)["kid"] != header_of(old)["kid"]
    time.sleep(1.1)
    one.who(new)
    one.who(old)


def test_a_withdrawn_key_ends_those_it_signed_for(provider, driver):
    one = driver(oidc_issuer=provider.issuer, times=IMPATIENT)
    old = access_token(provider, "alice", "ES256")
    first = one.start(old)
    assert "identity" in one.answer(first)
    provider.order(keys=["RS256", "ES256"])
    assert one.ended() == [first]
    assert one.refusal(old) == (401, "the token is signed with a key that the identity provider does not publish")
    one.who(access_token(provider, "alice", "ES256"))


def test_a_provider_that_goes_away_is_missed_only_after_a_while(provider, driver):
    one = driver(oidc_issuer=provider.issuer, times=FORGETFUL)
    token = access_token(provider, "alice")
    first = one.start(token)
    assert "identity" in one.answer(first)
    other = access_token(provider, "bob")
    provider.process.terminate()
    provider.process.wait()
    assert one.has_said("cannot be fetched")
    one.who(other)
    # The forgetful keeps keys for a quarter of a minute, the real one for a day.
    assert set(one.ended()) == {first, 2}
    status, sentence = one.refusal(token)
    assert status == 503 and "cannot be reached" in sentence
