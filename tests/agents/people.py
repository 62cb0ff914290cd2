# SPDX-License-Identifier: Apache-2.0
"""An agent as its author and its users see it."""

import itertools
from urllib.parse import quote, urlencode

counter = itertools.count(1)


def words(**fields):
    """What a call says of its session; None is left out."""
    return {name: value for name, value in fields.items() if value is not None}


class Agent:
    def __init__(self, client, name=None, **fields):
        self.client = client
        self.name = name or f"agent-{next(counter)}"
        self.path = f"/v1/agents/{self.name}"
        self.info = client.call("POST", "/v1/agents", {"name": self.name, **fields})

    def call(self, method, path="", body=None, **options):
        return self.client.call(method, self.path + path, body, **options)

    def ask(self, method, path="", body=None, **options):
        return self.client.ask(method, self.path + path, body, **options)

    def by(self, client):
        """The same agent, by somebody else's key."""
        return named(client, self.name)

    def add_version(self, **fields):
        return self.call("POST", "/versions", {"template": "minimal", **fields})["version"]

    def exec(self, cmd, session=None, user=None, version=None, **fields):
        return self.call("POST", "/exec", {"cmd": cmd, **words(session=session, user=user, version=version), **fields})

    def run(self, code, session=None, user=None, version=None, language="bash", **fields):
        return self.call("POST", "/run", {"code": code, **words(session=session, user=user, version=version, language=language), **fields})

    def sessions(self, **query):
        return self.call("GET", "/sessions" + ("?" + urlencode(query) if query else ""))

    def fs(self, path, file, **query):
        return f"{path}?" + urlencode({"path": file, **query}, quote_via=quote)


def named(client, name):
    """One that is there already."""
    agent = object.__new__(Agent)
    agent.client, agent.name, agent.path = client, name, f"/v1/agents/{name}"
    return agent
