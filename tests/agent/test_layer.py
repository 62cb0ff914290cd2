# SPDX-License-Identifier: Apache-2.0
"""The operation `layer`: what was changed in a guest, as an EROFS image that the next guest has below its own disk.

The packer by itself (layer-pack, on folders of the host) against fsck.erofs, which reads every inode, entry and block; then the real agent under
gVisor: pack there, mount the result in another sandbox, and look.
"""
import json
import os
import shutil
import subprocess

import pytest

from conftest import AGENT, PROJECT, ROOTFS
from waiting import slow
from wireclient import MAIN, WireError, wait_until

PACK = os.path.join(os.environ.get("VIAL_BUILD_DIR", os.path.join(PROJECT, "build")), "agent", "layer-pack")
needs_fsck = pytest.mark.skipif(not shutil.which("fsck.erofs"), reason="fsck.erofs is not installed (erofs-utils)")


def pack(tmp_path, upper, *lower):
    image = tmp_path / "layer.erofs"
    with image.open("wb") as file:
        told = subprocess.run([PACK, upper, *lower], stdout=file, stderr=subprocess.PIPE, check=True, text=True).stderr
    return image, told


def unpack(tmp_path, image):
    """What fsck.erofs finds in it; any fault of the image is an error."""
    target = tmp_path / "unpacked"
    subprocess.run(["fsck.erofs", f"--extract={target}", "--preserve", str(image)], check=True, capture_output=True)
    return target


def facts(path):
    info = os.lstat(path)
    return oct(info.st_mode), info.st_uid, info.st_gid, int(info.st_mtime)


@pytest.fixture
def upper(tmp_path):
    folder = tmp_path / "upper"
    folder.mkdir()
    return folder


