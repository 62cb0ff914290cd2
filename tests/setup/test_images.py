# SPDX-License-Identifier: Apache-2.0
"""Guest images: when they are built, and what is in them. Looks at the images that the test run has made."""

import json
import os
import pathlib
import shutil
import stat

import pytest

from conftest import ROOT, SCRIPTS, cpu_seconds, run

IMAGES = pathlib.Path(os.environ.get("VIAL_IMAGES_DIR", "/var/lib/vial-test/images"))
NAMES = ["minimal", "code-interpreter"]
LIBRARIES = """numpy pandas scipy sklearn skimage statsmodels.api sympy matplotlib.pyplot seaborn altair PIL openpyxl xlsxwriter pypdf docx
    bs4 lxml.etree requests httpx nltk networkx tabulate reportlab xgboost IPython matplotlib_inline.backend_inline plotly.express cv2""".split()
OPTIONAL = {"pyarrow": "pyarrow", "polars": "polars", "duckdb": "duckdb", "bokeh": "bokeh", "kaleido": "kaleido", "python-pptx": "pptx",
            "pdfplumber": "pdfplumber", "openai": "openai", "anthropic": "anthropic"}


def manifest(name):
    path = IMAGES / f"{name}.json"
    if not path.exists():
        pytest.skip(f"{path} does not exist; scripts/build-image {name} makes it")
    return json.loads(path.read_text())


def rootfs(name):
    return pathlib.Path(manifest(name)["rootfs"])


# A private mount namespace, in which nothing written is kept.
ENTER = """set -e
mount -t tmpfs tmpfs /mnt; mkdir /mnt/upper /mnt/work /mnt/root
mount -t overlay overlay -o "lowerdir=$1,upperdir=/mnt/upper,workdir=/mnt/work" /mnt/root
mount -t proc proc /mnt/root/proc; mount --rbind /dev /mnt/root/dev
exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME="$3" LANG=C.UTF-8 \
    chroot --userspec="$2:$2" /mnt/root /bin/bash -ec "cd /workspace; $4"
"""


def in_image(name, script, user="user"):
    """Runs a shell script in the image's tree; ends at its first failing line."""
    home = "/root" if user == "root" else f"/home/{user}"
    return run("unshare", "--mount", "bash", "-c", ENTER, "enter", rootfs(name), user, home, script, timeout=120)


@pytest.fixture
def project_copy(tmp_path):
    """The scripts and recipes, to be changed."""
    shutil.copytree(SCRIPTS, tmp_path / "scripts")
    shutil.copytree(ROOT / "guest/images", tmp_path / "guest/images")
    return tmp_path


def decision(root, name, data):
    finished = run(root / "scripts/build-image", "--dry-run", name, env={"VIAL_DATA": data})
    assert finished.returncode == 0, finished.stderr
    return finished.stdout.strip()


@pytest.mark.parametrize("name", NAMES)
def test_an_image_is_built_once(name, project_copy):
    manifest(name)
    assert decision(project_copy, name, IMAGES.parent) == "current"


@pytest.mark.parametrize("changed, rebuilt", [
    ("guest/images/common/packages", {"minimal", "code-interpreter"}),
    ("guest/images/common/customize.d/20-users", {"minimal", "code-interpreter"}),
    ("guest/images/code-interpreter/pypi", {"code-interpreter"}),
    ("guest/images/minimal/image.conf", {"minimal"}),
    ("scripts/up", set()),
])
def test_a_changed_recipe_is_built_again_and_no_other(changed, rebuilt, project_copy):
    for name in NAMES:
        manifest(name)
    with open(project_copy / changed, "a") as file:
        file.write("# changed\n")
    assert {name for name in NAMES if decision(project_copy, name, IMAGES.parent) == "build"} == rebuilt


def test_a_new_hook_changes_the_recipe(project_copy):
    manifest("minimal")
    (project_copy / "guest/images/minimal/customize.d").mkdir()
    (project_copy / "guest/images/minimal/customize.d/50-new").write_text("#!/bin/sh\n")
    assert decision(project_copy, "minimal", IMAGES.parent) == "build"


def test_a_recipe_stands_on_another_that_exists(project_copy):
    bases = {path.parent.name: line[5:] for path in project_copy.glob("guest/images/*/image.conf")
             for line in path.read_text().splitlines() if line.startswith("base=")}
    assert bases == {"torch": "code-interpreter"}
    assert decision(project_copy, "torch", project_copy) == "build"
    (project_copy / "images/torch-000000000000/rootfs").mkdir(parents=True)
    (project_copy / "images/torch.json").write_text('{"hash": "000000000000"}')
    assert decision(project_copy, "torch", project_copy) == "build"


