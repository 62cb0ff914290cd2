# SPDX-License-Identifier: Apache-2.0
"""Where the keys come from: sets with all sorts in them, files that change, and providers that are slow, dead, elsewhere or lying."""

import json
import os
import socket
import threading
import time

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

import fake
from conftest import FORGETFUL, IMPATIENT, PATIENT, USUAL
from forge import Key, b64, claims, forged, key_set, token
from waiting import wait_until

UNKNOWN = (401, "the token is signed with a key that the identity provider does not publish")
UNREACHABLE = (503, "the identity provider cannot be reached for the key that the token is signed with; try again later")


@pytest.fixture
def start_fake():
    running = []

    def start(*arguments, **named):
        running.append(fake.Fake(*arguments, **named))
        return running[-1]
    yield start
    for one in running:
        one.stop()


def of(provider, key, **more):
    """A good token of this provider."""
    return token(key, iss=provider.issuer, **more)


# ---- what is in a set ----


@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "EdDSA"])
@pytest.mark.parametrize("more", [{"alg": None}, {"use": None}, {"alg": None, "use": None}, {"key_ops": ["verify"]}, {"x5t": "x"}, {"unknown": {"a": 1}},
                                  {"x5u": "https://127.0.0.1:1/x"}, {"x5c": ["AAAA"]}])
def test_keys_that_are_used(driver, keys, key_file, algorithm, more):
    one = driver(oidc_jwks_file=key_file(key_set(keys[algorithm].jwk(**more))))
    one.who(token(keys[algorithm]))


@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "EdDSA"])
@pytest.mark.parametrize("more", [{"use": "enc"}, {"use": 1}, {"alg": "RS512"}, {"alg": "HS256"}, {"alg": "none"}, {"alg": 1}, {"alg": ["RS256"]}, {"key_ops": ["sign"]},
                                  {"key_ops": []}, {"key_ops": "verify"}, {"kty": "oct"}, {"kty": "rsa"}, {"kty": None}, {"d": "AQAB"}, {"k": "AQAB"}, {"kid": 5},
                                  {"kid": ""}, {"kid": "x" * 256}])
def test_keys_that_say_they_are_for_something_else(driver, keys, key_file, algorithm, more):
    one = driver(oidc_jwks_file=key_file(key_set(keys[algorithm].jwk(**more))))
    assert one.refusal(token(keys[algorithm])) == UNKNOWN


@pytest.mark.parametrize("more", [{"n": ""}, {"n": "AQAB"}, {"n": None}, {"n": 5}, {"n": "*"}, {"e": "AQ"}, {"e": "AA"}, {"e": "Ag"}, {"e": "AAAAAQ"}, {"e": None},
                                  {"e": "AQAAAAAAAAAAAAAB"}])
def test_rsa_keys_that_are_none(driver, keys, key_file, more):
    one = driver(oidc_jwks_file=key_file(key_set(keys["RS256"].jwk(**more))))
    assert one.refusal(token(keys["RS256"])) == UNKNOWN


def test_an_exponent_of_one_makes_no_signature_good(driver, keys, key_file):
    """With it the padded digest is its own signature; the library says yes."""
    import hashlib
    key = keys["RS256"]
    one = driver(oidc_jwks_file=key_file(key_set(key.jwk(e="AQ"))))

    def sign(data):
        digest = bytes.fromhex("3031300d060960864801650304020105000420") + hashlib.sha256(data).digest()
        return b"\0\1" + b"\xff" * (256 - 3 - len(digest)) + b"\0" + digest
    assert one.refusal(forged(key, sign=sign)) == UNKNOWN


@pytest.mark.parametrize("bits", [1024, 1536, 2040])
def test_weak_rsa_keys(driver, key_file, bits):
    weak = Key("RS256", "weak", bits)
    assert driver(oidc_jwks_file=key_file(key_set(weak))).refusal(token(weak)) == UNKNOWN


