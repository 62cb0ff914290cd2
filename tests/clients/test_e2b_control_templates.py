# SPDX-License-Identifier: Apache-2.0
"""Templates built with the PyPI package e2b 2.63.0, unmodified, against viald; what it has and Vial has not is refused."""

import os

import pytest

from e2b_environment import e2b  # noqa: F401  (a fixture)
from tools import add_key



@pytest.fixture(scope="module")
def built(e2b):
    """One template and what its build told, for several tests."""
    logs = []
    template = (e2b.Template().from_template("minimal").set_envs({"GREETING": "grüße", "MODE": "fast"}).set_workdir("/srv/app")
                .run_cmd("echo \"$GREETING by $(whoami) in $PWD\" > /srv/app/built; echo printed; echo problem >&2")
                .set_user("root").run_cmd("whoami > /etc/built-by").run_cmd("whoami > /srv/app/again", user="user").make_dir("/srv/more", user="root"))
    info = e2b.Template.build(template, "tools:v1", tags=["stable", "default"], cpu_count=1, memory_mb=512, on_build_logs=logs.append)
    return info, logs


@pytest.mark.method("E2B Python 2.63", "Template.build", "Template.from_template", differs="No images of registries: refused with a sentence.")
def test_a_template_is_built_and_used(e2b, built):
    info, logs = built
    assert (info.template_id, info.name, info.tags) == ("tools:v1", "tools:v1", ["v1", "stable"])
    messages = {entry.message: entry.level for entry in logs}
    assert messages["printed"] == "info" and messages["problem"] == "warn"
    for name in ("tools", "tools:v1", "tools:stable", "e2b/tools:default", info.template_id):
        with e2b.Sandbox.create(name, timeout=60) as made:
            assert made.files.read("/srv/app/built") == "grüße by user in /srv/app\n"
            assert made.files.read("/etc/built-by") == "root\n" and made.files.read("/srv/app/again") == "user\n"
            assert made.commands.run("echo $GREETING $MODE").stdout == "grüße fast\n" and made.get_info().memory_mb == 512


@pytest.mark.method("E2B Python 2.63", "Template.build")
def test_a_step_that_fails_is_told_with_its_line(e2b):
    template = e2b.Template().from_template("minimal").set_envs({"A": "1"}).run_cmd("true")
    template = template.run_cmd("echo so far; exit 7")  # this line
    with pytest.raises(e2b.BuildException, match="step 3 of 3 failed: it exited with 7") as failed:
        e2b.Template.build(template, "broken")
    frame = failed.traceback[-1]
    assert "test_e2b_control_templates.py" in str(frame.path) and "this line" in str(frame.statement)
    assert not e2b.Template.exists("broken")
    with pytest.raises(e2b.BuildException, match="no template|nothing-like-it"):
        e2b.Template.build(e2b.Template().from_template("nothing-like-it").run_cmd("true"), "broken")
    with pytest.raises(e2b.BuildException, match="step 1 of 1 failed"):
        e2b.Template.build(e2b.Template().from_template("minimal").set_user("nobody-like-it"), "broken")


@pytest.mark.method("E2B Python 2.63", "Template.build_in_background", "Template.get_build_status")
def test_a_build_goes_on_by_itself(e2b):
    info = e2b.Template.build_in_background(e2b.Template().from_template("minimal").run_cmd("seq 300; sleep 1"), "background")
    seen, status = [], None
    while status is None or status.status.value in ("waiting", "building") or status.log_entries:
        status = e2b.Template.get_build_status(info, logs_offset=len(seen))
        assert len(status.log_entries) <= 100 and status.build_id == info.build_id
        seen += [entry.message for entry in status.log_entries]
    assert status.status.value == "ready" and [line for line in seen if line.isdigit()] == [str(i) for i in range(1, 301)]
    with pytest.raises(e2b.BuildException):
        e2b.Template.get_build_status(e2b.template.types.BuildInfo(template_id="background", build_id="00000000-0000-0000-0000-000000000000", alias="x", name="x", tags=[]))


