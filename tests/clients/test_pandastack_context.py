# SPDX-License-Identifier: Apache-2.0
"""COPY: the files of a build's context, as the PyPI package pandastack 0.10.0 sends them, and as no package would."""

import contextlib
import hashlib
import importlib
import os
import socket
import sys

import pytest

from tools import add_key, records, wait_until
from vial import slow

covers = pytest.mark.method
UNICODE = "Grüße \U0001f600 日本.txt"
LONG = "l" * 120 + "/" + "m" * 200
BLOB = bytes(range(256)) * 300 + b"odd"
FILES = {
    "app/main.py": b"print('main')\n", "app/lib/deep/er/x.txt": b"x", "app/lib/y": b"y\n", "app/lib.txt": b"a file beside the folder\n", "empty": b"", "blob": BLOB,
    UNICODE: "grüße\n".encode(), LONG: b"long\n", ".hidden": b"hidden\n", ".dockerignore": b"app/lib\n", "a b/c'd \"e\"": b"quotes\n",
    "run.sh": b"#!/bin/sh\necho ran\n", "program": b"\177ELF" + bytes(100), "other.sh": b"echo no script\n", "large": os.urandom(3_000_000)}
DOCKERFILE = """\
FROM minimal
ARG LIB=lib
ENV TO=/srv
WORKDIR /srv/app
COPY . /app
COPY app/main.py renamed.py
COPY app/main.py empty several/
COPY app/${LIB} $TO/contents
COPY *.sh ../scripts/
COPY ["a b/c'd \\"e\\"", "quoted/"]
COPY --chown=user --chmod=0640 blob /srv/owned
COPY large .
RUN /app/run.sh > ran; python3 renamed.py >> ran
"""


@pytest.fixture(scope="module")
def pandastack(python_packages):
    sys.path.insert(0, str(python_packages("pandastack==0.10.0")))
    module = importlib.import_module("pandastack")
    yield module
    sys.path.pop(0)


@pytest.fixture(scope="module")
def client(pandastack, daemon):
    return pandastack.Client(api_url=daemon.url, api_key=daemon.key, timeout=slow(60))


def write(folder, files):
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return str(folder)


def build(client, name, dockerfile, folder):
    begun = client.templates.build_from_dockerfile(name, dockerfile, context_dir=folder)
    return client.templates.wait_for_build(begun.id, poll_interval=0.2, timeout_seconds=slow(120))


def is_cached(daemon, build):
    return daemon.client().call("GET", f"/v1/templates/builds/{build.id}")["cached"]


def kept(daemon):
    """Archives, and what is being written or was left."""
    return sorted(path.name for path in (daemon.data / "build-files").rglob("*") if path.is_file())


def spools(daemon):
    """Of contexts that are arriving: files without a name that viald has open in its data directory."""
    links = []
    for fd in os.listdir(f"/proc/{daemon.process.pid}/fd"):
        try:
            links.append(os.readlink(f"/proc/{daemon.process.pid}/fd/{fd}"))
        except FileNotFoundError:  # it was closed just now
            pass
    return [link for link in links if link.startswith(f"{daemon.data}/builds/") and link.endswith("(deleted)")]


def part(name, content, filename="x"):
    quoted = name.replace("\\", "\\\\").replace('"', '\\"')
    kind = f'; filename="{filename}"' if filename is not None else ""
    return f'--b\r\nContent-Disposition: form-data; name="{quoted}"{kind}\r\n\r\n'.encode() + content + b"\r\n"


def fields(name, dockerfile):
    return part("name", name.encode(), None) + part("dockerfile", dockerfile.encode(), None)


def send(daemon, *parts):
    return daemon.client().ask("POST", "/v1/templates/build", b"".join(parts) + b"--b--\r\n", headers={"Content-Type": "multipart/form-data; boundary=b"})


@pytest.fixture(scope="module")
def context(tmp_path_factory):
    folder = tmp_path_factory.mktemp("context")
    write(folder, FILES)
    (folder / "Dockerfile").write_text(DOCKERFILE)
    (folder / "link").symlink_to("app/main.py")
    (folder / "nothing in it").mkdir()
    return folder


@pytest.fixture(scope="module")
def copied(client, context):
    """A sandbox of the whole context, and its build."""
    done = build(client, "context-whole", str(context / "Dockerfile"), str(context))
    with client.sandboxes.create(template="context-whole") as sandbox:
        yield sandbox, done


def out(sandbox, command):
    done = sandbox.exec(command)
    assert done.exit_code == 0, done
    return done.stdout


