# SPDX-License-Identifier: Apache-2.0
"""What viald answers has the shape that spec/openapi.yaml promises. (tests/spec compares the routes themselves.)"""

import json
from pathlib import Path

import pytest

from tools import run

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed")
SPEC = yaml.safe_load((Path(__file__).resolve().parents[2] / "spec/openapi.yaml").read_text())


def check_shape(name, value):
    schema = {"$ref": f"#/components/schemas/{name}", "components": SPEC["components"]}
    jsonschema.Draft202012Validator(json.loads(json.dumps(schema))).validate(value)


def test_answers_fit_their_schemas(client, sandbox):
    check_shape("Sandbox", sandbox.refresh())
    check_shape("Lifecycle", sandbox.call("GET", "/lifecycle"))
    check_shape("CommandResult", sandbox.exec("echo x"))
    check_shape("Me", client.call("GET", "/v1/me"))
    check_shape("Health", client.call("GET", "/healthz"))
    check_shape("Template", client.call("GET", "/v1/templates/minimal"))
    check_shape("Metrics", sandbox.call("GET", "/metrics"))
    check_shape("Execution", run(sandbox, "1 + 1"))
    for process in sandbox.call("GET", "/processes")["processes"]:
        check_shape("Process", process)
    check_shape("Project", client.call("GET", "/v1/projects/default"))
    check_shape("QuotaState", client.call("GET", "/v1/projects/default/quotas"))
    for row in client.call("GET", "/v1/projects/default/usage?group_by=day,template,agent,key,project"):
        check_shape("Usage", row)
    made = client.call("POST", "/v1/keys", {"name": "shape", "role": "runner", "allow": {"templates": ["minimal"]}, "limits": {"max_sandboxes": 1}})
    check_shape("KeyWithSecret", made)
    check_shape("Key", client.call("GET", f"/v1/keys/{made['id']}"))
    client.ask("DELETE", f"/v1/keys/{made['id']}")
    for record in client.call("GET", "/v1/audit?limit=1000")["items"]:
        check_shape("Record", record)
    check_shape("Heads", client.call("GET", "/v1/audit/heads"))
    check_shape("Verdict", client.call("POST", "/v1/audit/verify", {}))
    check_shape("Error", client.ask("GET", "/v1/nothing").json())
