# SPDX-License-Identifier: Apache-2.0
"""COPY: archives that are sent ahead of a build, by E2B's routes, which alone have them. What is kept of them and how long, restarts and crashes, and archives that
are meant to do harm."""

import gzip
import hashlib
import os
import tarfile
import time

import pytest

from builds import Copier, archive, member
from tools import check_refusal, out, wait_until


@pytest.fixture(scope="module")
def copier(client):
    return Copier(client)


def folder_of(daemon, project="default"):
    return daemon.data / "build-files" / project


def content_of(daemon, project="default"):
    """The hashes of what is kept."""
    folder = folder_of(daemon, project)
    return {path.name.removesuffix(".tar") for path in folder.iterdir() if path.name.endswith(".tar")} if folder.exists() else set()


def test_what_is_kept_is_named_by_its_content_and_builds_name_that(daemon, copier):
    body = archive(file="text")
    assert copier.send("first", body).status == 200 and copier.send("second", body).status == 200
    digest = hashlib.sha256(body).hexdigest()
    assert digest in content_of(daemon)
    build = copier.copy("kept-by-content", ("COPY", "first", "file", "/srv/"), ("RUN", "cat /srv/file; ls -A /tmp"))
    assert build["status"] == "ready" and build["steps"][0]["copy"] == {"archive": digest, "from": "file", "to": "/srv/", "user": "user"}
    assert copier.printed(build["build_id"]) == "text" and "step 1 of 2: COPY file /srv/" in [line["text"] for line in copier.log(build["build_id"])]
    # Equal content by another name is the same step; other content is not.
    assert copier.copy("kept-by-content", ("COPY", "second", "file", "/srv/"), ("RUN", "cat /srv/file; ls -A /tmp"))["cached"] is True
    assert copier.send("second", archive(file="other")).status == 200
    other = copier.copy("kept-by-content", ("COPY", "second", "file", "/srv/"), ("RUN", "cat /srv/file; ls -A /tmp"))
    assert other["cached"] is False and copier.printed(other["build_id"]) == "other"


def test_plain_archives_and_large_ones_are_unpacked(copier):
    text = os.urandom(3 << 20).hex()
    assert copier.send("plain", archive("w", large=text, small="x")).status == 200
    build = copier.copy("plain", ("COPY", "plain", ".", "/srv/plain"), ("RUN", "cd /srv/plain; sha256sum large | cut -c 1-64; cat small"))
    assert build["status"] == "ready" and copier.printed(build["build_id"]).split() == [hashlib.sha256(text.encode()).hexdigest(), "x"]


def test_a_client_cannot_write_such_a_step_itself(copier):
    copy = {"copy": {"archive": "ab" * 32, "from": "x", "to": "/srv"}}
    check_refusal(copier.refuse(steps=[copy]), 400)


def bomb():
    """A gigabyte, in one megabyte."""
    head = member("file")
    head.size = 1 << 30
    return gzip.compress(head.tobuf(tarfile.GNU_FORMAT)) + gzip.compress(bytes(16 << 20)) * 64


HOSTILE = {
    "goes up": (archive(**{"../../evil": "x", "good": "x"}), "cannot be unpacked"),
    "is no archive": (b"this is no archive, whatever its name says" * 100, "cannot be unpacked"),
    "is cut": (archive(file="x" * 100000 + os.urandom(100000).hex())[:50000], "cannot be unpacked"),
    "is broken gzip": (b"\x1f\x8b" + os.urandom(5000), "cannot be unpacked"),
    "is empty": (b"", "the archive is empty"),
    "is one byte": (b"\x1f", "cannot be unpacked"),
    "has nothing": (archive(), "nothing in the archive is called file"),
    "writes through its own link": (archive(a=member("way", tarfile.SYMTYPE, "/etc"), **{"way/evil": "x"}), "way/evil: Cannot open"),
    "is a bomb": (bomb(), "cannot be unpacked"),
}


@pytest.fixture(scope="module")
def small(copier):
    """A template with a disk of its own size, which a bomb fills soon."""
    copier.build("small", steps=[{"env": {"A": "b"}}], disk_mb=64)
    return "small"


@pytest.mark.parametrize("which", HOSTILE)
def test_an_archive_that_means_harm_fails_its_own_build(daemon, copier, small, which):
    body, why = HOSTILE[which]
    assert copier.send(which, body).status == 200
    build = copier.copy("hostile", ("COPY", which, "file", "/srv/"), base=small)
    assert build["status"] == "failed" and build["error"].startswith("step 1 of 1 failed: ") and why in build["error"], build
    assert not (daemon.data.parent / "evil").exists() and copier.client.sandboxes() == []


