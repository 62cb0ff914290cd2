# SPDX-License-Identifier: Apache-2.0
"""An SDK in a process of its own, because SDKs pin each other's versions. The process is a script beside this file whose functions are the steps:

    agents = Worker("openai_agents.py", packages, env)   # once
    agents("read", path="notes")                         # what step read(path) gives; Failed when it raises

One question a line, one answer a line, both JSON. Run as a program, `worker.py SCRIPT`, this file is the other end."""

import asyncio
import importlib
import inspect
import json
import os
import subprocess
import sys
from pathlib import Path

CLIENTS = Path(__file__).resolve().parent


class Failed(Exception):
    """What a step raised: the name of its class, those of the classes above it, its text, and what fields of it are plain."""

    def __init__(self, type, bases, text, fields):
        super().__init__(f"{type}: {text}")
        self.type, self.bases, self.text, self.fields = type, bases, text, fields

    def is_a(self, name):
        return name in (self.type, *self.bases)


class Worker:
    def __init__(self, script, packages, env):
        paths = [str(packages), str(CLIENTS.parent / "api"), str(CLIENTS)]
        self.process = subprocess.Popen([sys.executable, Path(__file__), script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, **env, "PYTHONPATH": os.pathsep.join(paths)})

    def __call__(self, step, /, **arguments):
        self.process.stdin.write(json.dumps([step, arguments]) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, f"the process of {step} ended with {self.process.wait()}"
        answer = json.loads(line)
        if "failed" in answer:
            raise Failed(**answer["failed"])
        return answer["value"]

    def close(self):
        self.process.stdin.close()
        self.process.wait(60)


def plain(value):
    try:
        return json.loads(json.dumps(value))
    except (TypeError, ValueError):
        return str(value)


def told(error):
    fields = {name: plain(value) for name, value in vars(error).items() if not name.startswith("_")}
    return {"type": type(error).__name__, "bases": [base.__name__ for base in type(error).__mro__[1:]], "text": str(error), "fields": fields}


def serve(script):
    steps = importlib.import_module(script.removesuffix(".py"))
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the SDK may print is no answer
    with asyncio.Runner() as runner:
        for line in sys.stdin:
            name, arguments = json.loads(line)
            try:
                value = getattr(steps, name)(**arguments)
                answer = {"value": runner.run(value) if inspect.isawaitable(value) else value}
            except Exception as error:
                answer = {"failed": told(error)}
            answers.write(json.dumps(answer) + "\n")
            answers.flush()


if __name__ == "__main__":
    serve(sys.argv[1])
