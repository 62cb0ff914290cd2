# SPDX-License-Identifier: Apache-2.0
"""The PyPI package pandastack 0.10.0, unmodified, against viald: its templates, which our own builder makes."""

import importlib
import os
import sys

import pytest

from tools import add_key, records
from vial import slow

covers = pytest.mark.method
STRANGE = "Grüße \U0001f600 日本"
BASES = ("FROM names a template that is here (`GET /v1/templates`): nothing is fetched from registries. Of a Dockerfile there are FROM (once, first), RUN, COPY of the context's "
         "files, ENV, ARG and WORKDIR; anything else is refused by its line.")
REGISTRIES = "image_ref names a template that is here (`GET /v1/templates`): nothing is fetched from registries."
DOCKERFILE = f"""\
# syntax=docker/dockerfile:1
FROM --platform=linux/amd64 minimal AS whole
ARG WHO=world
ENV GREETING="hello ${{WHO}}"
WORKDIR /srv/app
RUN echo made > file; echo '{STRANGE}'; printf 'one\\342\\200\\250two\\n'; echo end; echo; echo last >&2
"""


@pytest.fixture(scope="module")
def pandastack(python_packages):
    sys.path.insert(0, str(python_packages("pandastack==0.10.0")))
    module = importlib.import_module("pandastack")
    yield module
    sys.path.pop(0)


@pytest.fixture(scope="module")
def client(pandastack, daemon):
    return pandastack.Client(api_url=daemon.url, api_key=daemon.key, timeout=slow(30))


@pytest.fixture(scope="module")
def built(client):
    """A build that is over, and what it was when it was begun."""
    begun = client.templates.build_from_dockerfile("pandastack-made", DOCKERFILE, size_mb=512, cpu=1, memory_mb=512)
    return begun, client.templates.wait_for_build(begun.id, poll_interval=0.2, timeout_seconds=slow(60))


@covers("PandaStack Python 0.10", "templates.build_from_dockerfile", differs=BASES)
@covers("PandaStack Python 0.10", "templates.wait_for_build", "templates.get_build", "templates.builds", "templates.get", "templates.list")
def test_a_dockerfile_becomes_a_template(client, built):
    begun, done = built
    assert (begun.name, begun.is_terminal, done.size_mb) == ("pandastack-made", False, 512)
    assert (done.id, done.status, done.error, done.bytes > 0, done.started_at <= done.ended_at) == (begun.id, "done", None, True, True)
    assert client.templates.get_build(begun.id) == done and begun.id in [build.id for build in client.templates.builds()]
    template = client.templates.get("pandastack-made")
    assert (template.is_global, template.base, template.cpu, template.memory_mb) == (False, "minimal", 1, 512) and template.size_bytes > 0
    assert {"pandastack-made": False, "minimal": True}.items() <= {one.name: one.is_global for one in client.templates.list()}.items()
    with client.sandboxes.create(template="pandastack-made") as sandbox:
        assert sandbox.exec("cat /srv/app/file; echo $GREETING; pwd").stdout == "made\nhello world\n/srv/app\n"


@covers("PandaStack Python 0.10", "templates.build_logs")
def test_the_log_has_every_character_and_ends_by_itself(client, built):
    lines = list(client.templates.build_logs(built[0].id, follow=False))
    assert lines == list(client.templates.build_logs(built[0].id))
    at = lines.index(STRANGE)
    assert lines[at + 1:at + 3] == ["one", "two"], "what ends a line for its reader is one"
    assert [line.strip("\u200b") for line in lines[at + 3:at + 6]] == ["end", "", "last"], "a program that prints the log's last word does not end it"


@covers("PandaStack Python 0.10", "templates.build_logs")
def test_a_log_can_be_followed_while_it_is_written(client):
    build = client.templates.build_from_dockerfile("followed", "FROM minimal\nRUN for i in 1 2 3; do echo line $i; sleep 0.3; done\n")
    lines = list(client.templates.build_logs(build.id))
    assert [line for line in lines if line.startswith("line")] == ["line 1", "line 2", "line 3"]
    assert client.templates.wait_for_build(build.id, poll_interval=0.1, timeout_seconds=slow(60)).is_done


@covers("PandaStack Python 0.10", "templates.build_from_dockerfile")
def test_files_beside_the_dockerfile_are_no_obstacle(client, tmp_path):
    """A Dockerfile may be given by its path, with its folder: then the form is multipart, and has the files (test_pandastack_context.py), whatever they are called."""
    (tmp_path / "Dockerfile").write_text("FROM minimal\nRUN echo 'mit ü' > /opt/text\nCOPY name rootfs /opt/\n")
    (tmp_path / "name").write_text("not the field of that name")
    (tmp_path / "rootfs").write_text("no root file system")
    build = client.templates.build_from_dockerfile("with-context", str(tmp_path / "Dockerfile"), context_dir=str(tmp_path))
    assert build.name == "with-context" and client.templates.wait_for_build(build.id, poll_interval=0.2, timeout_seconds=slow(60)).is_done
    with client.sandboxes.create(template="with-context") as sandbox:
        assert sandbox.exec("cat /opt/text /opt/name /opt/rootfs").stdout == "mit ü\nnot the field of that nameno root file system"


