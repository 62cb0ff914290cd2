# SPDX-License-Identifier: Apache-2.0
"""What is taken for a token and what is not: the claims, the form, and everything a forger tries. The keys are in a file, so nothing is ever fetched."""

import base64
import datetime
import hashlib
import hmac
import json
import time
import zlib

import jwt
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

import fake
from forge import AUDIENCE, ISSUER, Key, assemble, b64, claims, forged, key_set, token

ALGORITHMS = ["RS256", "ES256", "EdDSA"]
BAD_SIGNATURE = (401, "the signature of the token is not valid")
BAD_ALGORITHM = (401, "the algorithm of the token must be RS256, ES256 or EdDSA")


@pytest.fixture
def one(driver, keys, key_file):
    """A driver that knows one key of each algorithm."""
    return driver(oidc_jwks_file=key_file(key_set(*keys.values())))


# ---- good ones ----


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_good_token_is_good(one, keys, algorithm):
    now = time.time()
    who = one.who(token(keys[algorithm], exp=now + 100.5))
    assert who == {"id": "u-1", "name": "u@example.com", "project": "default", "role": "viewer", "kind": "person",
                   "expires_at_ms": pytest.approx((now + 100.5) * 1000, abs=1)}


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_many_signatures_of_each_kind_are_good(one, keys, algorithm):
    """ECDSA has numbers with leading zeros now and then."""
    for i in range(300 if algorithm == "ES256" else 20):
        one.who(token(keys[algorithm], jti=str(i)))


@pytest.mark.parametrize("header", [{"typ": None}, {"typ": "jwt"}, {"typ": "at+jwt"}, {"typ": "application/at+jwt"}, {"cty": "x"}, {"x5t": "abc"}])
def test_other_good_headers(one, keys, header):
    one.who(forged(keys["ES256"], header))


@pytest.mark.parametrize("more", [{"aud": ["other", AUDIENCE]}, {"aud": [AUDIENCE]}, {"iat": None}, {"nbf": 1}, {"aud": ["other", AUDIENCE], "azp": "other"},
                                  {"azp": "some-page"}, {"email": None}])
def test_other_good_claims(one, keys, more):
    one.who(token(keys["EdDSA"], **more))


@pytest.mark.parametrize("more, name", [
    ({}, "u@example.com"),
    ({"email": None, "preferred_username": "user", "name": "U"}, "user"),
    ({"email": "", "name": "U Ser"}, "U Ser"),
    ({"email": 3, "preferred_username": ["x"], "name": {}}, "u-1"),
    ({"email": "u@example.com", "email_verified": False, "name": "U"}, "U"),
    ({"email": "a\u001b[31mb@example.com", "preferred_username": "x" * 256, "name": "Ü"}, "Ü"),
])
def test_the_name_to_show(one, keys, more, name):
    assert one.who(token(keys["EdDSA"], **more))["name"] == name


def test_one_of_several_audiences_will_do(driver, keys, key_file):
    one = driver(oidc_jwks_file=key_file(key_set(*keys.values())), oidc_audience="api://vial, vial-cli")
    one.who(token(keys["ES256"], aud="vial-cli"))
    one.who(token(keys["ES256"], aud="api://vial"))
    assert one.refusal(token(keys["ES256"], aud="vial"))[1] == "the token is for another audience"


def test_clocks_may_be_apart_by_the_skew(driver, keys, key_file):
    one = driver(oidc_jwks_file=key_file(key_set(*keys.values())), oidc_clock_skew_seconds=60)
    now = int(time.time())
    who = one.who(token(keys["ES256"], exp=now - 30, nbf=now + 30, iat=now + 30))
    assert who["expires_at_ms"] == (now + 30) * 1000
    assert one.refusal(token(keys["ES256"], exp=now - 61))[1] == "the token has expired"
    assert one.refusal(token(keys["ES256"], nbf=now + 90))[1] == "the token is not valid yet"
    assert "issued in the future" in one.refusal(token(keys["ES256"], iat=now + 90))[1]


def test_a_name_of_no_project_is_the_askers_mistake(one, keys):
    status, sentence = one.refusal(token(keys["ES256"]), "No Project")
    assert status == 400 and "a-z" in sentence


# ---- claims ----


