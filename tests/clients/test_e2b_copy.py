# SPDX-License-Identifier: Apache-2.0
"""COPY in builds of templates, with the PyPI package e2b 2.63.0, unmodified: what is taken along, where it lands and whose it is; then the address that files are
sent to, by hand."""

import hashlib
import http.client
import io
import os
import tarfile
from urllib.parse import urlsplit

import pytest

from e2b_environment import e2b  # noqa: F401  (a fixture)
from tools import add_key, records, wait_until

NAME = "ab" * 32


@pytest.fixture(scope="module")
def context(tmp_path_factory):
    folder = tmp_path_factory.mktemp("context")
    files = {"notes.txt": "notes", "a.md": "a", "b.md": "b", "sp ace.txt": "space", "app/main.py": "print()", "app/data/x.txt": "x", "app/data/deep/y.txt": "y", "app/.hidden": "h",
             "other/main.py": "other", "ignored.log": "no"}
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    (folder / "app/main.py").chmod(0o755)
    (folder / "app/link").symlink_to("main.py")
    (folder / "link").symlink_to("notes.txt")
    (folder / ".dockerignore").write_text("*.log\n")
    return folder


def begin(e2b, context):
    return e2b.Template(file_context_path=context).from_template("minimal")


def build(e2b, template, name):
    """What its log says."""
    logs = []
    e2b.Template.build(template, name, on_build_logs=lambda entry: logs.append(entry.message))
    return logs


@pytest.mark.method("E2B Python 2.63", "Template.build")
def test_files_folders_and_globs_land_where_they_should(e2b, context):
    template = (begin(e2b, context).copy("notes.txt", "/srv/file").copy("notes.txt", "/srv/into/").copy("notes.txt", "/srv/into")
                .copy("sp ace.txt", "/srv/with space/").copy("app", "/srv/app").copy("other", "/srv/app").copy("*.md", "/srv/docs").copy("app/**/*.txt", "/srv/tree")
                .copy(["a.md", "b.md"], "/srv/both/").copy(".", "/srv/all").copy("notes.txt", "/srv/plain", gzip=False).copy("link", "/srv/link")
                .copy("link", "/srv/resolved", resolve_symlinks=True).set_workdir("/srv/work").copy("notes.txt", "here.txt").copy("app/data", "."))
    logs = build(e2b, template, "copied")
    assert "Uploaded 'app'" in logs and any("COPY notes.txt /srv/file" in line for line in logs)
    with e2b.Sandbox.create("copied", timeout=300) as made:
        found = made.commands.run("cd /srv && find . -mindepth 1 -printf '%P %y\\n' | LC_ALL=C sort").stdout.splitlines()
        tree = {path: kind for path, kind in (line.rsplit(" ", 1) for line in found)}
        app = {"main.py": "f", "link": "l", ".hidden": "f", "data": "d", "data/x.txt": "f", "data/deep": "d", "data/deep/y.txt": "f"}
        assert {path[4:]: kind for path, kind in tree.items() if path.startswith("app/")} == app
        assert {path for path in tree if path.split("/")[0] in ("into", "docs", "both", "tree", "work", "with space")} == {
            "into", "into/notes.txt", "docs", "docs/a.md", "docs/b.md", "both", "both/a.md", "both/b.md", "tree", "tree/data", "tree/data/x.txt", "tree/data/deep", "tree/data/deep/y.txt",
            "with space", "with space/sp ace.txt", "work", "work/here.txt", "work/x.txt", "work/deep", "work/deep/y.txt"}
        assert {"all/app/data/deep/y.txt", "all/link", "all/notes.txt"} <= set(tree) and "all/ignored.log" not in tree
        assert (tree["file"], tree["plain"], tree["link"], tree["resolved"]) == ("f", "f", "l", "f")
        assert made.files.read("/srv/app/main.py") == "other" and made.commands.run("readlink /srv/link /srv/app/link").stdout == "notes.txt\nmain.py\n"
        assert made.files.read("/srv/resolved") == made.files.read("/srv/file") == "notes"
        owners = made.commands.run("cd /srv && stat -c %U:%G file into into/notes.txt app app/data/x.txt link work/here.txt").stdout
        assert set(owners.split()) == {"user:user"}
        assert made.commands.run("ls -A /tmp | grep ^copy || true").stdout == ""