@covers("PandaStack Python 0.10", "templates.build_from_dockerfile")
def test_a_whole_context_arrives(copied, context):
    """Every byte of every file, however it is called; a link's file is its content, as the package sends it, and folders without files are not sent."""
    sandbox, _ = copied
    wanted = {**FILES, "link": FILES["app/main.py"], "Dockerfile": DOCKERFILE.encode()}
    listed = out(sandbox, "cd /app && find . -type f -print0 | xargs -0 sha256sum -z | tr '\\0' '\\n'").splitlines()
    assert {line[66:]: line[:64] for line in listed} == {f"./{name}": hashlib.sha256(content).hexdigest() for name, content in wanted.items()}
    assert out(sandbox, "find /app ! -user root -o ! -group root -o ! -type f ! -type d") == ""


def test_each_copy_puts_things_where_docker_does(copied):
    sandbox, _ = copied
    assert out(sandbox, "cd /srv && find . -mindepth 1 | LC_ALL=C sort").split("\n")[:-1] == [
        "./app", "./app/large", "./app/quoted", "./app/quoted/c'd \"e\"", "./app/ran", "./app/renamed.py", "./app/several", "./app/several/empty", "./app/several/main.py",
        "./contents", "./contents/deep", "./contents/deep/er", "./contents/deep/er/x.txt", "./contents/y", "./owned", "./scripts", "./scripts/other.sh", "./scripts/run.sh"]
    assert out(sandbox, "cat /srv/app/ran /srv/contents/y") == "ran\nmain\ny\n"
    assert out(sandbox, "stat -c '%U %a' /srv/owned") == "user 640\n"
    assert out(sandbox, "sha256sum < /srv/app/large").split()[0] == hashlib.sha256(FILES["large"]).hexdigest()


def test_scripts_and_programs_may_be_executed_and_nothing_else(copied):
    """The form says no modes."""
    sandbox, _ = copied
    assert out(sandbox, "cd /app && find . -type f -perm /111 | sort") == "./program\n./run.sh\n"
    assert out(sandbox, "cd /app && stat -c %a run.sh program other.sh app app/lib") == "755\n755\n644\n755\n755\n"
    assert out(sandbox, "date -u -r /app/empty +%F") == "2000-01-01\n", "a date that zip files, and so wheels, can have"


def test_the_same_files_are_found_again_and_others_are_not(client, daemon, context, copied):
    archives = kept(daemon)
    again = build(client, "context-again", str(context / "Dockerfile"), str(context))
    assert is_cached(daemon, again) and kept(daemon) == archives
    (context / "app/lib/y").write_bytes(b"z\n")
    changed = build(client, "context-changed", str(context / "Dockerfile"), str(context))
    assert not is_cached(daemon, changed) and len(kept(daemon)) == len(archives) + 1
    with client.sandboxes.create(template="context-changed") as sandbox:
        assert out(sandbox, "cat /srv/contents/y") == "z\n"
    (context / "app/lib/y").write_bytes(FILES["app/lib/y"])


def test_the_order_in_which_files_come_makes_no_difference(client, daemon):
    orders = ["a", "d/e", "d/f", "d f"], ["./d//f", "d f", "d/./e", "a"]
    answers = [send(daemon, fields(f"order-{i}", "FROM minimal\nCOPY . /opt/x"), *(part(name, name[-1:].encode()) for name in names)) for i, names in enumerate(orders)]
    assert [answer.status for answer in answers] == [202, 202], answers
    _, second = [client.templates.wait_for_build(answer.json()["id"], poll_interval=0.1, timeout_seconds=slow(60)) for answer in answers]
    assert is_cached(daemon, second)
    with client.sandboxes.create(template="order-1") as sandbox:
        assert out(sandbox, "cd /opt/x && cat a d/e d/f 'd f'") == "aeff"


def test_a_template_with_a_context_can_be_built_anew(client, daemon, copied):
    """What its COPYs took is still kept."""
    begun = daemon.client().call("POST", "/v1/templates/context-whole/rebuild", {"no_cache": True})
    assert client.templates.wait_for_build(begun["build_id"], poll_interval=0.2, timeout_seconds=slow(120)).is_done


# What is refused

@pytest.mark.parametrize("instruction, sentence", [
    ("COPY --from=builder /a /b", "COPY --from is not supported: there are no other stages"), ("COPY --link a /b", "COPY --link is not supported"),
    ("COPY --chmod=+x a /b", "octal digits"), ("COPY ../a /b", '"../a" leads out of the files'), ("COPY a a /b", "must have a destination that ends with"),
    ("COPY a", "at least one source and a destination"), ("COPY https://example.com/a /b", "takes no addresses"), ("COPY <<EOF /b\nx\nEOF", "here-document"),
    ("ADD a /b", "ADD is not supported"), ("USER me", "USER is not supported")], ids=lambda value: value[:16])
