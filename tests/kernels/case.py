# SPDX-License-Identifier: Apache-2.0
"""A case of the table: a sentence, cells, and what the last cell's execution must be."""
from dataclasses import dataclass, field
from typing import Callable


@dataclass(frozen=True)
class Case:
    says: str
    cells: str | list
    stdout: str | None = None
    stderr: str | None = None
    result: str | None = None  # text/plain of the main result; "" for none
    error: str | None = None  # error_name; every other case must succeed
    exit_code: int | None = None  # where it is neither 0 nor an error's 1
    has: tuple = ()  # texts that must be in stdout, stderr, results or error
    mimes: tuple = ()  # of which one result must have all
    files: tuple = ()
    needs: tuple = ()  # modules or programs of the image
    check: Callable | None = None  # of the execution; its answer must be true
    options: dict = field(default_factory=dict)

    def verify(self, execution):
        assert execution.get("error_name") == self.error, execution
        expected = self.exit_code if self.exit_code is not None else 1 if self.error else 0
        assert execution["exit_code"] == expected, execution
        if self.stdout is not None:
            assert execution["stdout"] == self.stdout, execution
        if self.stderr is not None:
            assert execution["stderr"] == self.stderr, execution
        if self.result is not None:
            shown = [bundle.get("text/plain", "") for bundle in execution["results"]][-1:] or [""]
            assert shown[0] == self.result, execution
        everything = "\n".join([execution["stdout"], execution["stderr"], repr(execution["results"]), execution.get("error", "")])
        for text in self.has:
            assert text in everything, (text, execution)
        if self.mimes:
            assert any(set(self.mimes) <= set(bundle) for bundle in execution["results"]), [list(b) for b in execution["results"]]
        if self.files:
            assert sorted(one["path"] for one in execution["files"]) == sorted(self.files), execution
        if self.check is not None:
            assert self.check(execution), execution


def main(execution):
    """The main result's text."""
    return execution["results"][-1]["text/plain"]


def chart(execution):
    return next(b["application/vnd.vial.chart+json"] for b in execution["results"] if "application/vnd.vial.chart+json" in b)


def data(execution):
    return next(b["application/vnd.vial.data+json"] for b in execution["results"] if "application/vnd.vial.data+json" in b)