@needs_fsck
class TestThePacker:
    def test_files_come_out_as_they_went_in(self, tmp_path, upper):
        (upper / "empty").touch()
        (upper / "small").write_bytes(b"hello")
        (upper / "block").write_bytes(b"b" * 4096)
        (upper / "odd").write_bytes(os.urandom(3 * 4096 + 17))
        with (upper / "sparse").open("wb") as file:
            file.truncate(1_000_001)
            file.seek(500_000)
            file.write(b"x")
        image, _ = pack(tmp_path, upper)
        found = unpack(tmp_path, image)
        for name in ("empty", "small", "block", "odd", "sparse"):
            assert (found / name).read_bytes() == (upper / name).read_bytes(), name
        assert image.stat().st_size % 4096 == 0

    def test_modes_owners_and_times_are_kept(self, tmp_path, upper):
        file, folder = upper / "file", upper / "folder"
        file.write_text("x")
        folder.mkdir()
        os.chown(file, 1000, 100_000)
        os.chmod(file, 0o751)
        os.chmod(folder, 0o1777)
        os.utime(file, (1, 1_234_567_890))
        os.utime(folder, (1, 987_654_321))
        found = unpack(tmp_path, pack(tmp_path, upper)[0])
        assert facts(found / "file") == facts(file)
        assert facts(found / "folder") == facts(folder)

    def test_names_of_every_kind_are_found_again(self, tmp_path, upper):
        names = [b"!before-the-dot", b"-dash", b".hidden", b"..more", b"...", b"\xc3\xbcml\xc3\xa4ut", b"\xff\xfe no utf-8", b"n" * 255, b"new\nline"]
        for name in names:
            (open(os.path.join(os.fsencode(upper), name), "wb")).close()
        found = unpack(tmp_path, pack(tmp_path, upper)[0])
        assert sorted(os.listdir(os.fsencode(found))) == sorted(names)

    def test_ten_thousand_files_in_one_folder_and_folders_a_hundred_deep(self, tmp_path, upper):
        (upper / "many").mkdir()
        for number in range(10_000):
            (upper / "many" / f"file-with-a-name-{number}").write_text(str(number))
        deep = upper.joinpath(*["d"] * 100)
        deep.mkdir(parents=True)
        (deep / "bottom").write_text("here")
        found = unpack(tmp_path, pack(tmp_path, upper)[0])
        assert len(os.listdir(found / "many")) == 10_000
        assert (found / "many" / "file-with-a-name-9999").read_text() == "9999"
        assert found.joinpath(*["d"] * 100, "bottom").read_text() == "here"

    def test_symbolic_links_short_and_as_long_as_can_be(self, tmp_path, upper):
        targets = {"short": "a", "usual": "../lib/x.so.1", "long": "l" * 4000, "longest": "m" * 4095, "none": "does/not/exist"}
        for name, target in targets.items():
            os.symlink(target, upper / name)
        found = unpack(tmp_path, pack(tmp_path, upper)[0])
        assert {name: os.readlink(found / name) for name in targets} == targets

    def test_a_file_of_three_names_is_stored_once(self, tmp_path, upper):
        (upper / "sub").mkdir()
        (upper / "one").write_bytes(b"d" * 400_000)
        os.link(upper / "one", upper / "two")
        os.link(upper / "one", upper / "sub" / "three")
        image, _ = pack(tmp_path, upper)
        assert image.stat().st_size < 500_000
        shown = subprocess.run(["dump.erofs", "--path=/sub/three", str(image)], check=True, capture_output=True, text=True).stdout
        assert "Links: 3" in shown.replace("  ", " "), shown
        assert (unpack(tmp_path, image) / "sub" / "three").read_bytes() == b"d" * 400_000

    def test_devices_fifos_and_sockets_are_left_out_and_counted(self, tmp_path, upper):
        os.mknod(upper / "null", 0o20666, os.makedev(1, 3))
        os.mkfifo(upper / "fifo")
        os.mknod(upper / "deleted", 0o20000, os.makedev(0, 0))
        (upper / "file").touch()
        image, told = pack(tmp_path, upper)
        assert "2 left out" in told
        assert sorted(os.listdir(unpack(tmp_path, image))) == ["deleted", "file"]

    def test_what_belongs_to_the_sandbox_and_not_to_the_template_is_left_out(self, tmp_path, upper):
        for path in ("proc/1", "sys/x", "dev/sda", "opt/vial/agent", "opt/other/kept", "tmp/secret", "var/tmp/x", "run/secrets/token", "etc/hosts",
                     "etc/resolv.conf", "etc/kept", "home/tmp/kept", "etc/hosts.d/kept"):
            (upper / path).parent.mkdir(parents=True, exist_ok=True)
            (upper / path).write_text("x")
        image, _ = pack(tmp_path, upper)
        found = unpack(tmp_path, image)
        files = sorted(str(path.relative_to(found)) for path in found.rglob("*") if path.is_file())
        assert files == ["etc/hosts.d/kept", "etc/kept", "home/tmp/kept", "opt/other/kept"]
        assert (found / "tmp").is_dir() and (found / "run").is_dir(), "only what is in them"
        assert b"secret" not in image.read_bytes()

    def test_a_folder_that_hides_says_so_by_a_whiteout_for_each_entry_below(self, tmp_path, upper):
        lower = tmp_path / "lower"
        for path in ("a/old", "a/both", "a/sub/older", "a/sub/both", "b/stays"):
            (lower / path).parent.mkdir(parents=True, exist_ok=True)
            (lower / path).touch()
        (upper / "a" / "sub").mkdir(parents=True)
        for path in ("a/both", "a/new", "a/sub/both"):
            (upper / path).touch()
        os.setxattr(upper / "a", "trusted.overlay.opaque", b"y")
        found = unpack(tmp_path, pack(tmp_path, upper, lower)[0])

        def whiteouts(folder):
            return sorted(name for name in os.listdir(found / folder) if os.path.stat.S_ISCHR(os.lstat(found / folder / name).st_mode))

        assert whiteouts("a") == ["old"]
        assert whiteouts("a/sub") == ["older"], "what is below is hidden too"
        assert sorted(os.listdir(found / "a")) == ["both", "new", "old", "sub"]
        assert not (found / "b").exists()

    def test_nothing_changed_is_a_layer_too(self, tmp_path, upper):
        image, _ = pack(tmp_path, upper)
        assert os.listdir(unpack(tmp_path, image)) == []
        assert image.stat().st_size == 2 * 4096


# --- in a guest ---

CHANGES = r"""
set -e
mkdir -p /opt/app/lib /opt/app/many
echo 'print("from the layer")' > /opt/app/main.py
ln -s ../main.py /opt/app/lib/link
ln /opt/app/main.py /opt/app/twin
head -c 3000000 /dev/zero | tr '\0' 'z' > /opt/app/big
for i in $(seq 500); do echo $i > /opt/app/many/$i; done
chown -R user:user /opt/app/many; chmod 4755 /opt/app/big
rm /etc/debian_version
rm -r /usr/share/common-licenses; mkdir /usr/share/common-licenses; echo mine > /usr/share/common-licenses/MINE
echo changed >> /etc/issue
mkdir -p /run/secrets; echo hush > /run/secrets/token; echo hush > /tmp/token
mkfifo /opt/app/fifo
(while true; do date >> /opt/app/busy; sleep 0.01; done) > /dev/null 2>&1 &
until [ -s /opt/app/busy ]; do sleep 0.05; done
"""