def test_what_an_archive_brings_stays_in_its_folder(copier):
    """Absolute names lose their slash, links stay links, and what a device, a fifo or a set-user-id bit is worth is the sandbox's affair."""
    body = archive(absolute=member("/etc/passwd"), up=member("out", tarfile.SYMTYPE, "/etc/shadow"), device=member("null", tarfile.FIFOTYPE), bits=member("suid", mode=0o4755))
    assert copier.send("odd", body).status == 200
    build = copier.copy("odd", ("COPY", "odd", ".", "/srv/odd"), ("RUN", "cd /srv/odd; grep -c root /etc/passwd; find . | LC_ALL=C sort; readlink out"))
    assert build["status"] == "ready", build
    assert copier.printed(build["build_id"]).split("\n")[-7:] == [".", "./etc", "./etc/passwd", "./null", "./out", "./suid", "/etc/shadow"]


def test_a_build_that_waits_keeps_its_files_over_a_crash_and_a_newer_upload(start_daemon):
    daemon = start_daemon()
    copier = Copier(daemon.client())
    assert copier.send("files", archive(file="old")).status == 200
    under_way = copier.begin("under-way", steps=[{"run": "sleep 1000"}])["build_id"]
    copier.wait_step(under_way, 1)
    waiting = copier.begin_copy("waiting", ("COPY", "files", "file", "/srv/"), ("RUN", "cat /srv/file"))
    assert copier.send("files", archive(file="new")).status == 200
    daemon.kill()
    daemon.start()
    copier = Copier(daemon.client())
    assert copier.wait(waiting)["status"] == "ready" and copier.printed(waiting) == "old"
    build = copier.copy("later", ("COPY", "files", "file", "/srv/"), ("RUN", "cat /srv/file"))
    assert copier.printed(build["build_id"]) == "new"


def test_a_rebuild_finds_its_files_while_they_are_kept_and_says_so_when_they_are_not(start_daemon):
    daemon = start_daemon()
    copier = Copier(daemon.client())
    body = archive(file="x")
    assert copier.send("files", body).status == 200 and copier.send("younger", archive(file="y")).status == 200
    assert copier.copy("again", ("COPY", "files", "file", "/srv/"), ("RUN", "cat /srv/file"))["status"] == "ready"
    rebuilt = copier.client.call("POST", "/v1/templates/again/rebuild", {"no_cache": True})["build_id"]
    assert copier.wait(rebuilt)["status"] == "ready" and copier.printed(rebuilt) == "x"
    daemon.stop()
    old = folder_of(daemon) / (hashlib.sha256(body).hexdigest() + ".tar")
    eight_days_ago = time.time() - 8 * 86400
    os.utime(old, (eight_days_ago, eight_days_ago))
    daemon.start()
    copier = Copier(daemon.client())
    wait_until(lambda: not old.exists())
    sentence = check_refusal(copier.client.ask("POST", "/v1/templates/again/rebuild", {}), 409)
    assert sentence == "step 1: the files of COPY file /srv/ are not kept any more; send them again"
    assert copier.has("files") is False and copier.has("younger") is True
    sandbox = copier.client.create("again")
    assert out(sandbox, "cat /srv/file") == "x"
    sandbox.delete()


@pytest.mark.parametrize("point", ["write", "sync", "rename", "name"])
def test_a_crash_while_files_come_leaves_what_was_there(start_daemon, tmp_path, point):
    faults = tmp_path / "faults"
    faults.write_text("")
    daemon = start_daemon(env={"VIAL_FAULTS": str(faults)})
    copier = Copier(daemon.client())
    assert copier.send("files", archive(file="old")).status == 200
    faults.write_text(f"build.file.{point}\n")
    assert copier.send("files", archive(file="new")).status == 500, "a disk that fails is told"
    faults.write_text(f"build.file.{point} crash\n")
    with pytest.raises(OSError):
        copier.send("files", archive(file="newer"))
    daemon.process.wait()
    faults.write_text("")
    daemon.start()
    copier = Copier(daemon.client())
    assert [path.name for path in folder_of(daemon).iterdir() if path.name.startswith(".")] == []
    build = copier.copy("after", ("COPY", "files", "file", "/srv/"), ("RUN", "cat /srv/file"))
    assert copier.printed(build["build_id"]) == "old"
    assert copier.send("files", archive(file="newer")).status == 200 and copier.has("files") is True