@pytest.mark.parametrize("more, sentence", [
    ({"iss": "https://login.example.com/realms/other"}, "the token is from another issuer"),
    ({"iss": ISSUER + "/"}, "the token is from another issuer"),
    ({"iss": ISSUER.upper()}, "the token is from another issuer"),
    ({"iss": None}, "the token is from another issuer"),
    ({"aud": "other"}, "the token is for another audience"),
    ({"aud": ["other", "another"]}, "the token is for another audience"),
    ({"aud": AUDIENCE + "-x"}, "the token is for another audience"),
    ({"aud": []}, "the token is for another audience"),
    ({"aud": None}, "the token is for another audience"),
    ({"exp": 1}, "the token has expired"),
    ({"exp": None}, "the token does not say when it expires (exp)"),
    ({"nbf": 32503680000}, "the token is not valid yet"),
    ({"iat": 32503680000}, "the token was issued in the future: the clocks of this machine and of the identity provider are apart"),
    ({"sub": None}, "the token does not say whom it is about (sub)"),
    ({"sub": ""}, "the token does not say whom it is about (sub)"),
    ({"sub": "x" * 256}, "whom the token is about (sub) is longer than 255 bytes or has control characters"),
    ({"sub": "a\nb"}, "whom the token is about (sub) is longer than 255 bytes or has control characters"),
    ({"sub": "a\u0085b"}, "whom the token is about (sub) is longer than 255 bytes or has control characters"),
    ({"cnf": {"jkt": "x"}}, "the token is bound to a key of its owner (cnf), whose proof is not supported"),
])
def test_claims_that_are_wrong(one, keys, more, sentence):
    assert one.refusal(token(keys["ES256"], **more)) == (401, sentence)


@pytest.mark.parametrize("more", [{"aud": {"vial": 1}}, {"aud": 5}, {"aud": [5, None, ["vial"]]}, {"iss": [ISSUER]}, {"iss": 1}, {"exp": "soon"}, {"exp": [9e9]},
                                  {"exp": True}, {"exp": 1e300}, {"exp": -1e300}, {"nbf": "0"}, {"iat": {}}, {"sub": 7}, {"sub": ["u-1"]}, {"exp": 9.1e12}])
def test_claims_of_the_wrong_kind(one, keys, more):
    assert one.refusal(forged(keys["ES256"], payload={**claims(), **more}))[0] == 401


PAYLOADS = [b"", b"null", b"[]", b'"x"', b"{", b"\xff\xfe", b"[" * 5000]
# What stands behind the last good claim, in place of the end.
SPOILS = [b"", b"} {}", b"}\x00", b', "x": "\xff"}', b', "x": "a\x00b"}', b', "x": "a\\u0000b"}', b', "x": "\\ud800"}', b', "x": 1e999}', b', "x": NaN}', b", x: 1}",
          b', "x": 99999999999999999999}', b', "x": ' + b"[" * 40 + b"]" * 40 + b"}", b', "x": "\xed\xa0\x80"}', b', "x": "\xc0\x80"}', b",}"]


@pytest.mark.parametrize("payload", PAYLOADS, ids=range(len(PAYLOADS)))
def test_payloads_that_are_no_claims(one, keys, payload):
    assert one.refusal(forged(keys["ES256"], payload=payload)) == (401, "the claims of the token are not a JSON object in base64url")


@pytest.mark.parametrize("spoil", SPOILS, ids=range(len(SPOILS)))
def test_claims_that_are_spoiled_at_the_end(one, keys, spoil):
    payload = json.dumps(claims()).encode()[:-1]
    one.who(forged(keys["ES256"], payload=payload + b"}"))
    assert one.refusal(forged(keys["ES256"], payload=payload + spoil)) == (401, "the claims of the token are not a JSON object in base64url")


@pytest.mark.parametrize("name, value", [("sub", '"admin"'), ("aud", '"vial"'), ("iss", f'"{ISSUER}"'), ("exp", "99999999999"), ("groups", '["root"]')])
def test_a_claim_that_is_there_twice(one, keys, name, value):
    """Which of the two would count? Libraries differ, so neither does."""
    payload = json.dumps(claims())[:-1] + f', "{name}": {value}}}'
    assert one.refusal(forged(keys["ES256"], payload=payload.encode())) == (401, "the claims of the token are not a JSON object in base64url")


# ---- algorithms ----


@pytest.mark.parametrize("spelling", ["none", "None", "NONE", "nOnE", "", "none ", "RS256 ", "rs256", "es256", "eddsa", "Ed25519", "HS256", "HS384",
                                      "HS512", "RS384", "RS512", "PS256", "ES384", "ES512", "ES256K", "RSA-OAEP", "dir"])
