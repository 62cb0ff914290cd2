# SPDX-License-Identifier: Apache-2.0
"""docs/compatibility.md, made from the tests: python3 tests/clients/compatibility.py > docs/compatibility.md

A test says which methods of which SDK it shows: @pytest.mark.method("E2B Python 2.63", "Sandbox.create"), or by the name that test files have for that mark,
@covers(…), and where the answer is not the hosted service's, `differs="how, and why"`. Nothing else gets onto the page, and test_compatibility.py fails where the page is not what this file makes of the tests: so what is
written there as working has a test that passes. methods.json lists what the Python packages have (sdks.py), so that a method without a test is
seen, too.
"""

import ast
import json
import sys
from pathlib import Path

CLIENTS = Path(__file__).resolve().parent
METHODS = CLIENTS / "methods.json"
DOCS = CLIENTS.parents[1] / "docs"
COMMAND = "python3 tests/clients/compatibility.py > docs/compatibility.md"

HEAD = """# Compatibility

What the SDKs of other services do against Vial: every method, by name. **This page is made from the tests** (`{command}`): *works* means that
a test calls the method with the real package and checks what comes of it; *differs* says what is not as at the hosted service, and why. How each is pointed at
Vial is on its own page: {pages}.
"""


def constant(node, texts):
    """What a node says without being run: a plain text, or the name of one of the file's own; None for anything else."""
    if isinstance(node, ast.Name):
        return texts.get(node.id)
    try:
        return ast.literal_eval(node)
    except ValueError:
        return None


def texts_of(tree):
    """{name: text} of the constants at the top of a file."""
    assigned = [(node.targets[0].id, constant(node.value, {})) for node in tree.body if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)]
    return {name: value for name, value in assigned if isinstance(value, str)}


def marks_of(path):
    """(sdk, method, differs) of each mark in a file, without running it: its SDK need not be installed."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    texts = texts_of(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("pytest.mark.method", "covers"):
            words = [constant(argument, texts) for argument in node.args]
            differs = next((constant(keyword.value, texts) for keyword in node.keywords if keyword.arg == "differs"), None)
            if not words or not all(isinstance(word, str) for word in words) or (node.keywords and not isinstance(differs, str)):
                raise SystemExit(f"{path.name}:{node.lineno}: a mark of a method has plain texts: the SDK, its methods, and maybe differs")
            for method in words[1:]:
                yield words[0], method, differs


def shown():
    """{sdk: {method: [differs, ...]}}; an empty list: it works."""
    found = {}
    for path in sorted(CLIENTS.glob("test_*.py")):
        for sdk, method, differs in marks_of(path):
            notes = found.setdefault(sdk, {}).setdefault(method, [])
            if differs and differs not in notes:
                notes.append(differs)
    return found


def known():
    """{sdk: [method, ...]} as the packages themselves say (test_compatibility.py looks)."""
    return json.loads(METHODS.read_text(encoding="utf-8"))


def page():
    pages = [name for name in ("pandastack", "podflare", "e2b", "openai-agents") if (DOCS / f"{name}.md").exists()]
    lines = [HEAD.format(command=COMMAND, pages=", ".join(f"[{name}]({name}.md)" for name in pages))]
    listed, tested = known(), shown()
    for sdk in sorted(set(listed) | set(tested)):
        methods = tested.get(sdk, {})
        names = sorted(set(methods) | set(listed.get(sdk, [])))
        differing = [name for name in names if methods.get(name)]
        untested = [name for name in names if name not in methods]
        lines.append(f"## {sdk}\n")
        lines.append(f"{len(names)} methods: {len(names) - len(differing) - len(untested)} work, {len(differing)} differ"
                     + (f", {len(untested)} have no test" if untested else "") + ".\n")
        lines.append("| method | | |\n|---|---|---|")
        for name in names:
            how = "not tested" if name in untested else "differs" if methods[name] else "works"
            lines.append(f"| `{name}` | {how} | {' '.join(methods.get(name, [])).replace('|', chr(92) + '|')} |")
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(page())
