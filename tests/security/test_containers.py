# SPDX-License-Identifier: Apache-2.0
"""Row 18: the ways out of shared-kernel containers. Each is tried as root inside, with something on the host that would change or be
read if it worked; and there is no mode in which a sandbox is such a container."""

import hashlib
import os
import re
import subprocess
import time
from pathlib import Path

import pytest

from test_guest import as_root
from tools import check_refusal, engine_processes, exec_argv, host_id, out
from vial import build_dir

SECRET = "host-secret-" + os.urandom(8).hex()


@pytest.fixture(scope="module")
def canary(daemon):
    """A file of the host that everybody may read, and a folder everybody may write to."""
    folder = daemon.folder / "canary"
    folder.mkdir()
    folder.chmod(0o777)
    (folder / "file").write_text(SECRET)
    (folder / "file").chmod(0o666)
    for above in (daemon.folder, folder):
        above.chmod(above.stat().st_mode | 0o111)
    return folder


# The small image has no mount, umount, insmod, modprobe and setfattr: without them an attempt would fail for want of a tool. An attacker brings his own.
TOOLS = {
    "mount": """
import ctypes, os, sys
arguments, kind, options, flags, words = sys.argv[1:], None, [], 0, []
while arguments:
    word = arguments.pop(0)
    if word == "-t": kind = arguments.pop(0)
    elif word == "-o": options = arguments.pop(0).split(",")
    elif word == "--bind": flags |= 4096
    else: words.append(word)
for name, bit in (("ro", 1), ("remount", 32), ("bind", 4096), ("rw", 0)):
    if name in options: options.remove(name); flags |= bit
libc = ctypes.CDLL(None, use_errno=True)
text = lambda value: value.encode() if value else None
if libc.mount(text(words[0]), words[-1].encode(), text(kind), flags, text(",".join(options))):
    sys.exit("mount: " + os.strerror(ctypes.get_errno()))
""",
    "umount": "import ctypes, sys\nfor path in sys.argv[1:]:\n    if path != '-l': ctypes.CDLL(None).umount2(path.encode(), 2)\n",
    "insmod": "import ctypes, os, sys\nfd = os.open(sys.argv[1], os.O_RDONLY)\nsys.exit(ctypes.CDLL(None).syscall(313, fd, b'', 0) != 0)\n",
    # The kernel's own request for a module: a protocol family nobody has loaded.
    "modprobe": "import ctypes, sys\nlibc = ctypes.CDLL(None)\n[libc.socket(family, 3, 0) for family in range(30, 45)]\nsys.exit(1)\n",
    "setfattr": "import os, sys\nos.setxattr(sys.argv[5], sys.argv[2], sys.argv[4].encode())\n",
}


def armed(sandbox):
    for name, source in TOOLS.items():
        answer = sandbox.ask("PUT", f"/fs?path=/usr/local/bin/{name}&user=root&mode=755", ("#!/usr/bin/python3\n" + source).encode())
        assert answer.status < 300, answer.body
    done = as_root(sandbox, "mkdir -p /tmp/there; mount -t tmpfs none /tmp/there && grep /tmp/there /proc/mounts && umount /tmp/there && ! grep /tmp/there /proc/mounts")
    # It may mount, or is told that it may not: either way the tool works.
    assert done["exit_code"] == 0 or done["stderr"] == "mount: Operation not permitted\n", done
    return sandbox


@pytest.fixture(scope="module")
def prisoner(client):
    """Its own: some attempts leave it in no good state."""
    sandbox = armed(client.create())
    yield sandbox
    sandbox.delete()


def untouched(canary):
    return sorted(os.listdir(canary)) == ["file"] and (canary / "file").read_text() == SECRET


def host_state():
    paths = ["/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/kernel/hostname", "/proc/sys/kernel/random/boot_id",
             "/proc/sys/vm/panic_on_oom", "/proc/modules", "/proc/mounts"]
    return {path: Path(path).read_text() for path in paths if os.path.exists(path) and "vial" not in path}