@covers("PandaStack Python 0.10", "templates.wait_for_build")
def test_a_build_that_fails_says_why(pandastack, client):
    build = client.templates.build_from_dockerfile("broken", "FROM minimal\nRUN echo before; false\n")
    with pytest.raises(pandastack.TemplateBuildError, match="step") as failed:
        client.templates.wait_for_build(build.id, poll_interval=0.1, timeout_seconds=slow(60))
    assert failed.value.build.is_failed and failed.value.build.error and "before" in list(client.templates.build_logs(build.id))
    with pytest.raises(pandastack.BadRequestError, match="no template"):
        client.sandboxes.create(template="broken")


@covers("PandaStack Python 0.10", "templates.wait_for_build")
def test_waiting_ends_and_so_does_a_build_that_is_cancelled(pandastack, client, daemon):
    build = client.templates.build_from_dockerfile("slow", "FROM minimal\nRUN sleep 1000\n")
    with pytest.raises(pandastack.TemplateBuildError, match="did not finish"):
        client.templates.wait_for_build(build.id, poll_interval=0.1, timeout_seconds=0.5)
    daemon.client().call("POST", f"/v1/templates/builds/{build.id}/cancel")  # the SDK has no word for it
    with pytest.raises(pandastack.TemplateBuildError, match="cancelled"):
        client.templates.wait_for_build(build.id, poll_interval=0.1, timeout_seconds=slow(60))


@covers("PandaStack Python 0.10", "templates.register", differs=REGISTRIES)
def test_an_image_is_registered_where_it_is_one_of_ours(pandastack, client):
    build = client.templates.register("renamed", "minimal", size_mb=512)
    assert client.templates.wait_for_build(build.id, poll_interval=0.2, timeout_seconds=slow(60)).is_done
    with client.sandboxes.create(template="renamed") as sandbox:
        assert sandbox.exec("echo well").stdout == "well\n"
    for ref in ("python:3.12", "registry.example/team/image:1"):
        with pytest.raises(pandastack.BadRequestError, match=f'image_ref "{ref}": there is no template of that name, and images are not fetched'):
            client.templates.register("x", ref)
    with pytest.raises(pandastack.BadRequestError, match="kernel"):
        client.templates.register("x", "minimal", kernel="6.1")


@covers("PandaStack Python 0.10", "templates.push", differs="Refused with a sentence: what is pushed to a registry is not fetched from there.")
def test_what_is_pushed_elsewhere_is_refused_with_a_sentence(pandastack, client, tmp_path, monkeypatch):
    docker = tmp_path / "docker"
    docker.write_text(f'#!/bin/sh\necho "$1" >> {tmp_path}/called\n')
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    (tmp_path / "Dockerfile").write_text("FROM minimal\n")
    with pytest.raises(pandastack.BadRequestError, match="images are not fetched from registries"):
        client.templates.push("pushed", str(tmp_path / "Dockerfile"), on_log=lambda line: None)
    assert (tmp_path / "called").read_text() == "build\npush\n"


@covers("PandaStack Python 0.10", "templates.build", differs="Refused with a sentence: a root file system cannot be brought along; a Dockerfile can (`build_from_dockerfile`).")
def test_a_root_file_system_is_refused_with_a_sentence(pandastack, client, tmp_path):
    (tmp_path / "rootfs.tar").write_bytes(os.urandom(3_000_000))
    with pytest.raises(pandastack.BadRequestError, match="a root file system cannot be brought along"):
        client.templates.build("tar", rootfs_tar=str(tmp_path / "rootfs.tar"))
    assert client.me(), "the connection that was refused can be used again"


@covers("PandaStack Python 0.10", "templates.delete")
def test_a_template_can_be_deleted(pandastack, client):
    build = client.templates.build_from_dockerfile("short-lived", "FROM minimal\nRUN true\n")
    client.templates.wait_for_build(build.id, poll_interval=0.1, timeout_seconds=slow(60))
    client.templates.delete("short-lived")
    for call in (lambda: client.templates.get("short-lived"), lambda: client.templates.delete("short-lived"), lambda: client.templates.get_build("none"),
                 lambda: list(client.templates.build_logs("none"))):
        with pytest.raises(pandastack.NotFoundError):
            call()
    with pytest.raises(pandastack.BadRequestError, match="everybody has"):
        client.templates.delete("minimal")


