# SPDX-License-Identifier: Apache-2.0
"""The stand-in's templates: a build is over at once, and has failed if its Dockerfile says RUN false."""

import itertools

TIME = "2026-11-18T12:00:00.000Z"


class Templates:
    def __init__(self):
        self.own, self.builds, self.asked = {}, {}, []
        self.numbers = itertools.count(1)

    def build(self, body):
        name, _, tag = body["name"].partition(":")
        steps = [line for line in body.get("dockerfile", "").splitlines() if line and not line.startswith(("#", "ARG"))]
        failed = next((number for number, line in enumerate(steps, 1) if line == "RUN false"), 0)
        build = {"build_id": f"{next(self.numbers):020d}", "name": name, "template": body["name"], "status": "failed" if failed else "ready", "step": failed or len(steps),
                 "steps_total": len(steps), "cached": False, "base": body.get("base", "code-interpreter"), "created_at": TIME}
        if failed:
            build |= {"error": f"step {failed} of {len(steps)} failed: it exited with 1", "exit_code": 1}
        else:
            self.own[body["name"]] = {"name": body["name"], "tags": ([tag] if tag else []) + ["latest"], "status": "ready", "is_global": False, "ready": True, "stale": False,
                                      "base": build["base"], "layers_bytes": 4096, "created_at": TIME, "aliases": []}
        self.builds[build["build_id"]] = build
        self.asked.append(body)
        return build

    def lines(self, build):
        for step in range(1, build["step"] + 1):
            yield {"time": TIME, "step": step, "total": build["steps_total"], "stream": "event", "text": f"step {step} of {build['steps_total']}"}
            yield {"time": TIME, "step": step, "total": build["steps_total"], "stream": "stdout", "text": f"printed by {step}"}

    def route(self, handler, method, words, missing):
        """TRUE when it was one of these."""
        match (method, *words):
            case ("POST", "templates"):
                handler.reply(202, self.build(handler.json()))
            case ("POST", "templates", name, "rebuild") if name in self.own:
                handler.reply(202, self.build({"name": name, **handler.json()}))
            case ("GET", "templates", "builds"):
                handler.reply(200, [build for build in self.builds.values() if handler.query.get("name") in (None, build["name"])][::-1])
            case ("GET", "templates", "builds", id_) if id_ in self.builds:
                handler.reply(200, self.builds[id_])
            case ("POST", "templates", "builds", id_, "cancel") if id_ in self.builds:
                handler.json()
                missing(409, "conflict", "this build is over")
            case ("GET", "templates", "builds", id_, "logs") if id_ in self.builds:
                handler.sse_begin()
                for line in self.lines(self.builds[id_]):
                    handler.sse("log", line)
            case ("GET", "templates", name) if name in self.own:
                handler.reply(200, self.own[name])
            case ("DELETE", "templates", name):
                if name not in self.own:
                    missing(404, "not_found", f"there is no template {name}")
                del self.own[name]
                handler.reply(204)
            case _:
                return False
        return True