# Each prints GOT when it has reached the host. {canary} is the host's folder.
WAYS_OUT = {
    "the host's files by the init process's root": "cat /proc/1/root{canary}/file && echo GOT",
    "every process's root and cwd": "for p in /proc/[0-9]*; do cat $p/root{canary}/file $p/cwd{canary}/file 2>/dev/null && echo GOT; done",
    "entering the init process's namespaces": "nsenter -t 1 -m -p -n -i -u -- cat {canary}/file && echo GOT",
    "a chroot broken with a held descriptor": """python3 -c '
import os
fd = os.open("/", os.O_RDONLY); os.makedirs("/tmp/jail", exist_ok=True); os.chroot("/tmp/jail"); os.fchdir(fd)
for _ in range(64): os.chdir("..")
os.chroot("."); print(open("{canary}/file").read(), "GOT")'""",
    "block devices": "for n in '8 0' '8 1' '253 0' '254 0' '254 1' '259 0' '7 0'; do rm -f /tmp/d; mknod /tmp/d b $n && head -c 512 /tmp/d | grep -q . && echo GOT; done",
    "memory devices": "for n in '1 1' '1 2' '1 4'; do rm -f /tmp/d; mknod /tmp/d c $n && head -c 16 /tmp/d | grep -q . && echo GOT; done; cat /proc/kcore && echo GOT",
    "kvm, loop and device mapper": "ls /dev/kvm /dev/loop-control /dev/mapper/control /dev/fuse && echo GOT; for n in '10 232' '10 237' '10 236'; do rm -f /tmp/d; mknod /tmp/d c $n; "
                                   "python3 -c 'import os; os.open(\"/tmp/d\", os.O_RDWR); print(\"GOT\")'; done",
    "mounting the host's disks": "for d in /dev/vda /dev/vda1 /dev/sda /dev/sda1 /dev/nvme0n1p1; do mount -o ro $d /mnt && echo GOT; done",
    "the cgroup's release agent": """mkdir -p /tmp/cg; for o in rdma memory cpu pids; do mount -t cgroup -o $o none /tmp/cg && break; done
mkdir -p /tmp/cg/x && echo 1 > /tmp/cg/x/notify_on_release; printf '#!/bin/sh\\ntouch {canary}/escaped' > /tmp/agent.sh; chmod +x /tmp/agent.sh
echo /tmp/agent.sh > /tmp/cg/release_agent; sh -c 'echo $$ > /tmp/cg/x/cgroup.procs'; sleep 0.5; umount /tmp/cg""",
    "a core dump's handler": "echo '|/bin/touch {canary}/escaped' > /proc/sys/kernel/core_pattern; ulimit -c unlimited; sh -c 'kill -SEGV $$'; sleep 0.5",
    "the module loader's helper": "printf '#!/bin/sh\\ntouch {canary}/escaped' > /tmp/m; chmod +x /tmp/m; echo /tmp/m > /proc/sys/kernel/modprobe; printf '\\377\\377\\377\\377' > /tmp/b;"
                                  " chmod +x /tmp/b; /tmp/b; modprobe loop && echo GOT; insmod /tmp/b && echo GOT; sleep 0.3",
    "hotplug and binfmt helpers": "echo /tmp/m > /sys/kernel/uevent_helper && echo GOT; mount -t binfmt_misc none /mnt && echo GOT",
    "sysrq": "echo h > /proc/sysrq-trigger && echo GOT",
    "sysfs and securityfs writable": "mount -o remount,rw /sys; echo 1 > /sys/kernel/mm/ksm/run && echo GOT; mount -t securityfs none /mnt && echo GOT; mount -t debugfs none /mnt && echo GOT",
    "sockets of a container engine": "ls /var/run/docker.sock /run/containerd/containerd.sock /run/podman/podman.sock /run/vial /run/runsc && echo GOT; "
                                     "find / -xdev -type s -not -path '/proc/*' | grep -v '^/tmp/' | grep . && echo GOT",
    "a user namespace with mounts": "unshare -Urm sh -c 'mount --bind / /mnt && cat /mnt{canary}/file && echo GOT'",
    "ptrace into somebody outside": "python3 -c '\nimport ctypes\nlibc = ctypes.CDLL(None)\nfor pid in list(range(1, 40)) + [os for os in range(100, 4000, 7)]:\n"
                                    "    if libc.ptrace(16, pid, 0, 0) == 0: print(\"attached\", pid)'; ps -eo args | grep -E 'viald|vial-shim|runsc|pytest' | grep -v grep && echo GOT",
}


