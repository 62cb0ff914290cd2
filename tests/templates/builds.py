# SPDX-License-Identifier: Apache-2.0
"""Building templates as the checks do it."""

import json
import time

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