def test_a_manifest_whose_files_are_gone_does_not_count(tmp_path):
    (tmp_path / "images").mkdir()
    (tmp_path / "images/minimal.json").write_text((IMAGES / "minimal.json").read_text() if (IMAGES / "minimal.json").exists() else "{}")
    assert decision(ROOT, "minimal", tmp_path) == "build"


def test_a_built_image_is_passed_in_no_time():
    manifest("minimal")
    taken, finished = cpu_seconds(SCRIPTS / "build-image", "minimal", env={"VIAL_DATA": IMAGES.parent})
    assert (finished.stdout, finished.stderr) == ("", "")
    assert taken < 0.05


@pytest.mark.parametrize("name", NAMES)
def test_the_manifest_says_what_was_made(name):
    made = manifest(name)
    assert made["name"] == name and len(made["hash"]) == 12
    assert made["rootfs"] == str(IMAGES / f"{name}-{made['hash']}/rootfs")
    assert made["size_bytes"] > 100_000_000 and made["packages"] > 100
    assert isinstance(made["missing"], list) and made["created_at"].endswith("Z")
    assert made["aliases"] == (["base"] if name == "code-interpreter" else [])


@pytest.mark.parametrize("name", NAMES)
def test_the_user_and_the_directories_are_there(name):
    root = rootfs(name)
    passwd = dict((line.split(":")[0], line.split(":")) for line in (root / "etc/passwd").read_text().splitlines())
    assert passwd["user"][2:4] == ["1000", "1000"] and passwd["user"][5:7] == ["/home/user", "/bin/bash"]
    for path in ("workspace", "home/user", "usr/local/bin", "usr/local/lib/node_modules"):
        assert (root / path).stat().st_uid == 1000, path
    assert (root / "content").stat().st_uid == 1000 and os.readlink(root / "mnt/data") == "/workspace"
    assert (root / "opt/vial").stat().st_uid == 0
    assert os.readlink(root / "usr/bin/sudo") == "/opt/vial/vial-agent" and (root / "usr/bin/sudo.distrib").exists()
    assert "NOPASSWD" in (root / "etc/sudoers.d/user").read_text()
    assert stat.S_IMODE((root / "etc/sudoers.d/user").stat().st_mode) == 0o440


@pytest.mark.parametrize("name", NAMES)
def test_nothing_of_the_building_machine_is_left(name):
    root = rootfs(name)
    assert (root / "etc/resolv.conf").read_text() == ""
    assert (root / "etc/machine-id").read_text() == ""
    assert (root / "etc/hostname").read_text() == "sandbox\n"
    assert list((root / "tmp").iterdir()) == [] and list((root / "var/tmp").iterdir()) == [] and list((root / "run").glob("vial*")) == []
    assert list((root / "var/lib/apt/lists").glob("*Packages*")) == [] and list((root / "var/cache/apt/archives").glob("*.deb")) == []
    for sources in (root / "etc/apt").rglob("*.sources"):
        assert "@" not in sources.read_text()


@pytest.mark.parametrize("name", NAMES)
def test_documentation_is_left_out_but_licences_are_kept(name):
    root = rootfs(name)
    # dpkg keeps links of what it leaves out.
    assert [page for page in (root / "usr/share/man").glob("man3/*") if page.exists()] == [] and not (root / "usr/share/man/de").exists()
    assert (root / "usr/share/man/man1/ls.1.gz").exists() == (name == "code-interpreter")
    assert (root / "usr/share/doc/bash/copyright").exists()


@pytest.mark.parametrize("name", NAMES)
def test_the_interpreters_run(name):
    done = in_image(name, """
        python --version
        python3 -c 'import IPython'
        pip --version
        node --version
        echo 'let x: number = 41; console.log(x + 1)' | esbuild --loader=ts | node
        id -un
        pwd""")
    assert done.returncode == 0, done.stderr
    assert "Python 3.13" in done.stdout and {"minimal": "v20.", "code-interpreter": "v24."}[name] in done.stdout and done.stdout.endswith("42\nuser\n/workspace\n")


def test_the_tools_of_the_code_interpreter_run():
    done = in_image("code-interpreter", """
        git --version; curl --version; jq --version; sqlite3 --version; unzip -v; npm --version
        echo 'int main(void) { return 7; }' > seven.c
        gcc seven.c -o seven
        ./seven || echo $?""")
    assert done.stdout.endswith("7\n"), done.stderr