@pytest.mark.parametrize("way", WAYS_OUT)
def test_row_18_no_way_out_of_a_container_is_one_here(daemon, prisoner, canary, way):
    before = host_state()
    tried = as_root(prisoner, WAYS_OUT[way].replace("{canary}", str(canary)))
    shown = tried["stdout"] + tried["stderr"]
    assert SECRET not in shown and "GOT" not in tried["stdout"], shown[-2000:]
    assert untouched(canary)
    after = host_state()
    after["/proc/mounts"] = before["/proc/mounts"]  # other sandboxes come and go; the rest is the host's own
    assert after == before
    assert daemon.alive() and out(prisoner, "echo alive") == "alive\n"


def test_row_18_calls_that_break_out_of_containers_fail_for_root(prisoner):
    """open_by_handle_at is the "shocker", the others load code into a kernel or hand it programs."""
    code = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
buffer = ctypes.create_string_buffer(b"\\x08\\x00\\x00\\x00\\x01\\x00\\x00\\x00\\x02\\x00\\x00\\x00\\x00\\x00\\x00\\x00" + bytes(4096))
root = os.open("/", os.O_RDONLY)
calls = {"open_by_handle_at": (304, root, buffer, 0), "init_module": (175, buffer, 64, b""), "finit_module": (313, root, b"", 0),
         "kexec_load": (246, 0, 0, 0, 0), "bpf": (321, 5, buffer, 72), "perf_event_open": (298, buffer, 0, -1, -1, 0), "iopl": (172, 3),
         "reboot": (169, 0xfee1dead, 672274793, 0x89abcdef), "swapon": (167, b"/etc/passwd", 0), "userfaultfd": (323, 0),
         "add_key": (248, b"user", b"x", b"y", 1, -5), "quotactl": (179, 0x800002 << 8, b"/dev/vda", 0, 0), "syslog": (103, 3, buffer, 4096)}
for name, (number, *arguments) in calls.items():
    result = libc.syscall(number, *arguments)
    print(name, result, ctypes.get_errno())
