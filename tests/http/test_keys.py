# SPDX-License-Identifier: Apache-2.0
"""The admin key, from outside."""

import subprocess


def test_the_admin_key_works_and_is_replaced_by_deleting_its_file(start, tmp_path):
    server = start("--data", tmp_path)
    file = tmp_path / "keys/admin.key"
    first = file.read_text().strip()
    assert file.stat().st_mode & 0o777 == 0o600 and file.parent.stat().st_mode & 0o777 == 0o700
    assert first.startswith("vial_") and len(first) == 45
    assert server.ask("GET", "/v1/hello", key=first).status == 200
    assert server.ask("GET", "/v1/hello", key=first[:-1]).status == 401
    assert server.ask("GET", "/v1/hello", key=first + "x").status == 401
    assert server.ask("GET", "/v1/hello", key=first.upper()).status == 401
    server.stop()

    server = start("--data", tmp_path)
    assert file.read_text().strip() == first
    assert server.ask("GET", "/v1/hello", key=first).status == 200
    server.stop()

    file.unlink()
    server = start("--data", tmp_path)
    second = file.read_text().strip()
    assert second != first
    assert server.ask("GET", "/v1/hello", key=second).status == 200
    assert server.ask("GET", "/v1/hello", key=first).status == 401
    server.stop()


def test_the_key_is_nowhere_but_in_its_file(start, tmp_path):
    server = start("--data", tmp_path)
    key = (tmp_path / "keys/admin.key").read_text().strip().encode()
    server.stop()
    holders = [path.name for path in tmp_path.rglob("*") if path.is_file() and key in path.read_bytes()]
    assert holders == ["admin.key"]
    assert all(path.stat().st_mode & 0o077 == 0 for path in tmp_path.rglob("*"))


def test_the_key_is_not_in_the_log(start, tmp_path):
    program = start("--data", tmp_path, "--log", "debug").process.args[0]
    (tmp_path / "b").mkdir()
    process = subprocess.Popen([program, "--data", tmp_path / "b", "--log", "debug"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    from rawhttp import ask
    address = process.stdout.readline().strip().removeprefix("http://").split(":")
    key = (tmp_path / "b/keys/admin.key").read_text().strip()
    assert ask((address[0], int(address[1])), "GET", "/v1/hello?path=x", key=key).status == 200
    assert ask((address[0], int(address[1])), "GET", "/v1/hello", key="vial_guess").status == 401
    process.terminate()
    log = process.communicate(timeout=10)[1]
    assert "request answered" in log and key not in log and "vial_guess" not in log