def layers(*paths):
    """start()'s options for a sandbox with these layers, bottom to top."""
    mounts = [{"destination": f"/dev/vial-layers/{number}", "type": "erofs", "source": str(path), "options": ["ro"]}
              for number, path in enumerate(paths)]
    return {"env": (f"VIAL_LAYERS={len(mounts)}",), "extra_mounts": mounts}


def take(box, path, **fields):
    answer = box.open("layer", **fields).collect(slow(40)).ok()
    path.write_bytes(answer.main)
    assert answer.result["bytes"] == len(answer.main)
    return answer.result


@pytest.fixture(scope="module")
def base_layer(tmp_path_factory):
    """A layer with CHANGES, packed by a real guest."""
    from conftest import start
    path = tmp_path_factory.mktemp("layers") / "base.erofs"
    with start() as box:
        assert box.run(CHANGES, user="root").result["exit_code"] == 0
        told = take(box, path)
        print(box.log())
    return path, told


@pytest.fixture(scope="module")
def with_layer(base_layer):
    from conftest import start
    with start(**layers(base_layer[0])) as box:
        yield box
        print(box.log())


def sh(box, cmd, **fields):
    return box.run(cmd, **fields).stdout.strip()


class TestAGuestThatPacks:
    @needs_fsck
    def test_its_image_is_sound(self, base_layer):
        subprocess.run(["fsck.erofs", str(base_layer[0])], check=True, capture_output=True)
        assert base_layer[1]["left_out"] == 1, "the FIFO"

    def test_no_secret_of_run_or_tmp_is_in_it(self, base_layer):
        assert b"hush" not in base_layer[0].read_bytes()

    def test_everything_that_ran_has_ended_and_nothing_starts_any_more(self, fresh, tmp_path):
        box = fresh()
        box.run("nohup setsid sleep 1000 > /dev/null 2>&1 & echo", user="root")
        take(box, tmp_path / "layer")
        with pytest.raises(WireError):
            box.run("true", timeout=30)

    def test_one_that_is_larger_than_wanted_is_refused_before_a_byte_is_sent(self, fresh):
        box = fresh()
        box.run("head -c 5000000 /dev/zero > /opt/large", user="root")
        answer = box.open("layer", max_bytes=1_000_000).collect()
        assert answer.result["code"] == "limit" and "larger" in answer.result["error"]
        assert answer.main == b""

    def test_it_waits_for_a_reader_who_is_slow(self, fresh, tmp_path):
        box = fresh()
        box.run("head -c 5000000 /dev/urandom > /opt/large; sha256sum /opt/large", user="root")
        stream = box.open("layer")
        stream.auto_credit = False
        assert wait_until(lambda: stream.received_bytes == stream.granted_bytes), "all of the credit, and not a byte more (the wire checks)"
        assert box.wire.ping() == b"x"
        stream.auto_credit = True
        stream.grant(stream.received_bytes)
        answer = stream.collect().ok()
        assert answer.result["bytes"] == len(answer.main) > 5_000_000

    def test_a_root_without_an_overlay_has_no_layer(self, box):
        from wireclient import Sandbox
        copy = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"rootfs-{os.getpid()}")
        for folder in ("dev", "etc", "proc", "sys", "tmp", "usr", "opt/vial"):
            os.makedirs(os.path.join(copy, folder))
        for link in ("bin", "lib", "lib64"):
            os.symlink("usr/" + link, os.path.join(copy, link))
        # The sanitized agent, which CI runs here, needs a loader and libraries.
        programs = {"destination": "/usr", "type": "bind", "source": os.path.join(ROOTFS, "usr"), "options": ["ro", "rbind"]}
        try:
            with Sandbox.start(AGENT, copy, disk_mb=0, extra_mounts=[programs]) as plain:
                plain.hello()
                answer = plain.open("layer").collect(30)
                assert answer.result["code"] == "conflict", answer.result
        finally:
            shutil.rmtree(copy)