@pytest.mark.method("E2B Python 2.63", "Template.build")
def test_owner_and_mode_are_what_the_step_says(e2b, context):
    template = (begin(e2b, context).copy_items([{"src": "notes.txt", "dest": "/srv/one", "mode": 0o640}, {"src": "app", "dest": "/srv/two", "user": "root", "mode": 0o750}])
                .copy("notes.txt", "/srv/group", user="user:root").set_user("root").copy("notes.txt", "/srv/root").copy("app/main.py", "/srv/kept").copy("app", "/srv/over")
                .run_cmd("chown user /srv/over; chmod 711 /srv/over").copy("other", "/srv/over").run_cmd("ln -s one /srv/through && mkdir /srv/real && ln -s real /srv/dir")
                .copy("a.md", "/srv/through").copy("app", "/srv/dir").copy("b.md", "/srv/dir/"))
    build(e2b, template, "owned")
    with e2b.Sandbox.create("owned", timeout=300) as made:
        said = made.commands.run("cd /srv && stat -c '%n %U:%G %a' one two/main.py two/data group root kept over over/main.py two/link", user="root").stdout.splitlines()
        assert said == ["one user:user 640", "two/main.py root:root 750", "two/data root:root 750", "group user:root 644", "root root:root 644", "kept root:root 755", "over user:root 711",
                        "over/main.py root:root 644", "two/link root:root 777"]
        # A link at the destination is followed where it leads to a folder, and replaced where it leads to a file.
        assert made.commands.run("cd /srv && test ! -L through && cat through && readlink dir && ls real", user="root").stdout == "areal\nb.md\ndata\nlink\nmain.py\n"
        assert made.commands.run("cat /srv/one", user="root").stdout == "notes"


@pytest.mark.method("E2B Python 2.63", "Template.build")
def test_what_was_sent_before_is_not_sent_again_and_equal_copies_are_cached(e2b, context, daemon):
    client = daemon.client(os.environ["E2B_API_KEY"])
    file = context / "changing.txt"

    def once(**options):
        logs = build(e2b, begin(e2b, context).copy("changing.txt", "/srv/", **options), "again")
        return "Uploaded 'changing.txt'" in logs, client.call("GET", "/v1/templates/builds?name=again")[0]["cached"]

    file.write_text("one")
    assert once() == (True, False) and once() == (False, True)
    file.write_text("two")
    assert once() == (True, False)
    with e2b.Sandbox.create("again", timeout=60) as made:
        assert made.files.read("/srv/changing.txt") == "two"
    file.write_text("one")
    # The files are still here; what was built of them has given its name away, and is gone.
    assert once() == (False, False) and once(force_upload=True) == (True, False)


@pytest.mark.method("E2B Python 2.63", "Template.build")
def test_a_copy_that_cannot_be_says_why_and_where(e2b, context):
    for template, why in ((begin(e2b, context).copy("app", "/etc/passwd"), "the folder /etc/passwd cannot be made"), (begin(e2b, context).copy("notes.txt", "/srv/", user="nobody-such"), "cannot belong to nobody-such"),
                          (begin(e2b, context).copy("notes.txt", "/etc/passwd/x"), "cannot be made")):
        with pytest.raises(e2b.BuildException, match=why) as failed:
            e2b.Template.build(template, "broken-copy")
        assert "test_e2b_copy.py" in str(failed.traceback[-1].path)
    with pytest.raises(e2b.BuildException, match=r"steps\[0\]: copy: the mode must have one to four octal digits"):
        e2b.Template.build(begin(e2b, context).copy("notes.txt", "/srv/x", mode=0o7777777), "broken-copy")
    assert not e2b.Template.exists("broken-copy")


# The address, by hand

def archive(**files):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text.encode()))
    return out.getvalue()


@pytest.fixture(scope="module")
def mine(daemon):
    return daemon.client(add_key(daemon, "copier", form="e2b"))