@pytest.mark.method("E2B Python 2.63", "Template.exists", "Template.alias_exists", "Template.get_tags", "Template.assign_tags", "Template.remove_tags")
def test_names_and_tags(e2b, built):
    info, _ = built
    assert e2b.Template.exists("tools") and e2b.Template.alias_exists("tools:v1") and e2b.Template.exists("code-interpreter") and not e2b.Template.exists("none")

    def tags():
        return {tag.tag: tag.build_id for tag in e2b.Template.get_tags("tools")}

    assert tags() == {tag: info.build_id for tag in ("v1", "stable", "default")}
    given = e2b.Template.assign_tags("tools:v1", ["production", "v2"])
    assert given.build_id == info.build_id and given.tags == ["production", "v2"] and "production" in tags()
    with e2b.Sandbox.create("tools:production", timeout=60) as made:
        assert made.files.exists("/srv/app/built")
    e2b.Template.remove_tags("tools", ["production", "v2"])
    assert sorted(tags()) == ["default", "stable", "v1"]
    for call in (lambda: e2b.Template.assign_tags("tools:none", "x"), lambda: e2b.Template.remove_tags("tools", "none"), lambda: e2b.Template.get_tags("none")):
        with pytest.raises(e2b.TemplateException, match="no template"):
            call()


@pytest.mark.method("E2B Python 2.63", "Template.build")
def test_what_a_template_starts_runs_in_every_sandbox_from_the_first_moment(e2b):
    begin = e2b.Template().from_template("minimal").set_envs({"GREETING": "hello"}).make_dir("/srv/www", user="root").set_user("root").set_workdir("/srv/www").run_cmd("echo page > page")
    logs = []
    serve = "echo \"$GREETING from $(whoami)\" > said; exec python3 -u -m http.server 8000"
    for number, ready in enumerate((e2b.wait_for_port(8000), e2b.wait_for_url("http://localhost:8000/page"), e2b.wait_for_process("python3"))):
        e2b.Template.build(begin.set_start_cmd(serve, ready), f"starting:v{number}", on_build_logs=logs.append)
        with e2b.Sandbox.create("starting", timeout=60) as made:
            running = [process for process in made.commands.list() if "http.server" in " ".join([process.cmd, *process.args])]
            assert len(running) == 1 and made.commands.run("cat /srv/www/said").stdout == "hello from root\n"
            if number < 2:  # that there is a process does not mean that it listens
                assert made.commands.run("curl -sf localhost:8000/page").stdout == "page\n"
            made.commands.kill(running[0].pid)
    assert any("\"GET /page HTTP/1.1\" 200" in entry.message for entry in logs), "what it prints is in the build's log"


@pytest.mark.method("E2B Python 2.63", "Template.build", "Template.from_template")
def test_a_ready_command_alone_is_waited_for_and_one_upon_it_inherits_what_it_starts(e2b):
    e2b.Template.build(e2b.Template().from_template("minimal").run_cmd("touch ready").set_ready_cmd(e2b.wait_for_file("/home/user/ready")), "only-ready")
    e2b.Template.build(e2b.Template().from_template("only-ready").set_start_cmd("exec sleep 86399", e2b.wait_for_timeout(1000)), "sleeping")
    e2b.Template.build(e2b.Template().from_template("sleeping").run_cmd("touch upon"), "upon-sleeping")
    for name, expected in (("only-ready", "0\n"), ("sleeping", "1\n"), ("upon-sleeping", "1\n")):
        with e2b.Sandbox.create(name, timeout=60) as made:
            assert made.commands.run("ls ready; pgrep -f 'sleep 8639[9]' | wc -l").stdout == f"ready\n{expected}"


@pytest.mark.method("E2B Python 2.63", "Template.build")
def test_a_start_command_that_fails_is_told_with_what_it_said(e2b):
    template = e2b.Template().from_template("minimal").run_cmd("true")
    template = template.set_start_cmd("echo no such thing >&2; exit 9", e2b.wait_for_port(8000))  # this line
    with pytest.raises(e2b.BuildException, match="the start command failed before it was ready: it exited with 9(.|\n)*no such thing") as failed:
        e2b.Template.build(template, "never")
    assert "this line" in str(failed.traceback[-1].statement)
    assert not e2b.Template.exists("never")