class TestAGuestWithALayer:
    def test_has_its_files_with_owners_and_links(self, with_layer):
        assert sh(with_layer, "python3 /opt/app/main.py") == "from the layer"
        assert sh(with_layer, "cat /opt/app/lib/link") == 'print("from the layer")'
        assert sh(with_layer, "stat -c '%h' /opt/app/main.py /opt/app/twin") == "2\n2"
        assert sh(with_layer, "stat -c '%U %a' /opt/app/many/7 /opt/app/big") == "user 644\nroot 4755"
        assert sh(with_layer, "ls /opt/app/many | wc -l") == "500"
        assert sh(with_layer, "tr -d z < /opt/app/big | wc -c; wc -c < /opt/app/big") == "0\n3000000"
        assert sh(with_layer, "tail -1 /etc/issue") == "changed"

    def test_does_not_have_what_was_deleted_or_left_out(self, with_layer):
        assert sh(with_layer, "ls /etc/debian_version 2>&1 || true").endswith("No such file or directory")
        assert sh(with_layer, "ls /usr/share/common-licenses") == "MINE"
        assert sh(with_layer, "ls -A /opt/app") == "big\nbusy\nlib\nmain.py\nmany\ntwin"
        assert sh(with_layer, "cat /run/secrets/token /tmp/token 2>/dev/null || echo none") == "none"
        assert sh(with_layer, "ls /dev/vial-layers 2>/dev/null || echo none") == "none"

    def test_can_change_all_of_it_without_touching_the_image(self, with_layer, base_layer):
        before = base_layer[0].read_bytes()
        with_layer.run("echo more >> /opt/app/main.py; rm /opt/app/twin; rm -r /opt/app/many; mkdir /opt/app/many; mv /opt/app/big /opt/moved",
                       user="root")
        assert sh(with_layer, "tail -1 /opt/app/main.py; ls -A /opt/app/many; wc -c < /opt/moved") == "more\n3000000"
        assert base_layer[0].read_bytes() == before

    def test_runs_programs_of_it_mapped(self, fresh, tmp_path):
        box = fresh()
        box.run("cp /bin/ls /opt/ls; cp $(python3 -c 'import sys; print(sys.executable)') /opt/python", user="root")
        take(box, tmp_path / "layer")
        other = fresh(**layers(tmp_path / "layer"))
        assert sh(other, "/opt/ls -d /opt") == "/opt"
        assert sh(other, "/opt/python -c 'print(6 * 7)'") == "42"

    def test_a_second_layer_lies_over_the_first(self, fresh, base_layer, tmp_path):
        box = fresh(**layers(base_layer[0]))
        box.run("echo two > /opt/app/second; rm /opt/app/twin; rm -r /opt/app/many; mkdir /opt/app/many; echo 1 > /opt/app/many/only;"
                "echo back > /etc/debian_version", user="root")
        take(box, tmp_path / "second")
        assert (tmp_path / "second").stat().st_size < 1_000_000, "only what is new"
        top = fresh(**layers(base_layer[0], tmp_path / "second"))
        assert sh(top, "cat /opt/app/second /etc/debian_version") == "two\nback"
        assert sh(top, "ls -A /opt/app /opt/app/many") == "/opt/app:\nbig\nbusy\nlib\nmain.py\nmany\nsecond\n\n/opt/app/many:\nonly"

    def test_a_checkpoint_of_it_is_restored_with_the_layer_in_use(self, fresh, restore, base_layer):
        box = fresh(**layers(base_layer[0]))
        box.write("/workspace/hold.py", b"""
import mmap, time
file = open('/opt/app/big', 'rb')
data = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
print(data[:3], flush=True)
while True:
    time.sleep(0.2)
    open('/tmp/alive', 'w').write(data[-3:].decode())
""")
        box.run("nohup python3 /workspace/hold.py > /tmp/out 2>&1 & until [ -s /tmp/out ]; do sleep 0.05; done; echo mine > /opt/app/changed", user="root")
        other = restore(box)
        assert "error" not in other.hello()
        other.run("rm -f /tmp/alive", user="root")
        assert wait_until(lambda: sh(other, "cat /tmp/alive 2>/dev/null || true") == "zzz")
        assert sh(other, "cat /opt/app/changed; python3 /opt/app/main.py") == "mine\nfrom the layer"
        with open(os.path.join(box.bundle, "config.json"), encoding="utf-8") as file:
            assert "erofs" in json.dumps(json.load(file)["mounts"])

    def test_its_commands_and_kernels_start_where_the_template_says(self, fresh, base_layer):
        box = fresh(hello={"workdir": "/opt/app"}, **layers(base_layer[0]))
        assert sh(box, "pwd") == "/opt/app"
        assert sh(box, "pwd", cwd="/tmp") == "/tmp"
        box.hello(generation=box.generation)
        assert sh(box, "pwd") == "/opt/app", "a HELLO that does not say leaves it"