def test_what_a_copy_cannot_be_is_refused_by_its_line(pandastack, client, daemon, tmp_path, instruction, sentence):
    with pytest.raises(pandastack.BadRequestError, match="line 3: ") as refused:
        build(client, "refused", f"FROM minimal\nRUN true\n{instruction}\n", write(tmp_path, {"a": b"a"}))
    assert sentence in str(refused.value)


def test_without_files_there_is_nothing_to_copy(pandastack, client):
    with pytest.raises(pandastack.BadRequestError, match="line 2: COPY is not supported: a build has no folder of files"):
        client.templates.build_from_dockerfile("refused", "FROM minimal\nCOPY a /b\n")


@pytest.mark.parametrize("instruction, sentence", [
    ("COPY nowhere /b", "nothing in the archive is called nowhere"), ("COPY *.none /b/", "nothing in the archive is called *.none"),
    ("COPY a* /b", "several"), ("COPY --chown=nobody-like-this a /b", "it cannot belong to nobody-like-this")])
def test_what_cannot_be_copied_fails_in_its_step(pandastack, client, tmp_path, instruction, sentence):
    with pytest.raises(pandastack.TemplateBuildError) as failed:
        build(client, "broken", f"FROM minimal\nRUN true\n{instruction}\n", write(tmp_path, {"a": b"a", "a2": b"b"}))
    assert "step 2 of 2 failed: " in str(failed.value) and sentence in str(failed.value)


def test_files_that_no_copy_wants_are_dropped(client, daemon, tmp_path):
    """However many, and whether the Dockerfile comes before them or behind."""
    archives, dockerfile = kept(daemon), "FROM minimal\nRUN <<EOF\n# COPY nothing /b\nEOF\n"
    assert build(client, "dropped", dockerfile, write(tmp_path, {f"{i}": b"x" for i in range(200)})).is_done
    answers = [send(daemon, part("../a", b"a"), fields("dropped", dockerfile)), send(daemon, fields("dropped", dockerfile), part("../a", b"a")),
               send(daemon, part("a", b"a"), fields("dropped", dockerfile))]
    assert [answer.status for answer in answers] == [400, 202, 202], answers
    for answer in answers[1:]:
        assert client.templates.wait_for_build(answer.json()["id"], poll_interval=0.1, timeout_seconds=slow(60)).is_done
    assert kept(daemon) == archives and spools(daemon) == []


@pytest.mark.parametrize("names, sentence", [
    (["/etc/passwd"], "called by its path in there"), (["../x"], "called by its path"), (["a/../../b"], "called by its path"), (["a/.."], "called by its path"), ([""], "called by its path"),
    (["a/"], "called by its path"), (["."], "called by its path"), (["x" * 256], "called by its path"), (["d/" * 2048 + "x"], "called by its path"),
    (["a", "b", "a"], '"a" of the context came twice'), (["a", "./a"], '"a" of the context came twice'),
    (["a", "a b", "a/b"], '"a" of the context is a file, and "a/b" is to be in it'), (["a/b/c", "a.b", "a/b"], '"a/b" of the context is a file, and "a/b/c"'),
    (["d" * 250 + "/" + f"{i:05}" * 40 for i in range(9999)], "the names of the files")], ids=lambda value: str(value)[:30])
def test_names_that_no_context_can_have_are_refused(daemon, names, sentence):
    archives = kept(daemon)
    answer = send(daemon, fields("refused", "FROM minimal\nCOPY . /b"), *(part(name, b"x") for name in names))
    assert answer.status in (400, 413) and sentence in str(answer.json()), answer.body
    wait_until(lambda: kept(daemon) == archives and spools(daemon) == [])


@pytest.mark.parametrize("body", [
    fields("lying", "FROM minimal\nCOPY . /b") + part("a", b"x" * 100_000), fields("lying", "FROM minimal\nCOPY . /b") + part("a", b"x") + b"--b\r\n\r\n\r\n--b--\r\n",
    part("a", b"x" * 3_000_000) + part("name", b"\xff", None) + b"--b--\r\n", part("a", b"x") + b"--b--\r\n", part("a", b"x") + part("name", b"y", None) + b"--b--\r\n"], ids=range(5))
def test_of_a_form_that_lies_nothing_is_kept(daemon, body):
    archives = kept(daemon)
    answer = daemon.client().ask("POST", "/v1/templates/build", body, headers={"Content-Type": "multipart/form-data; boundary=b"})
    assert answer.status == 400, answer.body
    wait_until(lambda: kept(daemon) == archives and spools(daemon) == [])


@contextlib.contextmanager
def unfinished(daemon, key):
    """A connection that has sent half a context, which viald has begun to spool."""
    body = fields("unfinished", "FROM minimal\nCOPY . /b") + part("a", b"x" * 2_000_000)
    with socket.create_connection(daemon.client().address) as connection:
        connection.sendall(f"POST /v1/templates/build HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\nContent-Length: {len(body) + 1000}\r\n"
                           "Content-Type: multipart/form-data; boundary=b\r\n\r\n".encode() + body)
        wait_until(lambda: spools(daemon))
        yield connection


