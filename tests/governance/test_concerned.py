# SPDX-License-Identifier: Apache-2.0
"""Whose record it is: what an operator does to a project is on that project's, where those whom it concerns can see it."""

from tools import records
from world import Project


def test_what_the_operator_does_to_a_project_is_on_its_record(client, project):
    viewer = project.key("viewer")
    made = project.make_key("runner")
    client.call("POST", f"/v1/keys/{made['id']}/rotate", {})
    client.call("PATCH", f"/v1/keys/{made['id']}", {"name": "renamed"})
    client.ask("DELETE", f"/v1/keys/{made['id']}")
    project.set_quotas(max_sandboxes=3)
    client.call("PATCH", project.path, {"description": "ours"})
    told = records(viewer)
    about_key = [record["action"] for record in told if record["body"].get("key") == made["id"]]
    assert about_key == ["key.create", "key.rotate", "key.change", "key.revoke"]
    assert {"project.create", "quota.change", "project.change"} <= {record["action"] for record in told}
    assert {record["project"] for record in told} == {project.name}
    assert {record["principal"]["role"] for record in told} == {"operator"}, "who it was is told as well"


def test_each_sandbox_that_ends_with_its_project_is_told(client):
    project = Project(client)
    sandboxes = {project.client.create().id for _ in range(2)}
    client.ask("DELETE", project.path)
    ended = [record for record in records(client, project="*", action="sandbox.delete") if record["project"] == project.name]
    assert sorted(record["sandbox"] for record in ended) == sorted(sandboxes)
    assert {(record["principal"]["kind"], record["body"]["reason"]) for record in ended} == {("system", "its project is deleted")}