@pytest.mark.parametrize("signature", ["empty", "real"])
def test_other_algorithms(one, keys, spelling, signature):
    made = forged(keys["RS256"], {"alg": spelling}, sign=(lambda data: b"") if signature == "empty" else None)
    if signature == "empty":
        assert one.refusal(made)[0] == 401 and one.refusal(made[:-1])[0] == 401
    else:
        assert one.refusal(made) == BAD_ALGORITHM


@pytest.mark.parametrize("header", [{"alg": None}, {"alg": ["RS256"]}, {"alg": {"RS256": 1}}, {"alg": 5}, {"alg": True}])
def test_algorithms_that_are_no_text(one, keys, header):
    assert one.refusal(forged(keys["RS256"], header)) == BAD_ALGORITHM


def test_an_algorithm_that_is_there_twice(one, keys):
    assert one.refusal(forged(keys["RS256"], b'{"alg":"\\u006eone","kid":"rsa-1"}')) == BAD_ALGORITHM
    for header in (b'{"alg":"none","alg":"RS256","kid":"rsa-1"}', b'{"alg":"RS256","alg":"none","kid":"rsa-1"}'):
        assert one.refusal(forged(keys["RS256"], header))[0] == 401


def public_forms(key):
    """What somebody might take for the secret of an HMAC: all that is public."""
    public = key.private.public_key()
    yield public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    yield public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    yield json.dumps(key.jwk()).encode()
    yield key.jwk().get("n", key.jwk().get("x")).encode()
    yield b""


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_hmac_with_the_public_key(one, keys, algorithm):
    key = keys[algorithm]
    for secret in public_forms(key):
        for alg, digest in (("HS256", hashlib.sha256), ("HS512", hashlib.sha512)):
            assert one.refusal(forged(key, {"alg": alg}, sign=lambda data: hmac.new(secret, data, digest).digest())) == BAD_ALGORITHM
        # And under the name of the real algorithm.
        assert one.refusal(forged(key, sign=lambda data: hmac.new(secret, data, hashlib.sha256).digest())) == BAD_SIGNATURE


@pytest.mark.parametrize("said", ALGORITHMS)
@pytest.mark.parametrize("named", ALGORITHMS)
def test_a_key_under_the_name_of_another_kind(one, keys, said, named):
    """The algorithm of one, the name of another's key, the signature of a third."""
    if said == named:
        return
    for signer in keys.values():
        status, sentence = one.refusal(forged(signer, {"alg": said, "kid": keys[named].kid}))
        assert status == 401 and "does not publish" in sentence