@pytest.mark.method("E2B Python 2.63", "Template.from_base_image", "Template.to_json", "Template.to_dockerfile")
def test_their_own_image_is_what_is_called_so_here(e2b):
    template = e2b.Template().from_base_image().set_workdir("/srv/app").run_cmd("python3 -c 'import numpy; print(numpy.__version__)' > version")
    assert "e2bdev/base" in e2b.Template.to_json(template) and "WORKDIR /srv/app" in e2b.Template.to_dockerfile(template)
    e2b.Template.build(template, "upon-base")
    with e2b.Sandbox.create("upon-base", timeout=60) as made:
        assert made.files.read("/srv/app/version")[0].isdigit()
    with pytest.raises(e2b.BuildException, match="a template that everybody has"):
        e2b.Template.build(template, "code-interpreter")


@pytest.mark.method("E2B Python 2.63", "Template.from_template")
def test_a_template_may_be_its_base_under_another_name(e2b):
    built = e2b.Template.build(e2b.Template().from_template("minimal"), "only-a-name:v1")
    assert e2b.Template.get_build_status(built).status.value == "ready"
    with e2b.Sandbox.create("only-a-name:v1", timeout=60) as made:
        assert made.commands.run("pwd").stdout == "/home/user\n"


def test_commands_and_terminals_start_in_the_templates_folder(e2b):
    e2b.Template.build(e2b.Template().from_template("minimal").set_workdir("/srv/app").run_cmd("mkdir -p ~/sub /srv/app/sub"), "with-folder")
    with e2b.Sandbox.create("with-folder", timeout=60) as made:
        fork, = made.fork()
        for box in (made, fork):
            assert box.commands.run("pwd").stdout == "/srv/app\n" and box.commands.run("pwd", user="root").stdout == "/srv/app\n"
            # What is relative is so to the home of whoever asks, as files are.
            assert box.commands.run("pwd", cwd="sub").stdout == "/home/user/sub\n" and box.commands.run("pwd", cwd="~").stdout == "/home/user\n"
        fork.kill()
        terminal = made.pty.create(e2b.PtySize(24, 80))
        made.pty.send_stdin(terminal.pid, b"pwd > /tmp/where; exit\n")
        terminal.wait()
        assert made.files.read("/tmp/where") == "/srv/app\n"
    e2b.Template.build(e2b.Template().from_template("with-folder"), "with-folder-again")
    with e2b.Sandbox.create("with-folder-again", timeout=60) as made:
        assert made.commands.run("pwd").stdout == "/srv/app\n"


@pytest.mark.method("E2B Python 2.63", "Template.from_image", "Template.from_python_image", "Template.from_node_image", "Template.from_bun_image", "Template.from_debian_image",
        "Template.from_ubuntu_image", "Template.from_alpine_image", "Template.from_fedora_image", "Template.from_arch_image", "Template.from_aws_registry",
        "Template.from_gcp_registry", "Template.from_dockerfile", differs="Images of registries are not fetched: a template begins with another one.")
def test_images_of_registries_are_refused(e2b):
    begin = e2b.Template()
    for template in (begin.from_image("registry.example/x:1"), e2b.Template().from_python_image("3"), e2b.Template().from_node_image(), e2b.Template().from_bun_image(),
                     e2b.Template().from_debian_image(), e2b.Template().from_ubuntu_image(), e2b.Template().from_alpine_image(), e2b.Template().from_fedora_image(),
                     e2b.Template().from_arch_image(), e2b.Template().from_aws_registry("x", "a", "b", "c"),
                     e2b.Template().from_gcp_registry("x", {"a": "b"}), e2b.Template().from_dockerfile("FROM python:3\nRUN true\n")):
        with pytest.raises(e2b.BuildException, match="images of registries are not fetched here"):
            e2b.Template.build(template.run_cmd("true"), "never")
    assert not e2b.Template.exists("never")


