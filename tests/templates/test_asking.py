# SPDX-License-Identifier: Apache-2.0
"""What may be asked for, and what is refused before anything is built."""

import pytest

from tools import check_refusal, records

REFUSED = ("FROM debian", "CMD python3", "ENTRYPOINT [\"sh\"]", "COPY a /b", "ADD a /b", "USER nobody", "VOLUME /data", "EXPOSE 80", "LABEL a=b", "HEALTHCHECK NONE",
           "SHELL [\"bash\"]", "ONBUILD RUN true", "STOPSIGNAL 9", "MAINTAINER me", "FETCH x", "RUN --mount=type=secret,id=x true")


@pytest.mark.parametrize("line", REFUSED)
def test_what_a_dockerfile_may_not_say_is_refused_by_its_line_and_name_with_the_reason(builder, line):
    answer = builder.refuse(dockerfile=f"# one\nRUN true\n\n{line}\n")
    sentence = check_refusal(answer, 400)
    assert "line 4" in sentence and line.split()[0] in sentence and len(sentence) > 60, sentence
    assert answer.json()["detail"] == {"line": 4}


@pytest.mark.parametrize("fields, said", [
    ({}, "steps or dockerfile"),
    ({"steps": [{"run": "true"}], "dockerfile": "RUN true"}, "not both"),
    ({"steps": []}, "nothing to build"),
    ({"dockerfile": "# nothing\n"}, "nothing to build"),
    ({"steps": [{}]}, "steps[0]"),
    ({"steps": [{"run": "a"}, {"run": "a", "env": {"A": "b"}}]}, "steps[1]"),
    ({"steps": [{"run": 5}]}, "steps[0]"),
    ({"steps": [{"env": {"A B": "c"}}]}, "A B"),
    ({"steps": [{"env": {"A": 1}}]}, "env.A"),
    ({"steps": [{"workdir": ""}]}, "steps[0]"),
    ({"steps": [{"copy": "a"}]}, "steps[0]"),
    ({"steps": [{"run": "true"}] * 129}, "at most 128"),
    ({"steps": [{"run": "true"}], "args": {"A": "b"}}, "args"),
    ({"dockerfile": "RUN true", "args": {"A": "b"}}, "args.A"),
    ({"steps": [{"run": "true"}], "base": "nothing-like-it"}, "nothing-like-it"),
    ({"steps": [{"run": "true"}], "tier": "3x3"}, "tier"),
    ({"steps": [{"run": "true"}], "tier": "2x2", "cpu": 1}, "\"cpu\" must be left out"),
    ({"steps": [{"run": "true"}], "memory_mb": 1}, "memory_mb"),
    ({"steps": [{"run": "true"}], "timeout_seconds": 0}, "timeout_seconds"),
    ({"steps": [{"run": "true"}], "timeout_seconds": 7201}, "timeout_seconds"),
    ({"steps": [{"run": "true"}], "secrets": {"TOKEN": "short"}}, "secrets.TOKEN"),
    ({"steps": [{"run": "true"}], "network": {"mode": "sideways"}}, "mode"),
    ({"steps": [{"run": "true"}], "volumes": ["x"]}, "volumes"),
])
def test_a_request_that_makes_no_sense_is_refused_with_what_is_wrong(builder, fields, said):
    assert said in check_refusal(builder.refuse(**fields), 400)


@pytest.mark.parametrize("name", ["", "Upper", "a b", "a/b", ".a", "a:", "a:b c", "a:b:c", "builds", "x" * 64, "a:" + "t" * 64, "ä"])
def test_a_name_is_small_letters_digits_and_few_signs(builder, name):
    check_refusal(builder.refuse(name, steps=[{"run": "true"}]), 400)


def test_the_name_of_a_template_that_everybody_has_cannot_be_taken_nor_deleted(builder):
    assert "everybody" in check_refusal(builder.refuse("minimal", steps=[{"run": "true"}]), 409)
    assert "everybody" in check_refusal(builder.refuse("minimal:mine", steps=[{"run": "true"}]), 409)
    assert "everybody" in check_refusal(builder.client.ask("DELETE", "/v1/templates/minimal"), 409)
    assert "everybody" in check_refusal(builder.client.ask("POST", "/v1/templates/minimal/rebuild", {}), 409)


def test_what_is_not_there_is_not_found(builder):
    unknown = "a" * 20
    for method, path in (("GET", "/v1/templates/nope"), ("DELETE", "/v1/templates/nope"), ("POST", "/v1/templates/nope/rebuild"),
                         ("GET", f"/v1/templates/builds/{unknown}"), ("GET", f"/v1/templates/builds/{unknown}/logs"),
                         ("POST", f"/v1/templates/builds/{unknown}/cancel")):
        check_refusal(builder.client.ask(method, path, {} if method == "POST" else None), 404)


def test_who_asked_for_what_is_on_record_and_secrets_only_by_name(builder):
    build = builder.build("recorded", steps=[{"env": {"A": "b"}}, {"run": "true"}], secrets={"TOKEN": "s3cr3t-value"})
    builder.delete("recorded")
    mine = [record for record in records(builder.client) if "recorded" in str(record.get("body", {}))]
    actions = [record["action"] for record in mine]
    assert actions == ["template.build", "template.ready", "template.delete"], actions
    body = mine[0]["body"]
    assert body["steps"] == [{"env": {"A": "b"}}, {"run": "true"}] and body["secret_names"] == ["TOKEN"] and body["build"] == build["build_id"]
    assert "s3cr3t-value" not in str(records(builder.client))
