# SPDX-License-Identifier: Apache-2.0
"""Keys, key sets and tokens, made piece by piece so that each piece can be wrong. PyJWT signs what is ordinary; what it refuses to make is made here."""

import base64
import json
import time

import jwt
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa, utils

ISSUER = "https://login.example.com/realms/main"
AUDIENCE = "vial"


def b64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def number(value, size=None):
    return b64(value.to_bytes(size or (value.bit_length() + 7) // 8, "big"))


class Key:
    """A private key and the name it goes by."""

    def __init__(self, alg, kid=None, bits=2048, curve=None):
        self.alg, self.kid = alg, kid
        if alg == "EdDSA":
            self.private = ed25519.Ed25519PrivateKey.generate()
        elif alg.startswith("ES"):
            self.private = ec.generate_private_key(curve or {"ES256": ec.SECP256R1, "ES384": ec.SECP384R1}[alg]())
        else:
            self.private = rsa.generate_private_key(65537, bits)

    def jwk(self, **more):
        """The public half; `more` is set over it, None takes a member away."""
        public = self.private.public_key()
        if self.alg == "EdDSA":
            numbers = {"kty": "OKP", "crv": "Ed25519", "x": b64(public.public_bytes_raw())}
        elif self.alg.startswith("ES"):
            size, point = (public.curve.key_size + 7) // 8, public.public_numbers()
            curve = {"secp256r1": "P-256", "secp384r1": "P-384", "secp256k1": "secp256k1"}[public.curve.name]
            numbers = {"kty": "EC", "crv": curve, "x": number(point.x, size), "y": number(point.y, size)}
        else:
            numbers = {"kty": "RSA", "n": number(public.public_numbers().n), "e": number(public.public_numbers().e)}
        members = {**numbers, "alg": self.alg, "use": "sig", "kid": self.kid, **more}
        return {name: value for name, value in members.items() if value is not None}

    def sign(self, data):
        """As JOSE writes it."""
        if self.alg == "EdDSA":
            return self.private.sign(data)
        if self.alg.startswith("ES"):
            r, s = utils.decode_dss_signature(self.private.sign(data, ec.ECDSA(hashes.SHA256())))
            size = (self.private.curve.key_size + 7) // 8
            return r.to_bytes(size, "big") + s.to_bytes(size, "big")
        return self.private.sign(data, padding.PKCS1v15(), hashes.SHA256())


def key_set(*keys):
    return {"keys": [key.jwk() if isinstance(key, Key) else key for key in keys]}


def claims(**more):
    """Those of a good token; `more` is set over them, None takes one away."""
    now = int(time.time())
    members = {"iss": ISSUER, "aud": AUDIENCE, "sub": "u-1", "iat": now, "exp": now + 300, "email": "u@example.com", "groups": ["dev"], **more}
    return {name: value for name, value in members.items() if value is not None}


def token(key, **more):
    """An ordinary token, by PyJWT."""
    return jwt.encode(claims(**more), key.private, algorithm=key.alg, headers={"kid": key.kid} if key.kid else None)


def assemble(header, payload, sign):
    """Any token at all: header and payload are objects, or their bytes; `sign` makes a signature of what is signed."""
    parts = [b64(part if isinstance(part, bytes) else json.dumps(part).encode()) for part in (header, payload)]
    return ".".join([*parts, b64(sign(".".join(parts).encode()))])


def forged(key, header=None, payload=None, sign=None):
    """A token by `key` with another header, payload or signature than it should have."""
    base = {"alg": key.alg, "typ": "JWT", "kid": key.kid}
    header = header if isinstance(header, bytes) else {name: value for name, value in {**base, **(header or {})}.items() if value is not None}
    return assemble(header, payload if payload is not None else claims(), sign or key.sign)