def test_weak_rsa_keys_do_not_grow_by_zeros(driver, key_file):
    weak = Key("RS256", "weak", 1024)
    wide = b64(bytes(128) + weak.private.public_key().public_numbers().n.to_bytes(128, "big"))
    assert driver(oidc_jwks_file=key_file(key_set(weak.jwk(n=wide)))).refusal(token(weak)) == UNKNOWN


@pytest.mark.parametrize("bits", [2056, 3072, 4096])
def test_strong_rsa_keys(driver, key_file, bits):
    strong = Key("RS256", "strong", bits)
    driver(oidc_jwks_file=key_file(key_set(strong))).who(token(strong))


def test_a_zero_in_front_of_a_modulus_is_left_out(driver, keys, key_file):
    key = keys["RS256"]
    wide = b64(b"\0" + key.private.public_key().public_numbers().n.to_bytes(256, "big"))
    driver(oidc_jwks_file=key_file(key_set(key.jwk(n=wide)))).who(token(key))


@pytest.mark.parametrize("curve", [ec.SECP384R1, ec.SECP256K1])
def test_other_curves(driver, key_file, curve):
    """The library takes P-384 for ES256."""
    other = Key("ES256", "other", curve=curve())
    for crv in (None, "P-256"):
        jwk = other.jwk() if not crv else other.jwk(crv=crv)
        assert driver(oidc_jwks_file=key_file(key_set(jwk))).refusal(forged(other)) == UNKNOWN


@pytest.mark.parametrize("more", [{"x": b64(bytes(32))}, {"x": b64(b"\1" * 32)}, {"y": b64(b"\1" * 32)}, {"x": b64(b"\1" * 31)}, {"x": b64(b"\0" * 33)}, {"y": None},
                                  {"crv": None}, {"crv": "Ed25519"}])
def test_points_that_are_on_no_curve(driver, keys, key_file, more):
    one = driver(oidc_jwks_file=key_file(key_set(keys["ES256"].jwk(**more))))
    assert one.refusal(token(keys["ES256"])) == UNKNOWN


@pytest.mark.parametrize("more", [{"crv": "Ed448"}, {"crv": "X25519"}, {"crv": "P-256"}, {"x": b64(b"\1" * 31)}, {"x": b64(b"\1" * 33)}, {"x": None}])
def test_edwards_keys_that_are_none(driver, keys, key_file, more):
    one = driver(oidc_jwks_file=key_file(key_set(keys["EdDSA"].jwk(**more))))
    assert one.refusal(token(keys["EdDSA"])) == UNKNOWN


def test_what_is_no_key_spoils_nothing(driver, keys, key_file):
    garbage = [None, 5, "x", [], {}, {"kty": "oct", "k": "AQAB", "kid": "rsa-1"}, {"kty": "RSA"}, {"kid": "rsa-1"}, Key("RS256", "rsa-1", 1024).jwk()]
    one = driver(oidc_jwks_file=key_file({"keys": [*garbage, *(key.jwk() for key in keys.values())], "more": 1}))
    for key in keys.values():
        one.who(token(key))
    assert one.has_said('keys="3" ignored="9"')


def test_a_token_without_the_name_of_a_key(driver, keys, key_file):
    other = Key("ES256", "ec-2")
    one = driver(oidc_jwks_file=key_file(key_set(keys["ES256"], keys["RS256"])))
    one.who(forged(keys["ES256"], {"kid": None}))
    assert one.refusal(forged(other, {"kid": None})) == (401, "the signature of the token is not valid")
    two = driver(oidc_jwks_file=key_file(key_set(keys["ES256"], other)))
    status, sentence = two.refusal(forged(keys["ES256"], {"kid": None}))
    assert status == 401 and "which of the identity provider's keys" in sentence


def test_keys_without_a_name(driver, keys, key_file):
    one = driver(oidc_jwks_file=key_file(key_set(keys["ES256"].jwk(kid=None))))
    one.who(forged(keys["ES256"], {"kid": None}))
    assert one.refusal(forged(keys["ES256"])) == UNKNOWN