def offer(client, name=NAME):
    answer = client.ask("GET", f"/templates/any/files/{name}")
    assert answer.status == 201, answer.body
    return answer.json()


def put(client, url, body):
    """As whoever has the address and nothing else."""
    parts = urlsplit(url)
    return client.ask("PUT", f"{parts.path}?{parts.query}", body, key=False, headers={"Content-Type": "application/octet-stream"})


def refused(answer, status, text):
    assert answer.status == status and text in answer.json()["message"], answer.body


def build_of(client, name, files_hash, source="x", target="/srv/"):
    """The answer of a build whose one step is a COPY of that."""
    announced = client.call("POST", "/v3/templates", {"name": name})
    return client.ask("POST", f"/v2/templates/{name}/builds/{announced['buildID']}",
                      {"fromTemplate": "minimal", "steps": [{"type": "COPY", "args": [source, target, "", ""], "filesHash": files_hash}]})


def test_an_address_takes_one_upload(mine):
    first = offer(mine)
    assert first["present"] is False and f"/templates/any/files/{NAME}?ticket=" in first["url"]
    assert first["url"].startswith(mine.url + "/")
    behind = mine.ask("GET", f"/templates/any/files/{NAME}", headers={"X-Forwarded-Proto": "https", "Host": "localhost:%d" % mine.address[1]}).json()["url"]
    assert behind.startswith("https://localhost:%d/templates/" % mine.address[1]), "as the client calls this server"
    answer = put(mine, first["url"], archive(x="one"))
    assert (answer.status, answer.body) == (200, b"")
    refused(put(mine, first["url"], archive(x="two")), 403, "has been used")
    assert offer(mine)["present"] is True


def test_an_address_is_for_these_files_and_for_whoever_was_given_it(mine):
    url = offer(mine, "cd" * 32)["url"]
    for wrong, status in ((url[:-4] + "0000", 403), (url.replace("cd" * 32, "ef" * 32), 403), (url.split("?")[0], 401)):
        assert put(mine, wrong, b"x").status == status
    assert put(mine, url, archive(x="x")).status == 200, "a wrong guess spends nobody's address"
    for name in ("x", "AB" * 32, "ab" * 33, "..%2f" * 12 + "abcd"):
        assert mine.ask("GET", f"/templates/any/files/{name}").status == 400


def test_who_may_not_build_sends_nothing(daemon, mine):
    operator = daemon.client()
    viewer = daemon.client(operator.call("POST", "/v1/keys", {"name": "viewer", "role": "viewer", "project": "copier"})["key"])
    refused(viewer.ask("GET", f"/templates/any/files/{NAME}"), 403, "this key may not do this")
    for change in (lambda key: operator.ask("DELETE", f"/v1/keys/{key['id']}"), lambda key: operator.ask("PATCH", f"/v1/keys/{key['id']}", {"role": "viewer"})):
        key = operator.call("POST", "/v1/keys", {"name": "leaving", "role": "developer", "project": "copier"})
        url = offer(daemon.client(key["key"]), "12" * 32)["url"]
        assert change(key).status in (200, 204)
        assert put(mine, url, archive(x="x")).status in (401, 403)
    assert offer(mine, "12" * 32)["present"] is False