print("log", buffer.raw[:4096].split(b"\\0")[0].decode(errors="replace"))
"""
    answer = exec_argv(prisoner, "python3", "-c", code, user="root")
    results = dict(re.findall(r"^(\w+) (-?\d+) \d+$", answer["stdout"], re.M))
    assert len(results) == 13, answer
    allowed = [name for name, result in results.items() if int(result) >= 0 and name != "syslog"]
    assert allowed == [], answer["stdout"]
    # Its kernel has a log of its own, not the host's.
    host_log = subprocess.run(["dmesg"], capture_output=True, text=True).stdout.splitlines()
    assert not [line for line in answer["stdout"].splitlines() if len(line) > 40 and line in host_log]


def test_row_18_devices_that_the_engine_would_mount_over_lead_nowhere(daemon, client, canary):
    """runc CVE-2025-31133, -52565 and -52881: /dev/null, /dev/console, /dev/pts and files under /proc replaced by links while the engine sets
    a container up or enters it. Here the engine comes back for every wake, fork and snapshot."""
    sandbox = armed(client.create(ttl_seconds=600))
    as_root(sandbox, f"for f in null console ptmx tty full; do rm -f /dev/$f; ln -s {canary}/file /dev/$f; done; umount -l /dev/pts /dev/shm; rm -rf /dev/pts /dev/shm;"
                     f" ln -s {canary} /dev/pts; ln -s {canary} /dev/shm; rm -f /etc/resolv.conf /etc/hosts /etc/hostname; ln -s {canary}/resolv /etc/resolv.conf;"
                     f" ln -s {canary}/file /etc/hosts; ln -s {canary}/file /etc/hostname; ln -s {canary} /workspace/link; true")
    for verb, body in (("/snapshots", {}), ("/hibernate", None), ("/wake", None), ("/fork", {}), ("/pause", None), ("/resume", None)):
        answer = sandbox.ask("POST", verb, body)
        assert answer.status < 500 or answer.json()["type"] in ("unavailable", "timeout"), (verb, answer.body)
        if verb == "/fork" and answer.status == 200:
            client.ask("DELETE", f"/v1/sandboxes/{answer.json()['sandbox']['id']}")
        if verb == "/snapshots" and answer.status < 300:
            client.ask("DELETE", f"/v1/snapshots/{answer.json()['id']}")
    sandbox.ask("PUT", "/network", {"mode": "open"})
    sandbox.ask("POST", "/exec", {"cmd": "echo pwned > /etc/resolv.conf; echo pwned > /dev/null; cat /dev/null /etc/hosts", "user": "root"})
    time.sleep(0.5)
    assert untouched(canary) and daemon.alive()
    sandbox.delete()


WRITES = {
    "truncating on opening": ": > {file}", "copying over it": "cp /bin/true {file}", "appending": "echo x >> {file}",
    "truncating by name": "python3 -c 'import os; os.truncate(\"{file}\", 0)'", "its mode": "chmod 0 {file}", "its owner": "chown 1000 {file}",
    "its times": "touch -d 2001-01-01 {file}", "unlinking": "rm -f {file}", "renaming": "mv {file} {file}.x", "linking": "ln {file} {file}.y",
    "a new file beside it": "echo x > {file}.z", "mapping it writable": "python3 -c 'import mmap; mmap.mmap(open(\"{file}\", \"r+b\").fileno(), 0)[0:1] = b\"x\"'",
    "allocating": "fallocate -l 1 {file}", "a hole": "fallocate -p -o 0 -l 4096 {file}", "an attribute": "setfattr -n user.x -v y {file}",
    "the process's own program": "for p in /proc/[0-9]*/exe; do case $(readlink $p) in /opt/vial/*) : > $p; cp /bin/true $p;; esac; done",
}


def contents(folder):
    return {path: (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat()[:6], path.stat().st_mtime_ns) for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("write", WRITES)
def test_rows_3_and_18_what_sandboxes_share_is_read_only_on_the_host_side(daemon, client, write):
    """gVisor empties a file of a read-only mount that is opened with O_TRUNC: only the host's kernel may be trusted with "read-only"."""
    sandbox = armed(client.create(ttl_seconds=600))
    config = (daemon.data / "sandboxes" / host_id(daemon, sandbox) / "config.json").read_text()
    runtime = Path(re.search(r'"(/[^"]*/runtime-[0-9a-f]+)"', config)[1])
    keep, before = (runtime / "vial-agent").read_bytes(), contents(runtime)
    try:
        for file in ("/opt/vial/vial-agent", "/opt/vial/kernels/python/main.py"):
            for first in ("true", "mount -o remount,rw /opt/vial"):
                sandbox.ask("POST", "/exec", {"cmd": f"{first}; {WRITES[write].replace('{file}', file)}", "user": "root", "timeout_seconds": 20})
        assert contents(runtime) == before
        assert out(sandbox, "echo alive") == "alive\n"
    finally:
        if (runtime / "vial-agent").read_bytes() != keep:  # or every sandbox after this one would pay for it
            (runtime / "vial-agent").write_bytes(keep)
        sandbox.delete()


def test_row_18_the_kernel_is_not_the_host_s_and_the_label_says_so_everywhere(daemon, client, sandbox):
    shown = sandbox.refresh()
    assert shown["engine"] in ("gvisor", "microvm")
    assert ("gVisor" if shown["engine"] == "gvisor" else "virtual") in shown["isolation"]
    me = client.call("GET", "/v1/me")
    assert me["engine"] == shown["engine"] and me["engine_reason"]
    assert all(one["engine"] == shown["engine"] and one["isolation"] == shown["isolation"] for one in client.sandboxes())
    assert f"(engine: {me['engine_reason']})" in daemon.log_text()
    for path in ("/proc/version", "/proc/sys/kernel/random/boot_id", "/proc/cmdline"):
        assert out(sandbox, f"cat {path}", user="root").strip() != Path(path).read_text().strip(), path
    if shown["engine"] == "gvisor":
        assert "gVisor" in out(sandbox, "dmesg", user="root")


