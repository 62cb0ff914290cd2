# SPDX-License-Identifier: Apache-2.0
"""spec/openapi.yaml is sound, and says exactly what viald serves."""

import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
SPEC = yaml.safe_load((ROOT / "spec/openapi.yaml").read_text())
METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")


def operations():
    for path, item in SPEC["paths"].items():
        for method in METHODS:
            if method in item:
                yield path, method.upper(), item, item[method]


def shape(path):
    """The path without the names of its parameters, which mean nothing to a client."""
    return re.sub(r"\{[^}]*\}", "{}", path)


def spec_routes():
    routes = set()
    for path, method, item, operation in operations():
        if operation.get("x-vial-status") == "planned":
            continue
        routes.add(("ANY" if item.get("x-vial-any-method") else method, shape(path)))
    return routes


def print_routes():
    """[(method, path, verb, role)] of the native API, as viald says."""
    program = Path(os.environ.get("VIAL_BUILD_DIR", ROOT / "build")) / "viald"
    if not program.exists():
        pytest.skip(f"{program} is not built")
    result = subprocess.run([program, "--print-routes"], capture_output=True, text=True, timeout=20)
    if result.returncode != 0:
        pytest.skip(f"viald --print-routes: {result.stderr.strip()}")
    return [tuple(words) for *words, surface in map(str.split, result.stdout.splitlines()) if surface == "native"]


def served_routes():
    return {(method, shape(path)) for method, path, _, _ in print_routes()}


def twice_said(node):
    """Keys of mappings that are there a second time, with the line of that: YAML forbids it, and PyYAML takes the last one without a word."""
    if isinstance(node, yaml.MappingNode):
        names = [name.value for name, _ in node.value]
        yield from (f"{name.value} (line {name.start_mark.line + 1})" for at, (name, _) in enumerate(node.value) if name.value in names[:at])
    children = [child for pair in node.value for child in pair] if isinstance(node, yaml.MappingNode) else node.value
    for child in children if isinstance(children, list) else []:
        yield from twice_said(child)


def test_nothing_is_said_twice():
    with open(ROOT / "spec/openapi.yaml", encoding="utf-8") as file:
        assert list(twice_said(yaml.compose(file, yaml.SafeLoader))) == []


def test_the_document_is_valid_openapi():
    validator = pytest.importorskip("openapi_spec_validator", reason="openapi-spec-validator is not installed")
    validator.validate(SPEC)


def test_every_reference_leads_somewhere():
    def walk(node):
        if isinstance(node, dict):
            if "$ref" in node:
                target = SPEC
                for part in node["$ref"].removeprefix("#/").split("/"):
                    assert part in target, node["$ref"]
                    target = target[part]
            for value in node.values():
                walk(value)
        elif isinstance(node, list):
            for value in node:
                walk(value)

    walk(SPEC)


def test_the_spec_and_the_route_table_agree():
    spec, served = spec_routes(), served_routes()
    assert served - spec == set(), "served, but not in spec/openapi.yaml"
    assert spec - served == set(), "in spec/openapi.yaml, but not served"


def test_the_spec_tells_the_least_role_of_every_operation():
    roles = {(method, shape(path)): role for method, path, _, role in print_routes()}
    for path, method, item, operation in operations():
        if operation.get("x-vial-status") != "planned":
            assert operation["x-vial-role"] == roles["ANY" if item.get("x-vial-any-method") else method, shape(path)], f"{method} {path}"


def test_planned_routes_are_not_served_yet():
    planned = {(method, shape(path)) for path, method, _, operation in operations() if operation.get("x-vial-status") == "planned"}
    assert planned & served_routes() == set(), "served now: take x-vial-status away"


def test_operation_ids_are_unique():
    ids = [operation["operationId"] for _, _, _, operation in operations()]
    assert len(ids) == len(set(ids))


def test_every_parameter_of_a_path_is_declared():
    for path, method, item, operation in operations():
        declared = set()
        for parameter in item.get("parameters", []) + operation.get("parameters", []):
            if "$ref" in parameter:
                parameter = SPEC["components"]["parameters"][parameter["$ref"].rsplit("/", 1)[1]]
            if parameter["in"] == "path":
                declared.add(parameter["name"])
        assert declared == set(re.findall(r"\{([^}]*)\}", path)), f"{method} {path}"


def test_every_route_with_a_key_says_what_happens_without():
    for path, method, item, operation in operations():
        if operation.get("security") == [] or item.get("x-vial-any-method"):
            continue
        assert "401" in operation["responses"], f"{method} {path}"


def test_examples_fit_their_schemas():
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed")

    def walk(node):
        if isinstance(node, dict):
            if "schema" in node and "example" in node:
                jsonschema.Draft202012Validator({**node["schema"], "components": SPEC["components"]}).validate(node["example"])
            for value in node.values():
                walk(value)
        elif isinstance(node, list):
            for value in node:
                walk(value)

    walk(SPEC["paths"])
    walk(SPEC["components"]["responses"])