# ---- signatures ----


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_signatures_that_are_not_its_own(one, keys, algorithm):
    key, good = keys[algorithm], token(keys[algorithm])
    head, payload, signature = good.split(".")
    size = len(key.sign(b""))
    other = token(key, sub="u-2").split(".")[2]
    attempts = [other, b64(bytes(size)), b64(b"\xff" * size), b64(key.sign(b"")), b64(Key(algorithm).sign(f"{head}.{payload}".encode()))]
    for attempt in attempts:
        assert one.refusal(f"{head}.{payload}.{attempt}") == BAD_SIGNATURE
    raw = key.sign(f"{head}.{payload}".encode())
    for wrong in (raw[:-1], raw + b"\0", b"\0" + raw, raw[1:], raw * 2, raw[: size // 2]):
        assert one.refusal(f"{head}.{payload}.{b64(wrong)}") == BAD_SIGNATURE
    # The claims of another over a signature of this one.
    assert one.refusal(f"{head}.{b64(json.dumps(claims(sub='root')).encode())}.{signature}") == BAD_SIGNATURE
    one.who(good)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_bit_of_a_signature_counts(one, keys, algorithm):
    head, payload, _ = token(keys[algorithm]).split(".")
    raw = keys[algorithm].sign(f"{head}.{payload}".encode())
    for bit in range(0, len(raw) * 8, 7):
        flipped = bytearray(raw)
        flipped[bit // 8] ^= 1 << bit % 8
        assert one.refusal(f"{head}.{payload}.{b64(bytes(flipped))}") == BAD_SIGNATURE


def test_ecdsa_signatures_of_other_forms(one, keys):
    key = keys["ES256"]
    assert one.refusal(forged(key, sign=lambda data: key.private.sign(data, ec.ECDSA(hashes.SHA256())))) == BAD_SIGNATURE
    # The library itself takes r and s in 48 or 66 bytes each.
    for size in (48, 66):
        def wide(data):
            raw = key.sign(data)
            return bytes(size - 32) + raw[:32] + bytes(size - 32) + raw[32:]
        assert one.refusal(forged(key, sign=wide)) == BAD_SIGNATURE
    # r = 0, s = 0, r = n.
    order = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
    for r, s in ((0, 1), (1, 0), (order, 1), (1, order), (order, order)):
        assert one.refusal(forged(key, sign=lambda data: r.to_bytes(32, "big") + s.to_bytes(32, "big"))) == BAD_SIGNATURE


# ---- form ----


def test_padding_and_stray_bits(one, keys):
    """The library takes them, and a token would have many spellings."""
    for more in ({"sub": "a"}, {"sub": "ab"}, {"sub": "abc"}):
        good = token(keys["EdDSA"], **more)
        parts = good.split(".")
        for at in range(3):
            for tail in ("=", "==", "===", "\r", " ", "%3d", "+", "/", "!"):
                changed = ".".join(part + (tail if i == at else "") for i, part in enumerate(parts))
                assert one.refusal(changed)[0] == 401
            if len(parts[at]) % 4:
                alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
                stray = parts[at][:-1] + alphabet[alphabet.index(parts[at][-1]) + 1]
                assert one.refusal(".".join(stray if i == at else part for i, part in enumerate(parts)))[0] == 401
        one.who(good)


def test_texts_that_are_no_token(one, keys):
    good = token(keys["RS256"])
    head, payload, signature = good.split(".")
    texts = ["", ".", "..", "...", "x", head, f"{head}.{payload}", f"{head}.{payload}.", f"{head}..{signature}", f".{payload}.{signature}", f"{good}.",
             f"{good}.{signature}", f"{good}.{signature}.{signature}", f".{good}", good + good, f" {good}", f"{head} .{payload}.{signature}", f"{good}\v",
             f"Bearer {good}", good.replace(".", ","), json.dumps({"payload": payload, "protected": head, "signature": signature}),
             json.dumps({"payload": payload, "signatures": [{"protected": head, "signature": signature}]}), "\u00e9" + good, b"\xff\xff" + good.encode(),
             good.encode().replace(b".", b"\x00", 1)]
    for text in texts:
        assert one.refusal(text)[0] == 401, text
    one.who(good)


def test_every_beginning_of_a_token(one, keys):
    good = token(keys["EdDSA"])
    for length in range(0, len(good), 3):
        assert one.refusal(good[:length])[0] == 401


def test_huge_tokens(one, keys):
    key = keys["ES256"]
    def of_size(size):
        """Exactly, but for the steps of base64."""
        made = forged(key, payload=claims(pad=""))
        return forged(key, payload=claims(pad="x" * int((size - len(made)) * 3 / 4)))
    fits = of_size(16 * 1024 - 8)
    assert 16 * 1024 - 16 < len(fits) <= 16 * 1024
    one.who(fits)
    for size in (16 * 1024 + 8, 100_000, 2_000_000):
        assert one.refusal(of_size(size)) == (401, "the token is larger than 16 KiB")
    assert one.refusal("eyJ" + "A" * 5_000_000)[1] == "the token is larger than 16 KiB"


@pytest.mark.parametrize("header, word", [
    ({"crit": ["exp"]}, "extension"), ({"crit": []}, "extension"), ({"crit": ["x"], "x": 1}, "extension"), ({"crit": None, "b64": False}, "extension"),
    ({"b64": True}, "extension"), ({"zip": "DEF"}, "extension"),
    ({"typ": "logout+jwt"}, "type"), ({"typ": "dpop+jwt"}, "type"), ({"typ": "JWE"}, "type"), ({"typ": ""}, "type"), ({"typ": 5}, "type"), ({"typ": ["JWT"]}, "type"),
    ({"kid": ""}, "kid"), ({"kid": 5}, "kid"), ({"kid": ["ec-1"]}, "kid"), ({"kid": "x" * 256}, "kid"),
    ({"kid": "unknown"}, "does not publish"), ({"kid": "ec-1\u0000"}, "header"), ({"kid": "EC-1"}, "does not publish"), ({"kid": "../../etc/passwd"}, "does not publish"),
    ({"kid": "' or 1=1 --"}, "does not publish"),
])
def test_headers_that_are_refused(one, keys, header, word):
    status, sentence = one.refusal(forged(keys["ES256"], header))
    assert status == 401 and word in sentence


HEADERS = [
    b"", b"null", b"[]", b"{", b'{"alg":"ES256","kid":"ec-1"}\x00', b'{"alg":"ES256","kid":"ec-1"} x', b'\xff{"alg":"ES256"}',
    b'{"alg":"ES256\x00","kid":"ec-1"}', b'\xef\xbb\xbf{"alg":"ES256","kid":"ec-1"}', b'{"a":' * 3000,
]


@pytest.mark.parametrize("header", HEADERS, ids=range(len(HEADERS)))
def test_headers_that_are_none(one, keys, header):
    assert one.refusal(forged(keys["ES256"], header))[0] == 401


def test_a_compressed_payload_is_not_unpacked(one, keys):
    packer = zlib.compressobj(9, zlib.DEFLATED, -9)
    bomb = packer.compress(b" " * 9_000_000) + packer.flush()
    assert len(bomb) < 10_000
    assert one.refusal(forged(keys["RS256"], {"zip": "DEF"}, payload=bomb))[0] == 401
    assert one.refusal(forged(keys["RS256"], {"zip": "DEF"}))[1].startswith("the header of the token asks for an extension")


# ---- keys that a token brings along ----


@pytest.fixture
def thief():
    """A server that would give the attacker's key to whoever asks."""
    key = Key("RS256", "rsa-1")
    server = fake.Fake(key_set(key))
    yield key, server
    server.stop()


def certificate_of(key):
    who = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "login.example.com")])
    now = datetime.datetime.now(datetime.timezone.utc)
    made = (x509.CertificateBuilder().subject_name(who).issuer_name(who).public_key(key.private.public_key()).serial_number(1)
            .not_valid_before(now - datetime.timedelta(1)).not_valid_after(now + datetime.timedelta(1)).sign(key.private, hashes.SHA256()))
    return made.public_bytes(serialization.Encoding.DER)


