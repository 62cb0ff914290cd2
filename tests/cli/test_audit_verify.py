# SPDX-License-Identifier: Apache-2.0
"""`vial audit verify FILE --key PUBLIC`: offline, with nothing but the public key; the first record that is wrong is named."""

import json
import subprocess

import pytest
from conftest import BINARY
from ledger_maker import Export, Signer, compact


@pytest.fixture
def verify(tmp_path):
    """verify(export) → (exit status, the verdict as JSON or the error's sentence)."""

    def run(export, *options, key=None, name="export.jsonl", text=None, stdin=None):
        (tmp_path / "audit.pub").write_bytes((key or export.signer).pem())
        path = tmp_path / name
        path.write_text(export.text() if text is None else text)
        # No viald is there, and no key of one.
        done = subprocess.run([BINARY, "audit", "verify", "-" if stdin else path, "--key", tmp_path / "audit.pub", "--json", *options], text=True,
                              capture_output=True, timeout=60, input=path.read_text() if stdin else None, stdin=None if stdin else subprocess.DEVNULL,
                              env={"PATH": "/usr/bin", "VIAL_URL": "http://127.0.0.1:1", "VIAL_DATA": "/nonexistent"})
        assert "Traceback" not in done.stderr and done.returncode in (0, 1), done
        return done.returncode, json.loads(done.stdout or done.stderr)

    return run


def finding(verdict):
    status, json_ = verdict
    assert status == (0 if json_.get("ok") else 1)
    return json_["finding"], json_["seq"]


def test_what_nobody_touched_is_good(verify):
    status, verdict = verify(Export(12))
    assert status == 0 and verdict["ok"]
    assert (verdict["first"], verdict["records"], verdict["bodies"], verdict["heads"], verdict["signed_through"]) == (1, 12, 12, 3, 12)