@pytest.mark.method("E2B Python 2.63", "Secret.fill", "Secret.iam_token")
def test_what_is_only_written_down_is_refused_where_it_is_used(e2b):
    assert e2b.Secret.fill("name") == "${e2b.secrets.name}"
    token = e2b.Secret.iam_token(audience="somebody", token_type="JWT-SVID")
    with pytest.raises(e2b.SandboxException, match="no workload identities"):
        e2b.Sandbox.create("minimal", iam={"tokens": {"aws": token}})
    with pytest.raises(e2b.SandboxException, match="no transforms"):
        e2b.Sandbox.create("minimal", network={"rules": {"example.com": [{"transform": {"headers": {"Authorization": e2b.Secret.fill("name")}}}]}})


@pytest.mark.method("E2B Python 2.63", "Volume.create", "Volume.connect", "Volume.list", "Volume.get_info", "Volume.destroy", "Volume.exists", "Volume.make_dir",
                    "Volume.read_file", "Volume.write_file", "Volume.remove", "Volume.update_metadata", "Secret.create", "Secret.update", "Secret.get_info",
        "Secret.list", "Secret.exists", "Secret.destroy", differs="There are none yet: each call is refused with a sentence.")
def test_volumes_and_secrets_are_refused(e2b, daemon):
    for call in (lambda: e2b.Volume.create("data"), lambda: e2b.Volume.connect("data"), e2b.Volume.list, lambda: e2b.Volume.get_info("data"), lambda: e2b.Volume.destroy("data")):
        with pytest.raises(e2b.exceptions.VolumeException, match="no volumes here yet"):
            call()
    volume = e2b.Volume("data", "data", token="token")
    there = {"api_url": daemon.url}
    for call in (lambda: volume.exists("/x", **there), lambda: volume.make_dir("/x", **there), lambda: volume.read_file("/x", **there), lambda: volume.list("/", **there),
                 lambda: volume.write_file("/x", b"data", **there), lambda: volume.remove("/x", **there), lambda: volume.update_metadata("/x", mode=0o600, **there)):
        with pytest.raises(e2b.exceptions.VolumeException, match="no volumes here yet"):
            call()
    for call in (lambda: e2b.Secret.create("name", "value"), lambda: e2b.Secret.update("name", "value"), lambda: e2b.Secret.get_info("name"),
                 lambda: e2b.Secret.list().next_items(), lambda: e2b.Secret.exists("name"), lambda: e2b.Secret.destroy("name")):
        with pytest.raises(e2b.exceptions.SecretException, match="no secrets are kept here yet"):
            call()


def test_two_projects_have_templates_of_their_own(e2b, built, daemon):
    info, _ = built
    other = {"api_key": add_key(daemon, "e2bothers", role="admin", form="e2b")}
    assert not e2b.Template.exists("tools", **other) and e2b.Sandbox.delete_snapshot("tools", **other) is False
    for call in (lambda: e2b.Template.get_tags("tools", **other), lambda: e2b.Template.assign_tags("tools:v1", "theirs", **other),
                 lambda: e2b.Template.remove_tags("tools", "v1", **other)):
        with pytest.raises(e2b.TemplateException, match="no template"):
            call()
    with pytest.raises(e2b.BuildException):
        e2b.Template.get_build_status(info, **other)
    with pytest.raises(e2b.SandboxException, match="no template"):
        e2b.Sandbox.create("tools", **other)


@pytest.mark.method("E2B Python 2.63", "Template.skip_cache")
def test_a_template_is_built_again_and_deleted(e2b, daemon):
    client = daemon.client(os.environ["E2B_API_KEY"])
    for begin in (e2b.Template(), e2b.Template(), e2b.Template().skip_cache()):
        e2b.Template.build(begin.from_template("minimal").run_cmd("true"), "short-lived")
    assert [build["cached"] for build in client.call("GET", "/v1/templates/builds?name=short-lived")] == [False, True, False]
    assert client.ask("DELETE", "/templates/e2b%2Fshort-lived%3Adefault").status == 204 and not e2b.Template.exists("short-lived")
    assert client.ask("DELETE", "/templates/short-lived").status == 404