def test_the_longest_unused_goes_when_there_is_no_room_and_nothing_that_a_build_needs(start_daemon, tmp_path):
    faults = tmp_path / "faults"
    faults.write_text("")
    daemon = start_daemon("--max-build-files-mb", 2, env={"VIAL_FAULTS": str(faults)})
    copier = Copier(daemon.client())
    pieces = {word: archive("w", file=word, filler=os.urandom(400000).hex()) for word in ("first", "second", "third", "fourth")}
    for word in ("first", "second"):
        assert copier.send(word, pieces[word]).status == 200
    assert copier.has("first") is True  # so the second is the longest unused
    assert copier.send("third", pieces["third"]).status == 200
    assert [copier.has(word) for word in ("first", "second", "third")] == [True, False, True]
    check_refusal(copier.send("too-large", os.urandom(3 << 20)), 429)
    assert copier.has("first") is True and copier.has("third") is True, "nothing goes for what cannot have room"
    under_way = copier.begin("under-way", steps=[{"run": "sleep 1000"}])["build_id"]
    copier.wait_step(under_way, 1)
    waiting = copier.begin_copy("waiting", ("COPY", "first", "file", "/srv/"), ("COPY", "third", "file", "/srv/"), ("RUN", "cat /srv/file"))
    sentence = check_refusal(copier.send("fourth", pieces["fourth"]), 429)
    assert "has no room for more files of builds" in sentence and copier.has("fourth") is False
    copier.client.call("POST", f"/v1/templates/builds/{under_way}/cancel")
    assert copier.wait(waiting)["status"] == "ready" and copier.send("fourth", pieces["fourth"]).status == 200
    faults.write_text("build.file.gone\n")
    check_refusal(copier.send("vanished", archive(file="x")), 503)
    faults.write_text("")
    assert copier.has("vanished") is False, "what lost its room just when it had come is not said to be there"
    faults.write_text(f"build.space {200 << 20}\n")
    check_refusal(copier.send("fifth", archive(file="x")), 507)


def test_names_of_one_content_are_no_more_than_files_may_be(start_daemon):
    daemon = start_daemon()
    copier = Copier(daemon.client())
    body = archive(file="x")
    assert copier.send("first", body).status == 200
    daemon.stop()
    folder, content = folder_of(daemon), hashlib.sha256(body).hexdigest() + ".tar"
    for i in range(999):
        link = folder / f"{i:064x}"
        link.symlink_to(content)
        os.utime(link, (i, i), follow_symlinks=False)
    daemon.start()
    copier = Copier(daemon.client())
    assert len(list(folder.iterdir())) == 1001, "so many may be"
    assert copier.send("second", body).status == 200 and copier.send("third", body).status == 200
    kept = {path.name for path in folder.iterdir()}
    assert len(kept) == 1001 and kept.isdisjoint({f"{0:064x}", f"{1:064x}"}) and f"{2:064x}" in kept, "the longest unused goes"
    assert [copier.has(word) for word in ("first", "second", "third")] == [True, True, True]


def test_files_that_cannot_be_read_fail_their_step(start_daemon, tmp_path):
    faults = tmp_path / "faults"
    faults.write_text("")
    daemon = start_daemon(env={"VIAL_FAULTS": str(faults)})
    copier = Copier(daemon.client())
    assert copier.send("files", archive(file="x")).status == 200
    faults.write_text("build.file.read\n")
    build = copier.copy("unreadable", ("RUN", "true"), ("COPY", "files", "file", "/srv/"))
    assert build["status"] == "failed" and build["error"].startswith("the files of step 2 cannot be read: "), build
    faults.write_text("")
    assert copier.copy("unreadable", ("RUN", "true"), ("COPY", "files", "file", "/srv/"))["status"] == "ready"


def test_the_files_of_a_project_go_with_it(start_daemon):
    daemon = start_daemon()
    operator = daemon.client()
    operator.call("POST", "/v1/projects", {"name": "short"})
    copier = Copier(daemon.client(operator.call("POST", "/v1/keys", {"name": "s", "role": "developer", "project": "short"})["key"]))
    assert copier.send("files", archive(file="x")).status == 200 and content_of(daemon, "short")
    operator.call("DELETE", "/v1/projects/short")
    wait_until(lambda: not folder_of(daemon, "short").exists() and not list((daemon.data / "build-files").iterdir()))


def test_a_copy_that_is_cancelled_leaves_nothing(copier, daemon):
    assert copier.send("large", archive("w", file=os.urandom(8 << 20).hex())).status == 200
    build = copier.begin_copy("cancelled", ("COPY", "large", "file", "/srv/"), ("RUN", "sleep 1000"))
    copier.wait_step(build, 1)
    copier.client.call("POST", f"/v1/templates/builds/{build}/cancel")
    assert copier.wait(build)["cancelled"] is True and copier.client.sandboxes() == []
    assert copier.copy("uncancelled", ("COPY", "large", "file", "/srv/"))["status"] == "ready"
