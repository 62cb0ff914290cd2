# SPDX-License-Identifier: Apache-2.0
"""From steps or a Dockerfile to a template that sandboxes are made of."""

from tools import out, run

DOCKERFILE = """\
# what the checks below look for
ARG WHO=nobody
ENV GREETING="hello ${WHO}" \\
    OTHER=two
WORKDIR /srv/app
RUN echo "$WHO" > who && \\
    # a comment in between
    id -u > uid
RUN ["/bin/sh", "-c", "pwd > where"]
RUN <<EOF
printf '%s\\n' one two > lines
EOF
WORKDIR data
"""


def test_a_dockerfile_becomes_a_template_whose_sandboxes_have_its_files_environment_and_folder(builder):
    build = builder.build("docker", dockerfile=DOCKERFILE, args={"WHO": "world"})
    assert build["steps_total"] == 6 and build["layer_bytes"] > 0
    sandbox = builder.client.create("docker")
    assert sandbox.info["template"] == "docker" and sandbox.info["boot_mode"] == "restore"
    assert out(sandbox, "cat /srv/app/who /srv/app/uid /srv/app/where /srv/app/lines") == "world\n0\n/srv/app\none\ntwo\n"
    assert out(sandbox, "echo $GREETING $OTHER; pwd; echo ${WHO-unset}") == "hello world two\n/srv/app/data\nunset\n"
    assert run(sandbox, "import os; print(os.getcwd(), os.environ['OTHER'])")["stdout"] == "/srv/app/data two\n"
    sandbox.delete()


def test_steps_become_a_template_as_well_and_their_values_are_taken_literally(builder):
    builder.build("steps", steps=[{"env": {"A": "$HOME"}}, {"workdir": "/opt/x"}, {"run": "echo \"$A\" > a"}, {"run": ["touch", "b c"]}])
    sandbox = builder.client.create("steps")
    assert out(sandbox, "pwd; cat a; ls") == "/opt/x\n$HOME\na\nb c\n"
    assert out(sandbox, "touch mine && stat -c %U . && echo $A") == "user\n$HOME\n"
    sandbox.delete()


def test_warm_code_has_run_in_every_sandbox_before_it_starts(builder):
    builder.build("warm", steps=[{"run": "mkdir -p /opt/lib && echo 'answer = 42' > /opt/lib/mine.py"}],
                  warm="import sys; sys.path.append('/opt/lib'); import mine; found = mine.answer + 1")
    sandbox = builder.client.create("warm")
    assert run(sandbox, "print(found, 'mine' in sys.modules)")["stdout"] == "43 True\n"
    sandbox.delete()


def test_a_template_can_be_the_base_of_another(builder):
    builder.build("parent", steps=[{"run": "echo parent > /opt/parent; echo old > /opt/both"}, {"env": {"FROM": "parent", "BOTH": "old"}}])
    builder.build("child", base="parent", steps=[{"run": "cat /opt/parent > /opt/child; echo new > /opt/both; rm /opt/parent"}, {"env": {"BOTH": "new"}}])
    sandbox = builder.client.create("child")
    assert out(sandbox, "cat /opt/child /opt/both; ls /opt/parent 2>&1 | wc -l; echo $FROM $BOTH") == "parent\nnew\n1\nparent new\n"
    sandbox.delete()