@pytest.mark.parametrize("kid", ["rsa-1", "attacker", None])
def test_the_key_in_the_token_is_not_looked_at(one, thief, kid):
    key, server = thief
    x5c = [base64.b64encode(certificate_of(key)).decode()]
    brought = {"jwk": key.jwk(kid=kid), "jku": server.origin + fake.JWKS, "x5u": server.origin + "/x5u", "x5c": x5c}
    for header in [{name: value} for name, value in brought.items()] + [brought]:
        status, sentence = one.refusal(forged(key, {"kid": kid, **header}))
        assert status == 401 and ("signature" in sentence or "does not publish" in sentence)
    assert server.seen == []


def test_a_good_token_may_have_them_and_nothing_is_fetched(one, keys, thief):
    """PingFederate writes jku and x5u into good tokens."""
    _, server = thief
    one.who(forged(keys["RS256"], {"jku": server.origin + fake.JWKS, "x5u": server.origin + "/x5u", "jwk": Key("RS256").jwk(), "x5c": ["AAAA"]}))
    assert server.seen == []


def test_tokens_of_other_makers_are_told_from_keys_of_ours(one, keys):
    def looks(text):
        one.write(f"!looks {text}")
        return one.wait_for(lambda line: "looks_like_token" in line)["looks_like_token"]
    for good in [token(keys["RS256"]), jwt.encode({}, "", algorithm="none"), forged(keys["ES256"], b'{ "alg": "ES256"}'), forged(keys["ES256"], b'{\n"alg": "ES256"}')]:
        assert looks(good)
    for other in ["vial_" + "0" * 40, "e2b_" + "a" * 40, "sk-" + "a" * 40, "", "a.b.c", "eyJ", "eyJ.x", "eyJ.x.y.z", "eyJ.x.y=", "eyJ.x y.z", "xeyJ.a.b"]:
        assert not looks(other)


# ---- what it costs ----


def test_a_known_token_is_cheaper_than_a_new_one(one, keys, record_property):
    for algorithm, key in keys.items():
        good = token(key, jti="known")
        first = one.ask(good)
        one.write(f"!many 20000 {good}")
        many = one.wait_for(lambda line: "good" in line)
        assert many["good"] == 20000
        news = sorted(one.ask(token(key, jti=str(i)))["us"] for i in range(100))
        record_property(algorithm, f"known {many['us']:.2f} us, new {news[50]:.0f} us (median of 100), first {first['us']:.0f} us")
        print(algorithm, f"known {many['us']:.2f} us, new {news[50]:.0f} us (median of 100)")
        assert many["us"] < news[50], "a token that is known is not verified again"
