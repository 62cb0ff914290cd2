# SPDX-License-Identifier: Apache-2.0
"""Templates with layers: made in a guest, kept by viald, given to sandboxes; through fork, sleep, snapshots and restarts."""

import hashlib
import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from layer_daemon import Refused
from tools import cgroups
from waiting import wait_until

MEGABYTE = 1 << 20


def sh(sandbox, cmd, **fields):
    answer = sandbox.exec(cmd, **fields)
    assert answer["exit_code"] == 0, answer
    return answer["stdout"].strip()


def value(sandbox, code):
    answer = sandbox.call("POST", "/run", {"code": code})
    assert "error" not in answer, answer
    return answer["results"][-1]["text/plain"]


@pytest.fixture(scope="module")
def tools(daemon):
    """A template with a program, something deleted, an environment, a place and a warm variable."""
    return daemon.template(
        "tools", "mkdir -p /opt/tools && echo 'echo made of layers' > /opt/tools/say && chmod 755 /opt/tools/say && rm /etc/debian_version"
        " && echo hush > /tmp/secret", env={"TOOLS": "/opt/tools", "BOTH": "template"}, workdir="/opt/tools", warm="import json\nwarm = 6 * 7")


@pytest.fixture
def sandbox(tools, client):
    sandbox = client.create(template="tools")
    yield sandbox
    sandbox.delete()


def test_a_layer_is_named_after_its_content(daemon, tools):
    data = (daemon.layers / f"{tools['layer']}.erofs").read_bytes()
    assert hashlib.sha256(data).hexdigest() == tools["layer"]
    assert len(data) == tools["size"]
    assert [path.name for path in daemon.layers.iterdir()] == [f"{tools['layer']}.erofs"]


def test_a_sandbox_has_what_the_template_has(sandbox):
    assert sandbox.info["boot_mode"] == "restore"
    assert sh(sandbox, "/opt/tools/say") == "made of layers"
    assert sh(sandbox, "ls /etc/debian_version /tmp/secret 2>/dev/null; echo") == ""


def test_its_environment_and_place_are_the_templates_below_the_requests(tools, client):
    sandbox = client.create(template="tools", env={"BOTH": "request"})
    try:
        assert sh(sandbox, "echo $TOOLS $BOTH; pwd") == "/opt/tools request\n/opt/tools"
        assert value(sandbox, "import os; os.environ['TOOLS'], os.environ['BOTH'], os.getcwd()") == "('/opt/tools', 'request', '/opt/tools')"
    finally:
        sandbox.delete()


def test_what_the_warm_code_made_is_there(sandbox):
    assert value(sandbox, "warm, 'json' in dir()") == "(42, True)"


def test_two_sandboxes_share_the_layer_and_nothing_else(tools, client):
    one, two = client.create(template="tools"), client.create(template="tools")
    try:
        sh(one, "echo changed > /opt/tools/say", user="root")
        assert sh(two, "/opt/tools/say") == "made of layers"
    finally:
        one.delete()
        two.delete()


def test_a_fork_has_the_layer_and_what_was_changed(sandbox, client):
    sh(sandbox, "echo mine > /opt/tools/mine", user="root")
    for child in sandbox.call("POST", "/fork-tree", {"count": 2})["children"]:
        assert client.call("POST", f"/v1/sandboxes/{child['id']}/exec", {"cmd": "/opt/tools/say; cat mine"})["stdout"] == "made of layers\nmine\n"
        client.call("DELETE", f"/v1/sandboxes/{child['id']}")


def test_one_that_slept_wakes_with_it(sandbox):
    sh(sandbox, "echo mine > /opt/tools/mine", user="root")
    sandbox.call("POST", "/hibernate")
    assert sh(sandbox, "/opt/tools/say; cat mine") == "made of layers\nmine"
    assert value(sandbox, "warm") == "42"