def test_two_keys_of_one_name(driver, keys, key_file):
    """Of different kinds both count; of the same the first does."""
    second = Key("ES256", "rsa-1")
    third = Key("ES256", "rsa-1")
    one = driver(oidc_jwks_file=key_file(key_set(keys["RS256"], second, third)))
    one.who(token(keys["RS256"]))
    one.who(token(second))
    assert one.refusal(token(third)) == (401, "the signature of the token is not valid")


GARBAGE = [b"", b"null", b"[]", b"{}", b'{"keys": {}}', b'{"keys": null}', b"<html>", b'{"keys": []', b'\xff', b'{"keys": [], "keys": []}', b"[" * 100_000,
           json.dumps({"keys": [{}] * 65}).encode(), b'{"keys": []}' + b" " * 300_000]


@pytest.mark.parametrize("document", GARBAGE, ids=range(len(GARBAGE)))
def test_sets_that_are_none(refused_start, driver, start_fake, keys, key_file, document):
    sentence = refused_start(oidc_issuer="https://x.example", oidc_audience="x", oidc_rules="a=b -> c:viewer", oidc_jwks_file=key_file(document))
    assert "oidc_jwks_file" in sentence.splitlines()[-1]
    provider = start_fake()
    provider.answers[fake.JWKS] = fake.ok(document)
    one = driver(oidc_issuer=provider.issuer)
    assert one.refusal(of(provider, keys["ES256"])) == UNREACHABLE


# ---- a file ----


def test_a_file_that_changes_is_read_again(driver, keys, key_file):
    one = driver(oidc_jwks_file=key_file(key_set(keys["ES256"])))
    first = one.start(token(keys["ES256"]))
    assert "identity" in one.answer(first)
    assert one.refusal(token(keys["EdDSA"])) == UNKNOWN
    key_file(key_set(keys["ES256"], keys["EdDSA"]))
    time.sleep(1.1)
    one.who(token(keys["EdDSA"]))
    key_file(key_set(keys["EdDSA"]))
    time.sleep(1.1)
    # Noticed by whoever comes next, also with a token that is known.
    assert one.refusal(token(keys["ES256"])) == UNKNOWN
    assert one.ended() == [first]


def test_the_same_name_for_another_key_ends_the_old_ones(driver, keys, key_file):
    one = driver(oidc_jwks_file=key_file(key_set(keys["ES256"])))
    good = token(keys["ES256"])
    first = one.start(good)
    assert "identity" in one.answer(first)
    new = Key("ES256", "ec-1")
    key_file(key_set(new))
    time.sleep(1.1)
    one.who(token(new))
    assert one.ended() == [first]
    assert one.refusal(good) == (401, "the signature of the token is not valid")


def test_a_file_written_again_within_the_tick_of_its_clock(driver, keys, key_file):
    """Same size, same time, same inode, other keys."""
    new = Key("ES256", "ec-1")
    before, after = (json.dumps(key_set(key)).encode() for key in (keys["ES256"], new))
    assert len(before) == len(after)
    path = key_file(before)
    now = time.time_ns()
    os.utime(path, ns=(now, now))
    one = driver(oidc_jwks_file=path)
    one.who(token(keys["ES256"]))
    with open(path, "r+b") as file:
        file.write(after)
    os.utime(path, ns=(now, now))
    time.sleep(1.1)
    one.who(token(new))


@pytest.mark.parametrize("broken", [b'{"keys": [', None], ids=["cut", "gone"])
def test_a_file_that_cannot_be_read_again_keeps_the_old_keys(driver, keys, key_file, broken):
    path = key_file(key_set(keys["ES256"]))
    one = driver(oidc_jwks_file=path)
    one.who(token(keys["ES256"]))
    key_file(broken) if broken else path.unlink()
    time.sleep(1.1)
    one.who(token(keys["ES256"], sub="u-2"))
    assert one.has_said("cannot be read again")
    time.sleep(1.1)
    one.who(token(keys["ES256"], sub="u-3"))
    assert sum("cannot be read again" in line for line in one.log) == 1
    key_file(key_set(keys["EdDSA"]))
    time.sleep(1.1)
    one.who(token(keys["EdDSA"]))