def test_what_a_narrowed_key_sends_gets_into_its_own_builds_alone(daemon, mine):
    """A client that finds its files present does not send them: so nobody may put others under their name who may not build in its place."""
    name = "78" * 32
    wide, evil = archive(x="good"), archive(x="evil")
    put(mine, offer(mine, name)["url"], wide)
    copied = lambda client, template: client.call("GET", f"/v1/templates/builds?name={template}")[0]["build_id"]  # noqa: E731
    archive_of = lambda client, template: client.call("GET", f"/v1/templates/builds/{copied(client, template)}")["steps"][0]["copy"]["archive"]  # noqa: E731
    narrowed = {"templates": {"allow": {"templates": ["minimal", "own"]}}, "modes": {"allow": {"network_modes": ["disabled"]}}, "limits": {"limits": {"max_sandboxes": 1}}}
    for which, narrow in narrowed.items():
        key = daemon.client(add_key(daemon, "copier", **narrow))
        assert offer(key, name)["present"] is False, which
        assert put(key, offer(key, name)["url"], evil).status == 200 and offer(key, name)["present"] is True
        assert build_of(key, "own", name).status == 202 and archive_of(key, "own") == hashlib.sha256(evil).hexdigest()
        assert build_of(mine, "not-theirs", name).status == 202 and archive_of(mine, "not-theirs") == hashlib.sha256(wide).hexdigest(), which
    agents = daemon.client(add_key(daemon, "copier", allow={"agents": ["none"]}))
    refused(agents.ask("GET", f"/templates/any/files/{name}"), 403, "only through certain agents")
    assert records(daemon.client(), project="copier", action="template.upload")[-1]["outcome"] == "refused"


def test_files_of_another_project_are_not_there(daemon, mine):
    put(mine, offer(mine)["url"], archive(x="mine"))
    other = daemon.client(add_key(daemon, "other-copier", form="e2b"))
    assert offer(other)["present"] is False
    refused(build_of(other, "stolen", NAME), 400, "step 1: COPY x: its files were not sent")
    content = hashlib.sha256(archive(x="mine")).hexdigest()
    refused(build_of(other, "stolen", content), 400, "step 1: COPY x: its files were not sent")
    put(other, offer(other)["url"], archive(x="theirs"))
    assert offer(mine)["present"] is True and build_of(other, "own", NAME).status == 202


def test_steps_without_files_are_refused_by_their_number(mine):
    refused(build_of(mine, "none", "99" * 32), 400, "step 1: COPY x: its files were not sent")
    refused(build_of(mine, "none", None), 400, "step 1: COPY needs a source, a destination and filesHash")
    refused(build_of(mine, "none", "not a hash"), 400, "step 1: ")


def test_an_upload_that_is_cut_leaves_nothing(daemon, mine):
    url = offer(mine, "34" * 32)["url"]
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=60)
    connection.putrequest("PUT", f"{parts.path}?{parts.query}")
    connection.putheader("Content-Length", str(1 << 20))
    connection.endheaders(b"x" * 300000)
    connection.close()
    folder = daemon.data / "build-files" / "copier"
    wait_until(lambda: not [path for path in folder.iterdir() if path.name.startswith(".new-")] if folder.exists() else True)
    assert offer(mine, "34" * 32)["present"] is False
    assert put(mine, url, archive(x="x")).status == 403, "it has been used"


def test_what_is_larger_than_may_be_is_refused(start_daemon):
    daemon = start_daemon("--max-build-file-mb", 1)
    client = daemon.client()
    refused(put(client, offer(client)["url"], b"x" * (1 << 20) + b"x"), 413, "larger than 1 MB")
    parts = urlsplit(offer(client)["url"])
    connection = http.client.HTTPConnection(parts.netloc, timeout=60)
    connection.request("PUT", f"{parts.path}?{parts.query}", body=iter([b"x" * 65536] * 17), encode_chunked=True, headers={"Transfer-Encoding": "chunked"})
    assert connection.getresponse().status == 413
    connection.close()
    assert put(client, offer(client)["url"], os.urandom(1 << 20)).status == 200 and offer(client)["present"] is True
    assert [path for path in (daemon.data / "build-files" / "default").iterdir() if path.name.startswith(".new-")] == []


def test_what_was_sent_is_on_record(daemon, mine):
    operator = daemon.client()
    body = archive(recorded="x")
    put(mine, offer(mine, "56" * 32)["url"], body)
    put(mine, offer(mine, "56" * 32)["url"].replace("ticket=", "ticket=0"), body)
    done, = (record for record in records(operator, project="copier", action="template.upload") if record["outcome"] == "done" and record["bytes_in"] == len(body))
    whole = operator.call("GET", f"/v1/audit/{done['seq']}?project=copier")
    assert (whole["body"]["files"], whole["body"]["sha256"]) == ("56" * 32, hashlib.sha256(body).hexdigest())