def test_a_snapshot_of_it_makes_sandboxes_also_when_the_template_is_gone(daemon, client):
    made = daemon.template("passing", "echo here > /opt/here")
    sandbox = client.create(template="passing")
    snapshot = sandbox.call("POST", "/snapshots", {})
    sandbox.delete()
    assert daemon.ask("drop", name="passing")["dropped"]
    assert client.ask("POST", "/v1/sandboxes", {"template": "passing"}).status == 400
    assert daemon.ask("used", layer=made["layer"])["used"], "the snapshot needs it"
    other = client.create(template=None, from_snapshot=snapshot["id"])
    assert sh(other, "cat /opt/here") == "here"
    other.delete()
    client.call("DELETE", f"/v1/snapshots/{snapshot['id']}")
    assert not daemon.ask("used", layer=made["layer"])["used"]


def test_a_template_on_a_template_has_two_layers(daemon, tools, client):
    made = daemon.template("more", "test -x /opt/tools/say && rm /opt/tools/say && echo more > /opt/tools/more", base="tools")
    assert made["record"]["layers"] == [tools["layer"], made["layer"]]
    sandbox = client.create(template="more")
    assert sh(sandbox, "ls /opt/tools; cat more") == "more\nmore", "the base's place is its place too"
    sandbox.delete()


def test_a_projects_template_is_its_own(daemon, client):
    daemon.template("ours", "echo private > /opt/private", project=daemon.project())
    sandbox = client.create(template="ours")
    assert sh(sandbox, "cat /opt/private") == "private"
    sandbox.delete()
    key = client.call("POST", "/v1/projects", {"name": "strangers"}) and client.call(
        "POST", "/v1/keys", {"name": "stranger", "project": "strangers", "role": "developer"})["key"]
    assert daemon.client(key).ask("POST", "/v1/sandboxes", {"template": "ours"}).status == 400


READ_MAPPED = """
import mmap, os
if os.path.exists('/opt/big'):
    file = open('/opt/big', 'rb')
    data = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
    sum(data[at] for at in range(0, len(data), 4096))
1
"""


def memory_groups(daemon):
    return {path for path in cgroups(daemon) if os.path.exists(f"{path}/memory.stat")}


def create_with_group(daemon, client, template):
    before = memory_groups(daemon)
    sandbox = client.create(template=template)
    (group,) = memory_groups(daemon) - before
    return sandbox, group


def own_bytes(group):
    """Anonymous and shared memory: a guest's memory is a memfd of the Sentry's. Pages of files on disk are given back when they are wanted."""
    with open(f"{group}/memory.stat", encoding="ascii") as file:
        stat = {name: int(number) for name, number in map(str.split, file)}
    return stat.get("anon", stat.get("rss", 0)) + stat["shmem"]


def test_memory_does_not_grow_by_the_layer(daemon, client):
    """64 MB of files that every sandbox has read: they are pages of the host's cache, not of the sandbox's memory."""
    daemon.template("big", "head -c 67108864 /dev/urandom > /opt/big")
    plain, plain_group = create_with_group(daemon, client, "minimal")
    big, big_group = create_with_group(daemon, client, "big")
    try:
        for sandbox in (plain, big):
            sh(sandbox, "cat /opt/big 2>/dev/null | sha256sum")
            value(sandbox, READ_MAPPED)
        growth = own_bytes(big_group) - own_bytes(plain_group)
        assert growth < 32 * MEGABYTE, f"{growth / MEGABYTE:.0f} MB more"
    finally:
        plain.delete()
        big.delete()


def test_warm_code_that_fails_says_how(daemon):
    made = daemon.make("bad-warm", "true", warm="print('so far so good')\nraise ValueError('no model here')")
    with pytest.raises(Refused) as problem:
        daemon.put(made)
    assert "so far so good" in str(problem.value) and "ValueError" in str(problem.value) and "no model here" in str(problem.value)
    folder = daemon.data / "templates" / made["record"]["folder"]
    assert not list(folder.iterdir()), "nothing is left of the checkpoint"


def test_templates_that_are_to_be_baked_at_once_wait_for_each_other(daemon, client):
    made = [daemon.make(f"at-once-{number}", f"echo {number} > /opt/number") for number in range(3)]
    with ThreadPoolExecutor(len(made)) as threads:
        ready = list(threads.map(daemon.put, made))
    assert len({template["hash"] for template in ready}) == 3
    for number in range(3):
        sandbox = client.create(template=f"at-once-{number}")
        assert sandbox.info["boot_mode"] == "restore" and sh(sandbox, "cat /opt/number") == str(number)
        sandbox.delete()


