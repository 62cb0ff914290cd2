# SPDX-License-Identifier: Apache-2.0
"""Two sandboxes from one snapshot, at the wire: what they draw differs, what they remember does not."""
import pytest

from conftest import AGENT, ROOTFS, URL
from runners import AgentRunner, wait_until


@pytest.fixture
def twins(tmp_path):
    """A sandbox and its copy, after `prepare(box)`."""
    if URL:
        pytest.skip("viald's snapshots are tested in tests/engine; this is the agent's part")
    made = []

    def make(prepare):
        box = AgentRunner(AGENT, ROOTFS)
        made.append(box)
        prepare(box)
        box.box.wire.freeze()
        box.box.checkpoint(str(tmp_path))
        assert "error" not in box.box.hello()
        twin = AgentRunner(AGENT, ROOTFS, image=str(tmp_path), of=box)
        made.append(twin)
        return box, twin

    yield make
    for box in reversed(made):
        box.close()


def test_generators_differ_and_variables_do_not(twins, needs):
    needs("numpy")

    def prepare(box):
        box.run("import random, numpy as np, ssl, uuid\nrandom.seed(1); np.random.seed(1)\nrng = np.random.default_rng(1); old = np.random.RandomState(1)\n"
                "own = random.Random(1); life = 7; np.random.normal(); random.gauss(0, 1)")
        box.run("var life = 7; Math.random()", "javascript")
        box.run("life=7; RANDOM=1; : $RANDOM", "bash")

    box, twin = twins(prepare)
    draw = "[random.random(), own.random(), random.gauss(0, 1), np.random.rand(), np.random.normal(), rng.random(), rng.normal(), old.rand(), ssl.RAND_bytes(8).hex()]"
    one, two = (eval(b.run(draw)["results"][0]["text/plain"]) for b in (box, twin))
    assert all(a != b for a, b in zip(one, two)), (one, two)
    draw = "JSON.stringify([Math.random(), require('crypto').randomBytes(8).toString('hex'), require('crypto').randomUUID(), globalThis.crypto.randomUUID(), require('crypto').randomInt(2**40)])"
    one, two = (eval(eval(b.run(draw, "javascript")["results"][0]["text/plain"])) for b in (box, twin))
    assert all(a != b for a, b in zip(one, two)), (one, two)
    # What OpenSSL draws for itself, as for TLS.
    draw = "require('crypto').generateKeyPairSync('ec', {namedCurve: 'P-256'}).privateKey.export({type: 'sec1', format: 'pem'})"
    one, two = (b.run(draw, "javascript")["results"][0]["text/plain"] for b in (box, twin))
    assert one != two
    one, two = (b.run("echo $RANDOM $RANDOM $RANDOM", "bash")["stdout"] for b in (box, twin))
    assert one != two
    for b in (box, twin):
        assert b.run("life")["results"][0]["text/plain"] == "7"
        assert b.run("life", "javascript")["results"][0]["text/plain"] == "7"
        assert b.run("echo $life", "bash")["stdout"] == "7\n"


def test_a_cell_that_runs_through_the_snapshot_draws_new_numbers(twins):
    def prepare(box):
        box.run("import random, time; random.seed(1); drawn = []")
        box.start("import os\nwhile not os.path.exists('/tmp/enough'):\n    drawn.append(random.random()); open('/tmp/draws', 'w').close(); time.sleep(0.01)\n"
                  "drawn += [random.random() for _ in range(5)]")
        box.run("var last = 0", "javascript")
        box.start("const fs = require('fs'); while (!fs.existsSync('/tmp/enough')) { last = Math.random(); fs.writeFileSync('/tmp/draws-too', '') } last = Math.random()",
                  "javascript")
        assert wait_until(lambda: box.run("ls /tmp/draws /tmp/draws-too | wc -l", "bash")["stdout"] == "2\n")

    box, twin = twins(prepare)
    for b in (box, twin):
        b.write("/tmp/enough", b"")
    one, two = (eval(b.run("drawn[-5:]")["results"][0]["text/plain"]) for b in (box, twin))
    assert not set(one) & set(two)
    one, two = (b.run("last", "javascript")["results"][0]["text/plain"] for b in (box, twin))
    assert one != two


def test_warm_kernels_are_hot_and_clean(twins):
    def prepare(box):
        box.box.call("warm", languages=["python", "javascript", "bash"])

    _, twin = twins(prepare)
    pids = lambda: {one["id"]: one["pid"] for one in twin.contexts()}  # noqa: E731
    hot = pids()
    for language, code in (("python", "1+1"), ("javascript", "1+1"), ("bash", "echo 2")):
        assert hot[f"default-{language}"] > 0 and twin.run(code, language)["execution_count"] == 1
    assert pids() == hot
    assert twin.run("In[1:], Out, [n for n in dir() if n in ('np', 'pd', 'plt', 'numpy')]")["results"][0]["text/plain"].endswith("[])")
    modules = twin.run("import sys, importlib.util\n[m for m in ('numpy', 'pandas', 'matplotlib.pyplot') if importlib.util.find_spec(m.split('.')[0]) and m not in sys.modules]")
    assert modules["results"][0]["text/plain"] == "[]"


def test_the_new_sandboxs_environment_reaches_old_kernels(twins):
    def prepare(box):
        for language in ("python", "javascript", "bash"):
            box.run("1" if language != "bash" else "true", language)

    _, twin = twins(prepare)
    assert "error" not in twin.box.hello(env={"FRESH": "yes"})
    assert twin.run("import os; os.environ['FRESH']")["results"][0]["text/plain"] == "'yes'"
    assert twin.run("process.env.FRESH", "javascript")["results"][0]["text/plain"] == "'yes'"
    assert twin.run("echo $FRESH", "bash")["stdout"] == "yes\n"