def test_a_file_that_stays_as_it_is_is_good_for_ever(driver, keys, key_file):
    one = driver(oidc_jwks_file=key_file(key_set(keys["ES256"])), times=FORGETFUL)
    time.sleep(FORGETFUL["keep_ms"] / 1000 + 0.5)
    one.who(token(keys["ES256"]))
    assert not any("forgotten" in line for line in one.log)


def test_a_file_that_is_gone_for_too_long_is_forgotten(driver, keys, key_file):
    path = key_file(key_set(keys["ES256"]))
    one = driver(oidc_jwks_file=path, times=FORGETFUL)
    first = one.start(token(keys["ES256"]))
    assert "identity" in one.answer(first)
    path.unlink()
    time.sleep(FORGETFUL["keep_ms"] / 1000 + 0.5)
    assert one.refusal(token(keys["ES256"]))[0] == 503
    assert one.ended() == [first]


def test_with_a_file_nothing_is_fetched(driver, start_fake, keys, key_file):
    provider = start_fake(key_set(*keys.values()))
    one = driver(oidc_issuer=provider.issuer, oidc_jwks_file=key_file(key_set(keys["ES256"])), times=IMPATIENT)
    one.who(of(provider, keys["ES256"]))
    assert one.refusal(of(provider, keys["EdDSA"])) == UNKNOWN
    time.sleep(1.5)
    assert provider.seen == []


# ---- a provider ----


def test_names_that_strangers_invent_cause_one_fetch(driver, start_fake, keys):
    provider = start_fake(key_set(keys["ES256"]))
    one = driver(oidc_issuer=provider.issuer, times={**PATIENT, "fetch_pause_ms": 300_000})
    one.who(of(provider, keys["ES256"]))
    for i in range(50):
        assert one.refusal(forged(keys["ES256"], {"kid": f"invented-{i}"}, claims(iss=provider.issuer))) == UNKNOWN
    assert provider.count() == 1


def test_whoever_asks_while_keys_are_fetched_waits_for_them(driver, start_fake, keys):
    provider = start_fake(key_set(keys["ES256"]))
    one = driver(oidc_issuer=provider.issuer, times=IMPATIENT)
    one.who(of(provider, keys["ES256"]))
    provider.answers[fake.JWKS] = fake.late(0.5, fake.ok(key_set(keys["ES256"], keys["EdDSA"])))
    time.sleep(1.1)
    numbers = [one.start(of(provider, keys["EdDSA"], jti=str(i))) for i in range(20)]
    stranger = one.start(forged(keys["EdDSA"], {"kid": "invented"}, claims(iss=provider.issuer)))
    assert "us" in one.ask(of(provider, keys["ES256"])), "who has a known key does not wait"
    assert all("identity" in one.answer(n) for n in numbers)
    assert one.answer(stranger)["error"]["status"] == 401


def test_what_is_wrong_by_its_own_words_causes_no_fetch(driver, start_fake, keys):
    provider = start_fake(key_set(keys["ES256"]))
    one = driver(oidc_issuer=provider.issuer, times={**PATIENT, "fetch_pause_ms": 100})  # and only for whoever asks
    one.who(of(provider, keys["ES256"]))
    time.sleep(0.3)
    before = provider.count()
    assert one.refusal(token(keys["EdDSA"]))[1] == "the token is from another issuer"
    assert one.refusal(of(provider, keys["EdDSA"], exp=1))[1] == "the token has expired"
    assert provider.count() == before


def test_keys_are_fetched_again_by_and_by(driver, start_fake, keys):
    provider = start_fake(key_set(keys["ES256"]))
    began = time.monotonic()
    driver(oidc_issuer=provider.issuer, times=IMPATIENT)
    wait_until(lambda: provider.count() >= 4, 20, lambda: f"{provider.seen}")
    assert len(provider.seen) <= 2 * (time.monotonic() - began + 2), "more than once a second"
    assert provider.seen[:8] == [provider.discovery, fake.JWKS] * 4
    assert all(headers["User-Agent"].startswith("vial/") for headers in provider.headers)