def test_it_is_said_in_a_sentence_too(tmp_path):
    export = Export(12)
    (tmp_path / "e").write_text(export.text())
    done = subprocess.run([BINARY, "audit", "verify", tmp_path / "e", "--key", export.signer.hex], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.startswith("good: records 1 to 12 ") and "the last at record 12" in done.stdout


def test_standard_input_can_be_verified(verify):
    assert verify(Export(12), stdin=True)[1]["records"] == 12


def test_records_of_others_and_removed_bodies_do_not_break_the_chain(verify):
    export = Export(12)
    for seq in (1, 6, 7, 12):
        export.hide(seq)
    export.without_body(3)
    status, verdict = verify(export)
    assert status == 0 and (verdict["records"], verdict["bodies"]) == (12, 7)


def test_an_export_may_begin_in_the_middle(verify):
    whole = Export(20)
    part = Export(8, signer=whole.signer, first=13, previous=whole.digests[12])
    status, verdict = verify(part)
    assert status == 0 and (verdict["first"], verdict["records"], verdict["signed_through"]) == (13, 8, 20)


@pytest.mark.parametrize("seq", [1, 5, 6, 12])
@pytest.mark.parametrize("old, new", [('"exit_code":0', '"exit_code":1'), ('"name":"agents"', '"name":"nobody"'), ('"time":"2026', '"time":"2025')])
def test_a_changed_header_is_named(verify, seq, old, new):
    export = Export(12)
    export.lines[export.at(seq)] = export.lines[export.at(seq)].replace(old, new)
    assert finding(verify(export)) == ("changed", seq)


@pytest.mark.parametrize("seq", [1, 6, 12])
def test_a_changed_body_is_named(verify, seq):
    export = Export(12)
    export.lines[export.at(seq)] = export.lines[export.at(seq)].replace("read_csv", "read_sql")
    assert finding(verify(export)) == ("body_changed", seq)


@pytest.mark.parametrize("seq", [3, 6, 12])
def test_every_byte_of_a_record_counts(verify, seq):
    """Bytes all over the line are changed in turn: there is none that may change unseen."""
    whole = Export(12)
    at = whole.at(seq)
    line = whole.lines[at]
    for place in range(seq % 10, len(line), 29):
        whole.lines[at] = line[:place] + ("x" if line[place] != "x" else "y") + line[place + 1:]
        verdict = verify(whole)
        assert verdict[0] == 1 and finding(verdict)[1] == seq, (place, line[place - 5:place + 5], verdict)
    whole.lines[at] = line
    assert verify(whole)[0] == 0


@pytest.mark.parametrize("seq", [1, 3, 7, 11])
def test_a_removed_record_is_named(verify, seq):
    export = Export(12, every=12)
    del export.lines[export.at(seq)]
    assert finding(verify(export)) == ("removed", seq)


def test_several_removed_records_are_named(verify):
    export = Export(12, every=12)
    del export.lines[export.at(4):export.at(8)]
    status, verdict = verify(export)
    assert status == 1 and (verdict["finding"], verdict["seq"], verdict["until"]) == ("removed", 4, 7)


@pytest.mark.parametrize("seq", [2, 6, 11])
def test_an_inserted_record_is_named(verify, seq):
    """A record that was never written, with the number of the one it stands before."""
    export = Export(12, every=12)
    other = Export(12, signer=export.signer)
    other.add(seq, {"salt": "", "code": "innocent()"}, exit_code=7)
    export.lines.insert(export.at(seq), other.lines[-1])
    assert finding(verify(export)) == ("inserted", seq)


@pytest.mark.parametrize("seq", [1, 6, 10])
def test_two_exchanged_records_are_named(verify, seq):
    export = Export(12, every=12)
    here, there = export.at(seq), export.at(seq + 1)
    export.lines[here], export.lines[there] = export.lines[there], export.lines[here]
    assert finding(verify(export)) == ("reordered", seq)


@pytest.mark.parametrize("kept, first_missing", [(11, 12), (8, 9), (1, 2)])
def test_a_missing_end_is_told(verify, kept, first_missing):
    export = Export(12)
    del export.lines[export.at(kept) + 1:]
    assert finding(verify(export)) == ("cut", first_missing)


def test_an_end_cut_behind_a_head_is_told_by_heads_that_were_kept_elsewhere(verify, tmp_path):
    """Of the export alone nobody could know: that is what a second place is for."""
    export = Export(12)
    (tmp_path / "heads.jsonl").write_text("".join(compact(json.loads(line)["head"]) + "\n" for line in export.lines if line.startswith('{"head"')))
    del export.lines[export.at(10) + 2:]
    assert verify(export)[0] == 0
    status, verdict = verify(export, "--heads", tmp_path / "heads.jsonl")
    assert status == 1 and (verdict["finding"], verdict["seq"], verdict["until"]) == ("cut", 11, 12)


def test_a_history_written_anew_without_the_key_is_told(verify):
    """All hashes are right, and the heads are those of the true one."""
    true = Export(12)
    false = Export(0, signer=true.signer)
    for seq in range(1, 13):
        false.add(seq, exit_code=1 if seq == 7 else 0)
        if seq in (5, 10, 12):
            false.lines.append(next(line for line in true.lines if f'"seq":{seq},"hash"' in line))
    assert finding(verify(false)) == ("rewritten", 6)


def test_a_history_written_anew_without_heads_is_told(verify):
    false = Export(12)
    false.lines = [line for line in false.lines if not line.startswith('{"head"')]
    assert finding(verify(false)) == ("cut", 13)


def test_a_history_signed_with_another_key_is_told(verify):
    true = Signer()
    false = Export(12)
    assert finding(verify(false, key=true)) == ("forged", 5)


def test_a_wrong_key_is_told_with_a_hint(tmp_path):
    export = Export(3)
    (tmp_path / "e").write_text(export.text())
    done = subprocess.run([BINARY, "audit", "verify", tmp_path / "e", "--key", Signer().hex], capture_output=True, text=True)
    assert done.returncode == 1 and done.stdout == "NOT GOOD: the head at record 3 is not signed with this key\n"
    assert export.signer.hex in done.stderr and "is --key the right one?" in done.stderr


def test_former_keys_verify_what_they_signed(verify, tmp_path):
    former, now = Signer(), Signer()
    export = Export(5, signer=former)
    for seq in range(6, 11):
        export.add(seq)
    export.sign(10, now)
    (tmp_path / "audit.former").write_text(Signer().hex + "\n" + former.hex + "\n")
    assert finding(verify(export, key=now)) == ("forged", 5)
    assert verify(export, "--key", tmp_path / "audit.former", key=now)[0] == 0


def test_the_head_of_another_chain_does_not_count(verify):
    export = Export(5)
    other = Export(5, signer=export.signer, chain="another")
    export.lines[-1] = other.lines[-1]
    assert finding(verify(export)) == ("forged", 5)


def test_a_title_that_lies_about_the_beginning_is_told(verify):
    export = Export(12)
    title = json.loads(export.lines[0])
    export.lines[0] = compact(title | {"first": 3, "previous": export.digests[2].hex()})
    assert finding(verify(export))[0] != "good"
    export.lines[0] = compact(title | {"previous": "0" * 64})  # hash(0) follows from the chain's name
    assert verify(export)[0] == 0
    export.lines[0] = compact(title | {"chain": "another"})
    assert verify(export)[0] == 1


@pytest.mark.parametrize("cut", [1, 20, 200])
def test_a_line_that_breaks_off_is_told(verify, cut):
    export = Export(12)
    text = "".join(line + "\n" for line in export.lines[:export.at(9) + 1])
    assert finding(verify(export, text=text[:-1 - cut])) == ("cut", 9)


def test_garbage_between_the_lines_is_told(verify):
    export = Export(12, every=12)
    export.lines.insert(export.at(7), "what is this?")
    assert finding(verify(export)) == ("changed", 7)
    export.lines[export.at(7) - 1] = export.lines[0]  # a second title is none either
    assert finding(verify(export)) == ("changed", 7)
    export.lines[export.at(7) - 1] = ""
    assert finding(verify(export)) == ("changed", 7)


def test_the_first_thing_that_is_wrong_counts(verify):
    export = Export(12, every=12)
    export.lines[export.at(5)] = export.lines[export.at(5)].replace('"exit_code":0', '"exit_code":1')
    export.lines.insert(export.at(6), "garbage")
    del export.lines[export.at(9)]
    assert finding(verify(export)) == ("changed", 5)


@pytest.mark.parametrize("text, words", [("", "is empty"), ("\n", "no export"), ("hello\n", "no export"), ("\0\xff" * 5000, "no export"), ("{}\n", "no export"),
                                         ('{"vial_audit":1,"chain":"c","first":9223372036854775807,"previous":"' + "0" * 64 + '","public_key":"' + "0" * 64 + '"}\n', "no export"),
                                         ('{"vial_audit":2,"chain":"x"}\n', "no export"), ('{"record":{}}\n', "no export")])
def test_what_is_no_export_is_told(verify, text, words):
    status, answer = verify(Export(1), text=text)
    assert status == 1 and words in answer["error"]


def test_a_title_alone_proves_nothing(verify):
    export = Export(12)
    status, answer = verify(export, text=export.lines[0] + "\n")
    assert status == 1 and "no record in it" in answer["error"]


@pytest.mark.parametrize("args, words", [(["audit", "verify", "nosuch", "--key", "nokey"], "nokey"), (["audit", "verify", "nosuch", "--key", "0" * 64], "cannot be read"),
                                         (["audit", "verify", ".", "--key", "0" * 64], "cannot be read"), (["audit", "verify", "e", "--key", "text"], "no public key"),
                                         (["audit", "verify", "e", "--key", "0" * 64, "--heads", "text"], "no signed head")])
def test_files_that_are_not_what_they_should_be_are_one_sentence(args, words, tmp_path):
    (tmp_path / "text").write_text("just text\n")
    (tmp_path / "e").write_text(Export(3).text())
    done = subprocess.run([BINARY, *args], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 1 and words in done.stderr and done.stdout == "" and done.stderr.count("\n") == 1


@pytest.mark.parametrize("args, words", [(["audit", "verify", "e"], "--key"), (["audit", "verify", "--key", "x"], "name the FILE")])
def test_what_is_missing_is_said(args, words):
    done = subprocess.run([BINARY, *args], capture_output=True, text=True)
    assert done.returncode == 2 and words in done.stderr


def test_many_records_need_no_more_memory_than_few(tmp_path):
    """40 000 records are 34 MB; with all but the last of them read, the verifier has less than that in use."""
    export = Export(40000, every=1000)
    text = export.text().encode()
    assert len(text) > 32 << 20
    child = subprocess.Popen([BINARY, "audit", "verify", "-", "--key", export.signer.hex], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    child.stdin.write(text[:-10])
    child.stdin.flush()
    with open(f"/proc/{child.pid}/status") as status:
        peak_kb = next(int(line.split()[1]) for line in status if line.startswith("VmHWM:"))
    output, _ = child.communicate(text[-10:])
    assert child.returncode == 0 and b"records 1 to 40000" in output
    assert peak_kb < 28 << 10