def test_every_promised_library_imports():
    made = manifest("code-interpreter")
    wanted = LIBRARIES + [module for project, module in OPTIONAL.items() if project not in made["missing"]]
    done = in_image("code-interpreter", f"""python -W ignore - {' '.join(wanted)} <<'END'
import importlib, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
print("all")
END""")
    assert done.stdout == "all\n", done.stderr


def test_a_chart_with_cjk_text_finds_its_glyphs():
    done = in_image("code-interpreter", """python -W error - <<'END'
import matplotlib
matplotlib.use("agg")
import matplotlib.pyplot as plt
plt.title("中文 日本語 한국어 é")
plt.savefig("/tmp/chart.png")
END""")
    assert (done.returncode, done.stderr) == (0, "")


def test_the_font_list_was_made_beforehand():
    for home in ("root", "home/user"):
        assert list((rootfs("code-interpreter") / home / ".cache/matplotlib").glob("fontlist-*.json")), home


@pytest.mark.parametrize("user", ["user", "root"])
@pytest.mark.parametrize("library", ["tabulate", "markdown"])
def test_pip_replaces_a_library_of_the_image(library, user):
    # A newer one made on the spot: no network is needed, and Debian's, or the one from the package index, has to give way to it.
    done = in_image("code-interpreter", f"""
        mkdir /tmp/{library}; cd /tmp/{library}
        printf '[project]\nname = "{library}"\nversion = "99"\n[tool.setuptools]\npy-modules = ["{library}"]\n' > pyproject.toml
        echo 'is_new = True' > {library}.py
        python -c 'import sys; sys.path.pop(0); import {library}; print({library}.__version__)'
        pip install -q --no-index --no-build-isolation .
        cd /
        python -c 'import {library}; print({library}.is_new)'""", user=user)
    assert done.stdout.endswith("True\n"), done.stderr


def test_npm_installs_globally_for_the_user():
    done = in_image("code-interpreter", """
        mkdir /tmp/zz; cd /tmp/zz
        npm init -y > /dev/null
        echo 'module.exports = 5' > index.js
        npm pack --silent
        npm install -g --offline ./zz-1.0.0.tgz > /dev/null
        cd /
        node -p 'require("zz")'""")
    assert done.stdout.endswith("5\n"), done.stderr


@pytest.mark.parametrize("name", NAMES)
def test_python_modules_are_compiled_beforehand(name):
    root = rootfs(name)
    modules = [*root.glob("usr/lib/python3/dist-packages/IPython/**/*.py"), *root.glob("usr/local/lib/python3.*/dist-packages/plotly/*.py")]
    assert [path for path in modules if not list(path.parent.glob(f"__pycache__/{path.stem}.*.pyc"))] == []
    # What apt installs later in a sandbox is compiled by Debian's own program again.
    assert not (root / "usr/bin/py3compile").is_symlink() and not (root / "usr/bin/py3compile.debian").exists()


@pytest.mark.parametrize("name", NAMES)
def test_only_the_known_programs_are_setuid(name):
    found = run("find", rootfs(name), "-xdev", "-perm", "/6000", "-type", "f", "-printf", "%f\n").stdout.split()
    assert set(found) <= {"sudo.distrib", "su", "passwd", "chfn", "chsh", "gpasswd", "chage", "expiry", "mount", "umount", "newgrp", "unix_chkpwd", "ssh-agent"}


def test_an_image_of_another_data_directory_is_shared(tmp_path):
    made = manifest("minimal")
    finished = run(SCRIPTS / "build-image", "minimal", env={"VIAL_DATA": tmp_path, "VIAL_DATA_SERVER": IMAGES.parent}, timeout=300)
    assert finished.returncode == 0 and "shared with" in finished.stderr, finished.stderr
    mine = json.loads((tmp_path / "images/minimal.json").read_text())
    assert mine["hash"] == made["hash"] and mine["packages"] == made["packages"]
    assert mine["rootfs"] == str(tmp_path / f"images/minimal-{made['hash']}/rootfs")
    # A stray write into the one would be one into the other: only root on the host could, and nothing of ours does.
    assert (pathlib.Path(mine["rootfs"]) / "etc/os-release").read_text() == (rootfs("minimal") / "etc/os-release").read_text()
    assert decision(ROOT, "minimal", tmp_path) == "current"