def test_a_set_without_keys_withdraws_all(driver, start_fake, keys):
    provider = start_fake(key_set(keys["ES256"]))
    one = driver(oidc_issuer=provider.issuer, times=IMPATIENT)
    first = one.start(of(provider, keys["ES256"]))
    assert "identity" in one.answer(first)
    provider.publish({"keys": []})
    assert one.ended() == [first]
    assert one.refusal(of(provider, keys["ES256"])) == UNKNOWN
    assert one.has_said("no key that can be used")


def test_a_failed_fetch_keeps_the_old_keys(driver, start_fake, keys):
    provider = start_fake(key_set(keys["ES256"]))
    one = driver(oidc_issuer=provider.issuer, times=IMPATIENT)
    one.who(of(provider, keys["ES256"]))
    provider.answers[fake.JWKS] = (500, {}, b"")
    assert one.has_said("status 500")
    one.who(of(provider, keys["ES256"], sub="u-2"))
    # The key may well be published; who knows?
    assert one.refusal(of(provider, keys["EdDSA"])) == UNREACHABLE


def test_a_path_in_the_issuer_and_a_slash_at_its_end(driver, start_fake, keys):
    for path in ("/realms/main", "/realms/main/", "/"):
        provider = start_fake(key_set(keys["ES256"]), path=path)
        driver(oidc_issuer=provider.issuer).who(of(provider, keys["ES256"]))
        assert provider.seen == [path.rstrip("/") + fake.DISCOVERY, fake.JWKS]


@pytest.mark.parametrize("issuer", ["https://login.example.com", "http://127.0.0.1:1", "", None, 5, "SLASH"])
def test_a_document_of_another_issuer(driver, start_fake, keys, issuer):
    provider = start_fake(key_set(keys["ES256"]))
    provider.answers[provider.discovery] = provider.document(issuer=provider.issuer + "/" if issuer == "SLASH" else issuer)
    one = driver(oidc_issuer=provider.issuer)
    assert one.refusal(of(provider, keys["ES256"])) == UNREACHABLE
    assert one.has_said("calls itself the issuer") and provider.count() == 0


@pytest.mark.parametrize("where", ["discovery", "keys"])
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308, 300])
def test_redirects_are_not_followed(driver, start_fake, keys, where, status):
    provider, other = start_fake(key_set(keys["ES256"])), start_fake(key_set(keys["ES256"]))
    other.answers = {"/there": provider.document() if where == "discovery" else fake.ok(key_set(keys["ES256"]))}
    path = provider.discovery if where == "discovery" else fake.JWKS
    for target in (other.origin + "/there", provider.origin + "/there", "/there"):
        provider.answers["/there"] = other.answers["/there"]
        provider.answers[path] = (status, {"Location": target}, b"")
        one = driver(oidc_issuer=provider.issuer)
        assert one.refusal(of(provider, keys["ES256"])) == UNREACHABLE
    assert other.seen == [] and "/there" not in provider.seen


@pytest.mark.parametrize("uri", ["file:///etc/passwd", "ftp://127.0.0.1/x", "gopher://127.0.0.1/x", "http://example.com/jwks", "//example.com/jwks", "/jwks", "", 5, None, [],
                                 "https://user:secret@127.0.0.1/jwks", "https://127.0.0.1/jwks#x", "http://127.0.0.1.example.com/jwks", "https://exa mple.com/"])
def test_addresses_that_keys_are_not_fetched_from(driver, start_fake, keys, uri):
    provider = start_fake(key_set(keys["ES256"]))
    provider.answers[provider.discovery] = provider.document(jwks_uri=uri)
    one = driver(oidc_issuer=provider.issuer)
    assert one.refusal(of(provider, keys["ES256"])) == UNREACHABLE
    assert provider.count() == 0


