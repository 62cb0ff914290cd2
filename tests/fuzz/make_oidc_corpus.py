#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the seed inputs of fuzz_oidc.c and the public keys it knows. Needs what tests/requirements.txt names; each run makes new keys."""
import json
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "auth"))

from forge import Key, assemble, b64

CLAIMS = b'{"iss":"https://i.example","aud":"vial","sub":"u","exp":4102444800}'
keys = [Key("RS256", "r"), Key("ES256", "e"), Key("EdDSA", "d")]
key_set = json.dumps({"keys": [key.jwk() for key in keys]}, separators=(",", ":"))
(HERE / "fuzz_oidc_keys.inc").write_text("/* By make_oidc_corpus.py. */\n" + json.dumps(key_set) + "\n")

folder = HERE / "corpus/oidc"
folder.mkdir(parents=True, exist_ok=True)


def write(name, data):
    (folder / name).write_bytes(data if isinstance(data, bytes) else data.encode())


def parts(header, payload, signature):
    return b"p" + b"\n".join(part if isinstance(part, bytes) else json.dumps(part).encode() for part in (header, payload)) + b"\n" + signature


for key in keys:
    header = {"alg": key.alg, "kid": key.kid}
    good = assemble(header, CLAIMS, key.sign)
    write(f"good-{key.alg}", "t" + good)
    write(f"parts-{key.alg}", parts(header, CLAIMS, key.sign(".".join(good.split(".")[:2]).encode())))
    write(f"padded-{key.alg}", "t" + good + "==")
    write(f"cut-{key.alg}", "t" + good[:-10])
    write(f"keys-{key.alg}", "k" + json.dumps({"keys": [key.jwk(key_ops=["verify"], x5c=["AAAA"], x5u="https://x.example")]}))

headers = {
    "none": {"alg": "none"}, "hs256": {"alg": "HS256", "kid": "r"}, "crit": {"alg": "ES256", "crit": ["x"]}, "zip": {"alg": "EdDSA", "zip": "DEF"},
    "jwk": {"alg": "EdDSA", "jwk": keys[2].jwk()}, "x5c": {"alg": "RS256", "x5c": ["MIIB"], "kid": "r"}, "jku": {"alg": "RS256", "jku": "http://127.0.0.1:1/"},
    "typ": {"alg": "ES256", "typ": "application/at+jwt"}, "not-utf8": b'{"alg":"ES256","kid":"\xff"}', "twice": b'{"alg":"none","alg":"ES256"}', "nul": b'{"alg":"ES256"}\0',
}
for name, header in headers.items():
    write(f"header-{name}", parts(header, CLAIMS, bytes(64)))
payloads = {
    "all": {"iss": "https://i.example", "aud": ["other", "vial"], "sub": "u", "exp": 4102444800.5, "nbf": 1, "iat": 1e3, "email": "a@example.com", "email_verified": "true",
            "groups": ["x", "team-a", 3, True, None, {}], "a": {"b": 1.5}, "name": "\u00dc", "preferred_username": "x"},
    "types": {"iss": 1, "aud": {}, "sub": [], "exp": "x"}, "deep": b"[" * 40, "twice": b'{"sub":"a","sub":"b"}', "huge-number": b'{"exp":1e400}', "empty": b"",
}
for name, payload in payloads.items():
    write(f"payload-{name}", parts({"alg": "EdDSA", "kid": "d"}, payload, bytes(64)))
sets = {
    "all": key_set, "empty": '{"keys":[]}', "none": "{}", "garbage": '{"keys":[null,1,"x",[],{},{"kty":"oct","k":"AA"},{"kty":"RSA","n":"AQAB","e":"AQAB"}]}',
    "exponent": json.dumps({"keys": [keys[0].jwk(e="AQ")]}), "off-curve": json.dumps({"keys": [keys[1].jwk(x=b64(b"\1" * 32))]}),
    "short": json.dumps({"keys": [keys[2].jwk(x="AA")]}), "same": json.dumps({"keys": [keys[2].jwk()] * 3}),
}
for name, text in sets.items():
    write(f"set-{name}", "k" + text)
for name, text in {"empty": "", "dots": "..", "four": "a.b.c.d", "space": "eyJ .x.y", "short": "e"}.items():
    write(f"text-{name}", "t" + text)