def test_of_a_client_that_leaves_nothing_is_kept(daemon):
    archives = kept(daemon)
    with unfinished(daemon, daemon.key):
        pass
    wait_until(lambda: spools(daemon) == [])
    assert kept(daemon) == archives and daemon.alive()


def test_a_project_that_is_deleted_ends_the_context_that_is_arriving(daemon):
    with unfinished(daemon, add_key(daemon, "deleted-meanwhile")):
        daemon.client().call("DELETE", "/v1/projects/deleted-meanwhile")
        wait_until(lambda: spools(daemon) == [])
    assert not (daemon.data / "build-files/deleted-meanwhile").exists() and daemon.alive()


def test_who_builds_nothing_sends_no_context_and_that_is_on_record(daemon):
    key = daemon.client(add_key(daemon, "contexts-of-agents", allow={"agents": ["none"]}))
    headers = {"Content-Type": "multipart/form-data; boundary=b"}
    answer = key.ask("POST", "/v1/templates/build", fields("agents", "FROM minimal\nCOPY f /srv/\n") + part("f", b"x") + b"--b--\r\n", headers=headers)
    assert answer.status == 403, answer.body
    assert not (daemon.data / "build-files" / "contexts-of-agents").exists()
    assert [record["outcome"] for record in records(daemon.client(), project="contexts-of-agents", action="template.build")] == ["refused"]


def test_a_context_is_not_held_in_memory(client, daemon, tmp_path):
    folder = write(tmp_path, {"much": b"\0" * (64 << 20)})
    with open(folder + "/body", "wb") as body:
        body.write(fields("much", "FROM minimal\nCOPY much /opt/much\nRUN rm /opt/much") + part("much", (tmp_path / "much").read_bytes()) + b"--b--\r\n")
    before = daemon.rss_kb()
    with open(folder + "/body", "rb") as body:
        answer = daemon.client().ask("POST", "/v1/templates/build", body, headers={"Content-Type": "multipart/form-data; boundary=b", "Content-Length": str(os.path.getsize(folder + "/body"))})
    assert answer.status == 202, answer.body
    assert daemon.rss_kb() - before < 24 << 10
    assert client.templates.wait_for_build(answer.json()["id"], poll_interval=0.2, timeout_seconds=slow(120)).is_done


def test_a_context_above_the_limit_is_refused(pandastack, start_daemon, tmp_path):
    daemon = start_daemon("--max-build-file-mb", 1)
    client = pandastack.Client(api_url=daemon.url, api_key=daemon.key, timeout=slow(60))
    folder = write(tmp_path, {"a": bytes(700_000), "b": bytes(200_000)})
    assert build(client, "within", "FROM minimal\nCOPY . /opt/x\n", folder).is_done
    archives = kept(daemon)
    for size in (500_000, 50_000_000):
        (tmp_path / "b").write_bytes(bytes(size))
        with pytest.raises(pandastack.PandastackError, match="larger than 1 MB.*max_build_file_mb"):
            build(client, "beyond", "FROM minimal\nCOPY . /opt/x\n", folder)
        assert client.me(), "the connection that was refused can be used again"
    assert [record["outcome"] for record in records(daemon.client(), action="template.build")] == ["done", "refused", "refused"]
    assert build(client, "no-copy", "FROM minimal\nRUN true\n", folder).is_done, "what is dropped has no size"
    wait_until(lambda: kept(daemon) == archives and spools(daemon) == [])


def test_a_disk_that_is_full_or_fails_refuses_the_context_and_keeps_nothing(pandastack, start_daemon, tmp_path):
    faults = tmp_path / "faults"
    faults.write_text("")
    daemon = start_daemon(env={"VIAL_FAULTS": str(faults)})
    client = pandastack.Client(api_url=daemon.url, api_key=daemon.key, timeout=slow(60))
    folder = write(tmp_path / "files", {"a": os.urandom(3_000_000), "b": b"b"})
    for fault, sentence in (("build.space 268435455", "nearly full"), ("build.context.write", "cannot write the files of the context"),
                            ("build.context.read 2", "cannot read the files of the context"), ("build.file.write", "cannot write"), ("build.file.rename", "cannot keep")):
        faults.write_text(fault + "\n")
        with pytest.raises(pandastack.PandastackError, match=sentence):
            build(client, "troubled", "FROM minimal\nCOPY . /opt/x\n", folder)
        wait_until(lambda: kept(daemon) == [] and spools(daemon) == [])
    faults.write_text("")
    assert build(client, "well", "FROM minimal\nCOPY . /opt/x\n", folder).is_done