def test_a_provider_elsewhere_cannot_send_us_to_our_own_services(driver, start_fake, keys):
    """Its name is not one of this machine's; that it resolves to it is the test's trick."""
    victim = start_fake(key_set(keys["ES256"]))
    provider = start_fake(key_set(keys["ES256"]))
    # A proxy is where the name leads: it answers as the provider.
    provider.issuer = "http://login.example.com"
    proxied = {"http_proxy": provider.origin, "no_proxy": ""}
    for target in (victim.origin, victim.origin.replace("127.0.0.1", "localhost"), victim.origin.replace("127.0.0.1", "2130706433"),
                   victim.origin.replace("127.0.0.1", "0x7f.1"), victim.origin.replace("127.0.0.1", "127.9.9.9")):
        provider.answers["http://login.example.com" + fake.DISCOVERY] = provider.document(jwks_uri=target + fake.JWKS)
        one = driver(oidc_issuer=provider.issuer, oidc_allow_http="true", environment=proxied)
        assert one.refusal(of(provider, keys["ES256"])) == UNREACHABLE
        assert one.has_said("is an address of this machine")
    assert victim.seen == []


def test_a_proxy_of_the_environment_is_used_but_not_for_this_machine(driver, start_fake, keys):
    proxy = start_fake(key_set(keys["ES256"]))
    proxy.issuer = "http://login.example.com"
    proxy.answers = {"http://login.example.com" + fake.DISCOVERY: fake.ok({"issuer": proxy.issuer, "jwks_uri": "http://keys.example.com/k"}),
                     "http://keys.example.com/k": fake.ok(key_set(keys["ES256"]))}
    driver(oidc_issuer=proxy.issuer, oidc_allow_http="true", environment={"http_proxy": proxy.origin}).who(of(proxy, keys["ES256"]))
    assert len(proxy.seen) == 2
    provider = start_fake(key_set(keys["ES256"]))
    everything = {name: proxy.origin for name in ("http_proxy", "https_proxy", "all_proxy", "HTTPS_PROXY", "ALL_PROXY")}
    driver(oidc_issuer=provider.issuer, environment=everything).who(of(provider, keys["ES256"]))
    assert len(proxy.seen) == 2


@pytest.mark.parametrize("answer", [fake.late(10_000, fake.ok({})), fake.drip(0.5)])
@pytest.mark.parametrize("where", ["discovery", "keys"])
def test_slow_providers_are_given_up(driver, start_fake, keys, where, answer):
    provider = start_fake(key_set(keys["ES256"]))
    provider.answers[provider.discovery if where == "discovery" else fake.JWKS] = answer
    began = time.monotonic()
    one = driver(oidc_issuer=provider.issuer, times=USUAL)
    assert one.refusal(of(provider, keys["ES256"])) == UNREACHABLE  # conftest.PATIENCE is how long it may take
    assert 4.9 < time.monotonic() - began


def test_slowness_adds_up_to_the_same_limit(driver, start_fake, keys):
    """Each document in time for itself, both together not: else the token would be good."""
    provider = start_fake(key_set(keys["ES256"]))
    provider.answers[provider.discovery] = fake.late(3, provider.document())
    provider.answers[fake.JWKS] = fake.late(3, fake.ok(key_set(keys["ES256"])))
    one = driver(oidc_issuer=provider.issuer, times=USUAL)
    assert one.refusal(of(provider, keys["ES256"])) == UNREACHABLE


def test_a_provider_that_takes_connections_and_says_nothing(driver, keys):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        issuer = f"http://127.0.0.1:{listener.getsockname()[1]}"
        one = driver(oidc_issuer=issuer, times=USUAL)
        assert one.refusal(token(keys["ES256"], iss=issuer)) == UNREACHABLE