@pytest.mark.parametrize("fields, sentence", [
    ({"dockerfile": "FROM minimal\nRUN true"}, "name"), ({"name": "x"}, "either a dockerfile or an image_ref"),
    ({"kernel": "", "name": "x"}, "either a dockerfile or an image_ref"),
    ({"name": "x", "dockerfile": "RUN true", "image_ref": "minimal"}, "either a dockerfile or an image_ref"),
    ({"name": "x", "dockerfile": "FROM\nRUN true"}, 'FROM "": there is no template'), ({"name": "x", "dockerfile": "FROM python:3.12\nRUN true"}, 'FROM "python:3.12"'),
    ({"name": "x", "dockerfile": "FROM minimal\nFROM minimal\nRUN true"}, "line 2"), ({"name": "x", "dockerfile": "FROM minimal\nUSER me"}, "line 2"),
    ({"name": "x", "dockerfile": "FROM minimal\nRUN true", "size_mb": "much"}, "size_mb"), ({"name": "x", "dockerfile": "FROM minimal\nRUN true", "size_mb": "1.5"}, "size_mb"),
    ({"name": "x", "dockerfile": "FROM minimal\nRUN true", "cpu": "inf"}, "cpu"), ({"name": "x", "dockerfile": "FROM minimal\nRUN true", "memory_mb": "1"}, "memory_mb"),
    ({"name": "x" * 200, "dockerfile": "FROM minimal\nRUN true"}, "name"), ({"name": "minimal", "dockerfile": "FROM minimal\nRUN true"}, "minimal"),
    ({"name": "x", "dockerfile": "FROM minimal\n" + "RUN true\n" * 40000}, "too long")], ids=lambda value: str(value)[:40])
@pytest.mark.parametrize("form", ["urlencoded", "multipart"])
def test_what_cannot_be_built_is_refused_with_a_sentence(pandastack, client, form, fields, sentence):
    body = {"data": fields} if form == "urlencoded" else {"files": {name: (None, value) for name, value in fields.items()}}
    with pytest.raises(pandastack.BadRequestError) as refused:
        client._request("POST", "/templates/build", **body)
    assert sentence in str(refused.value)


@pytest.mark.parametrize("headers, body", [
    ({"Content-Type": "application/json"}, b"{}"), ({}, b"name=x"), ({"Content-Type": "multipart/form-data"}, b""),
    ({"Content-Type": "multipart/form-data; boundary=b"}, b"--b\r\nContent-Disposition: form-data; name=a\r\n\r\nunfinished"),
    ({"Content-Type": "multipart/form-data; boundary=b"}, b'--b\r\nContent-Disposition: form-data; name="name"\r\n\r\n\xff\xfe\r\n--b--\r\n'),
    ({"Content-Type": "application/x-www-form-urlencoded"}, b"name=%ff"), ({"Content-Type": "application/x-www-form-urlencoded"}, b"&".join(b"a%d=1" % i for i in range(100)))])
def test_what_is_no_form_is_refused(daemon, headers, body):
    answer = daemon.client().ask("POST", "/v1/templates/build", body, headers=headers)
    assert answer.status == 400 and answer.json()["code"] == 400, answer.body


def test_a_form_is_not_kept_whatever_its_size(daemon):
    """Without a Dockerfile files go nowhere, and fields that never end are given up."""
    client, boundary = daemon.client(), "b"
    head = f"--{boundary}\r\nContent-Disposition: form-data; name=\"%s\"%s\r\n\r\n"
    before = daemon.rss_kb()
    file = (head % ("f", "; filename=\"f\"")).encode() + bytes(64 << 20) + f"\r\n--{boundary}--\r\n".encode()
    for body, status in ((file, 400), ((head % ("dockerfile", "")).encode() + b"# " * (8 << 20), 413)):
        assert client.ask("POST", "/v1/templates/build", body, headers={"Content-Type": f"multipart/form-data; boundary={boundary}"}).status == status
    assert client.ask("POST", "/v1/templates/build", b"a=" + b"a" * (8 << 20), headers={"Content-Type": "application/x-www-form-urlencoded"}).status == 413
    assert daemon.rss_kb() - before < 16 << 10


def test_whose_build_it_is(pandastack, client, daemon, built):
    stranger = pandastack.Client(api_url=daemon.url, api_key=add_key(daemon, "template-strangers", role="admin"))
    viewer = pandastack.Client(api_url=daemon.url, api_key=add_key(daemon, "default", role="viewer"))
    assert stranger.templates.builds() == [] and "pandastack-made" not in [one.name for one in stranger.templates.list()]
    for call in (lambda: stranger.templates.get_build(built[0].id), lambda: list(stranger.templates.build_logs(built[0].id)), lambda: stranger.templates.get("pandastack-made"),
                 lambda: stranger.templates.delete("pandastack-made")):
        with pytest.raises(pandastack.NotFoundError):
            call()
    with pytest.raises(pandastack.BadRequestError, match="no template of that name"):
        stranger.templates.build_from_dockerfile("x", "FROM pandastack-made\nRUN true")
    with pytest.raises(pandastack.BadRequestError, match="role"):
        viewer.templates.build_from_dockerfile("x", "FROM minimal\nRUN true")
    record = [one for one in records(daemon.client(), action="template.build") if one["outcome"] == "done"][0]
    assert record["surface"] == "pandastack", record