def test_a_viald_that_stops_gives_up_what_it_bakes_and_leaves_nothing(start_daemon):
    daemon = start_daemon()
    made = [daemon.make(f"interrupted-{number}", f"echo {number} > /opt/number", warm="import time; time.sleep(600)") for number in range(2)]
    with ThreadPoolExecutor(len(made)) as threads:
        answers = [threads.submit(daemon.put, one) for one in made]
        wait_until(lambda: "running its warm code" in daemon.log_text(), 120, daemon.log_text)
        daemon.stop()
        for answer in answers:
            with pytest.raises((Refused, ValueError, OSError)):
                answer.result()
    assert not list((daemon.data / "templates").glob("*/ba*"))


def test_a_layer_that_is_too_large_is_cut_off_and_leaves_nothing(daemon):
    before = sorted(daemon.layers.iterdir())
    with pytest.raises(Refused, match="larger"):
        daemon.make("large", "head -c 20000000 /dev/urandom > /opt/large", max_bytes=5_000_000)
    assert sorted(daemon.layers.iterdir()) == before


def test_a_record_has_no_path_of_this_machine(tools, daemon):
    assert not tools["record"]["rootfs"].startswith("/")
    assert str(daemon.data) not in str(tools["record"])


def test_it_is_all_there_after_viald_was_started_again(daemon, tools):
    client = daemon.client()
    awake, asleep = client.create(template="tools", persistent=True), client.create(template="tools", persistent=True)
    sh(awake, "echo awake > note", user="root")
    sh(asleep, "echo asleep > note", user="root")
    asleep.call("POST", "/hibernate")
    daemon.kill()
    daemon.start()
    client = daemon.client()
    again = daemon.put(tools)
    assert again["checkpoint"] == tools["checkpoint"], "baked before"
    for sandbox, note in ((awake, "awake"), (asleep, "asleep")):
        answer = client.call("POST", f"/v1/sandboxes/{sandbox.info['id']}/exec", {"cmd": "/opt/tools/say; cat note"})
        assert answer["stdout"] == f"made of layers\n{note}\n"
        client.call("DELETE", f"/v1/sandboxes/{sandbox.info['id']}")
    fresh = client.create(template="tools")
    assert fresh.info["boot_mode"] == "restore" and sh(fresh, "/opt/tools/say") == "made of layers"
    fresh.delete()


def test_without_its_layer_a_sandbox_says_which_is_gone(daemon):
    client = daemon.client()
    made = daemon.template("lost", "echo x > /opt/x")
    (daemon.layers / f"{made['layer']}.erofs").rename(daemon.layers / "elsewhere")
    answer = client.ask("POST", "/v1/sandboxes", {"template": "lost"})
    assert answer.status == 503 and made["layer"] in answer.text
    (daemon.layers / "elsewhere").unlink()


class TestADiskThatFails:
    @pytest.fixture(scope="class")
    def faults(self, tmp_path_factory):
        return tmp_path_factory.mktemp("faults") / "faults"

    @pytest.fixture(scope="class")
    def failing(self, start_daemon, faults):
        faults.touch()
        return start_daemon(env={"VIAL_FAULTS": str(faults)})

    @pytest.mark.parametrize("point", ["layer.write", "layer.rename"])
    def test_nothing_is_left_of_a_layer_that_could_not_be_written(self, failing, faults, point):
        faults.write_text(f"{point}\n")
        try:
            with pytest.raises(Refused, match="layer"):
                failing.make("failing", "echo x > /opt/x")
        finally:
            faults.write_text("")
        assert not list(failing.layers.iterdir())

    def test_a_crash_in_the_middle_leaves_nothing_after_the_next_start(self, failing, faults):
        faults.write_text("layer.rename crash\n")
        with pytest.raises((Refused, ValueError, OSError)):
            failing.make("crashing", "echo x > /opt/x")
        failing.process.wait(timeout=60)
        assert list(failing.layers.iterdir())
        faults.write_text("")
        failing.start()
        assert not list(failing.layers.iterdir())
        wait_until(lambda: not failing.left_over(), 60, lambda: f"left: {failing.left_over()}")
