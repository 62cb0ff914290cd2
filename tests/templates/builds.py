# SPDX-License-Identifier: Apache-2.0
"""Building templates as the checks do it."""

import hashlib
import io
import json
import tarfile
import time
from urllib.parse import urlsplit

from tools import slow, with_query


class Builder:
    def __init__(self, client):
        self.client = client

    def begin(self, name, **fields):
        """Asks for a build; gives what is answered."""
        answer = self.client.ask("POST", "/v1/templates", {"name": name, "base": "minimal", **fields})
        assert answer.status == 202, answer.body
        return answer.json()

    def refuse(self, name="refused", **fields):
        """The answer of one that is not begun."""
        return self.client.ask("POST", "/v1/templates", {"name": name, "base": "minimal", **fields})

    def get(self, build_id):
        return self.client.call("GET", f"/v1/templates/builds/{build_id}")

    def wait(self, build_id, seconds=60):
        deadline = time.monotonic() + slow(seconds)
        while True:
            build = self.get(build_id)
            if build["status"] in ("ready", "failed"):
                return build
            assert time.monotonic() < deadline, build
            time.sleep(0.1)

    def wait_step(self, build_id, step, seconds=60):
        """Until that step is under way."""
        deadline = time.monotonic() + slow(seconds)
        while True:
            build = self.get(build_id)
            assert build["status"] in ("pending", "building"), build
            if build["step"] >= step:
                return build
            assert time.monotonic() < deadline, build
            time.sleep(0.05)

    def build(self, name, **fields):
        """One that is ready when this returns."""
        build = self.wait(self.begin(name, **fields)["build_id"])
        assert build["status"] == "ready", (build, self.log(build["build_id"])[-20:])
        return build

    def fail(self, name, **fields):
        """One that fails."""
        build = self.wait(self.begin(name, **fields)["build_id"])
        assert build["status"] == "failed", build
        return build

    def log(self, build_id, follow=False):
        answer = self.client.ask("GET", with_query(f"/v1/templates/builds/{build_id}/logs", follow=int(follow)))
        assert answer.status == 200, answer.body
        return [json.loads(line) for line in answer.body.splitlines() if line]

    def printed(self, build_id):
        return "\n".join(entry["text"] for entry in self.log(build_id) if entry["stream"] != "event")

    def template(self, name):
        return self.client.call("GET", f"/v1/templates/{name}")

    def delete(self, name):
        self.client.call("DELETE", f"/v1/templates/{name}")


def archive(mode="w:gz", **files):
    """A tar; each value is a text or a TarInfo."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as tar:
        for name, content in files.items():
            if isinstance(content, tarfile.TarInfo):
                tar.addfile(content)
                continue
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content.encode()))
    return buffer.getvalue()


def member(name, kind=tarfile.REGTYPE, link="", mode=0o644):
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode = kind, link, mode
    return info


def name_of(word):
    """A client's name for its files: 64 hexadecimal digits that say nothing."""
    return hashlib.sha256(word.encode()).hexdigest()


class Copier(Builder):
    def send(self, word, body):
        """The answer to sending files under that name."""
        url = urlsplit(self.client.call("GET", f"/templates/any/files/{name_of(word)}")["url"])
        return self.client.ask("PUT", f"{url.path}?{url.query}", body, key=False, headers={"Content-Type": "application/gzip"})

    def has(self, word):
        return self.client.call("GET", f"/templates/any/files/{name_of(word)}")["present"]

    def ask_copy(self, name, *steps, base="minimal", **fields):
        """The answer to asking for a build with these steps: ("COPY", word, source, target), or ("RUN", line)."""
        announced = self.client.call("POST", "/v3/templates", {"name": name, **fields})
        steps = [{"type": kind, "args": [*args[1:], "", ""], "filesHash": name_of(args[0])} if kind == "COPY" else {"type": kind, "args": list(args)} for kind, *args in steps]
        return announced["buildID"], self.client.ask("POST", f"/v2/templates/{name}/builds/{announced['buildID']}", {"fromTemplate": base, "steps": steps})

    def begin_copy(self, name, *steps, **fields):
        """The build's id."""
        _, answer = self.ask_copy(name, *steps, **fields)
        assert answer.status == 202, answer.body
        return self.client.call("GET", f"/v1/templates/builds?name={name}")[0]["build_id"]

    def copy(self, name, *steps, **fields):
        """One that is over when this returns."""
        return self.wait(self.begin_copy(name, *steps, **fields))