def test_row_18_the_engine_itself_is_locked_up(daemon, sandbox):
    """The process that plays the guest's kernel: a system-call filter, no way to gain rights, no host files, no host network."""
    if sandbox.refresh()["engine"] != "gvisor":
        pytest.skip("for vial-vmm this is tests/vmm/test_jail.c")
    sentries = [pid for pid in engine_processes(daemon, sandbox) if b"boot" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")]
    assert sentries
    for pid in sentries:
        status = Path(f"/proc/{pid}/status").read_text()
        assert re.search(r"^Seccomp:\s*2$", status, re.M) and re.search(r"^NoNewPrivs:\s*1$", status, re.M), status
        assert os.readlink(f"/proc/{pid}/ns/net") != os.readlink("/proc/self/ns/net")
        assert os.readlink(f"/proc/{pid}/ns/mnt") != os.readlink("/proc/self/ns/mnt")
        assert not os.path.exists(f"/proc/{pid}/root/etc/passwd") and not os.path.exists(f"/proc/{pid}/root{daemon.data}")


@pytest.mark.parametrize("engine", ["docker", "runc", "container", "none", "process", "host", "crun", "GVISOR"])
def test_row_18_there_is_no_plain_container_mode(client, tmp_path, engine):
    assert engine in check_refusal(client.ask("POST", "/v1/sandboxes", {"template": "minimal", "engine": engine}), 400)
    started = subprocess.run([build_dir() / "viald", "--config", "/dev/null", "--data-dir", tmp_path / "d", "--run-dir", tmp_path / "r", "--engine", engine],
                             capture_output=True, text=True, timeout=30)
    assert started.returncode == 1 and "engine" in started.stderr and engine in started.stderr


RIGHTS = "grep -E '^(Cap|Seccomp|NoNew)' /proc/self/status; ls /dev | sort; cut -d' ' -f2-4 /proc/mounts | sort; ip -o link 2>/dev/null | cut -d: -f2 | sort; id"


def test_row_18_privileged_features_grant_nothing(client, sandbox, canary):
    """Unknown fields are ignored by rule, but `volumes`, which somebody would believe in; what matters is that the sandbox is the same as without them."""
    fields = {"privileged": True, "cap_add": ["ALL"], "capabilities": ["CAP_SYS_ADMIN"], "devices": ["/dev/kvm"], "security_opt": ["seccomp=unconfined"],
              "mounts": [{"source": str(canary), "target": "/host"}], "binds": [f"{canary}:/host"], "host_network": True,
              "network_mode": "host", "pid_mode": "host", "ipc_mode": "host", "userns_mode": "host", "runtime": "runc", "rootfs": "/", "cgroup_parent": "/"}
    assert "volumes" in check_refusal(client.ask("POST", "/v1/sandboxes", {"template": "minimal", "volumes": [f"{canary}:/host"]}), 400)
    plain = client.create()
    granted = client.create(**fields)
    try:
        assert not set(fields) & set(granted.info)
        assert out(granted, RIGHTS, user="root") == out(plain, RIGHTS, user="root")
        assert granted.exec("ls /host /dev/kvm", user="root")["exit_code"] != 0
        assert out(granted, "ls /proc | grep -c '^[0-9]'", user="root") == out(plain, "ls /proc | grep -c '^[0-9]'", user="root")
        for body in ({"cmd": "id", "privileged": True}, {"cmd": "id", "user": "root", "namespaces": "host"}):
            assert client.call("POST", granted.path + "/exec", body)["exit_code"] == 0
    finally:
        plain.delete()
        granted.delete()
    assert untouched(canary)