def test_a_dead_provider_that_comes_back(driver, start_fake, keys):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        dead = f"http://127.0.0.1:{listener.getsockname()[1]}"
    one = driver(oidc_issuer=dead)
    for _ in range(3):
        assert one.refusal(token(keys["ES256"], iss=dead)) == UNREACHABLE
    provider = start_fake(key_set(keys["ES256"]))
    provider.answers[provider.discovery] = (503, {}, b"")
    two = driver(oidc_issuer=provider.issuer, times=IMPATIENT)
    assert two.refusal(of(provider, keys["ES256"])) == UNREACHABLE
    provider.answers[provider.discovery] = provider.document()
    wait_until(lambda: provider.count(), 20, lambda: "the keys were not asked for again")
    two.who(of(provider, keys["ES256"]))


def endless(handler):
    try:
        handler.send_response(200)
        handler.end_headers()
        while True:
            handler.wfile.write(b" " * 65536)
    except OSError:
        pass


def many_headers(handler):
    try:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
        while True:
            handler.wfile.write(b"X: " + b"y" * 60000 + b"\r\n")
    except OSError:
        pass


def not_http(handler):
    handler.wfile.write(b"SSH-2.0-OpenSSH_9.2\r\n")


@pytest.mark.parametrize("answer", [endless, many_headers, not_http, (200, {}, b"x" * 300_000), (404, {}, b"{}"), (204, {}, b""), (401, {}, b"{}")])
@pytest.mark.parametrize("where", ["discovery", "keys"])
def test_answers_that_are_none(driver, start_fake, keys, where, answer):
    provider = start_fake(key_set(keys["ES256"]))
    provider.answers[provider.discovery if where == "discovery" else fake.JWKS] = answer
    one = driver(oidc_issuer=provider.issuer)
    assert one.refusal(of(provider, keys["ES256"])) == UNREACHABLE


def test_more_than_can_wait_are_turned_away(driver, start_fake, keys):
    provider = start_fake(key_set(keys["ES256"]))
    asked_too_much = threading.Event()
    provider.answers[provider.discovery] = fake.when(asked_too_much, provider.document())
    one = driver(oidc_issuer=provider.issuer)
    good = of(provider, keys["ES256"])
    numbers = [one.start(good) for _ in range(1100)]
    assert all("too many wait" in one.answer(n)["error"]["message"] for n in numbers[1024:])
    asked_too_much.set()
    assert all("identity" in one.answer(n) for n in numbers[:1024])


def test_whoever_waits_when_the_server_stops_is_told(driver, start_fake, keys):
    """And it ends cleanly while the fetch is still under way."""
    provider = start_fake(key_set(keys["ES256"]))
    was_told = threading.Event()
    provider.answers[provider.discovery] = fake.when(was_told, provider.document())
    one = driver(oidc_issuer=provider.issuer)
    n = one.start(of(provider, keys["ES256"]))
    one.write("!quit")
    assert one.answer(n)["error"] == {"status": 503, "type": "unavailable", "message": "the server is stopping"}
    was_told.set()


# ---- TLS ----


def test_a_certificate_that_is_trusted(driver, start_fake, keys, tmp_path):
    both, trusted = fake.make_certificate(tmp_path)
    provider = start_fake(key_set(keys["ES256"]), certificate=both)
    driver(oidc_issuer=provider.issuer, oidc_ca_file=trusted).who(of(provider, keys["ES256"]))


def test_certificates_that_are_not(driver, start_fake, keys, tmp_path):
    both, trusted = fake.make_certificate(tmp_path)
    _, another = fake.make_certificate(tmp_path / "..", "127.0.0.1")
    for_other, of_other = fake.make_certificate(tmp_path, "login.example.com")
    provider = start_fake(key_set(keys["ES256"]), certificate=both)
    assert driver(oidc_issuer=provider.issuer).refusal(of(provider, keys["ES256"])) == UNREACHABLE
    assert driver(oidc_issuer=provider.issuer, oidc_ca_file=another).refusal(of(provider, keys["ES256"])) == UNREACHABLE
    mismatched = start_fake(key_set(keys["ES256"]), certificate=for_other)
    assert driver(oidc_issuer=mismatched.issuer, oidc_ca_file=of_other).refusal(of(mismatched, keys["ES256"])) == UNREACHABLE
