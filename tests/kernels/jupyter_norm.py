# SPDX-License-Identifier: Apache-2.0
"""Runs cells through the real Jupyter of an image: jupyter_norm.py CELLS.json, a list of texts; prints a list of what a notebook shows for each.

It is written into a sandbox and run there (test_fidelity.py). Outputs are replaced and cleared as a notebook's front end does it.
"""
import json
import sys

from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import KernelManager

TIMEOUT_S = 60


def start():
    manager = KernelManager()
    manager._kernel_spec = KernelSpec(argv=[sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"], language="python")
    manager.start_kernel()
    client = manager.client()
    client.start_channels()
    client.wait_for_ready(timeout=TIMEOUT_S)
    return manager, client


class Output:
    def __init__(self):
        self.clear()
        self.error_name = None

    def clear(self):
        self.text = {"stdout": "", "stderr": ""}
        self.shown = []
        self.is_clearing = False

    def take(self, kind, content):
        if self.is_clearing and kind in ("stream", "display_data", "execute_result"):
            self.clear()
        if kind == "stream":
            self.text[content["name"]] += content["text"]
        elif kind in ("display_data", "execute_result"):
            self.shown.append((content.get("transient", {}).get("display_id"), content["data"]))
        elif kind == "update_display_data":
            name = content["transient"]["display_id"]
            self.shown = [(one, content["data"] if one == name else data) for one, data in self.shown]
        elif kind == "clear_output":
            if content["wait"]:
                self.is_clearing = True
            else:
                self.clear()

    def as_json(self):
        results = [{"mimes": sorted(data), "text": data.get("text/plain")} for _, data in self.shown]
        return {**self.text, "results": results, "error_name": self.error_name}


def run(client, code):
    output = Output()
    message = client.execute(code, allow_stdin=False)
    while True:
        answer = client.get_iopub_msg(timeout=TIMEOUT_S)
        if answer["parent_header"].get("msg_id") != message:
            continue
        kind, content = answer["msg_type"], answer["content"]
        if kind == "status" and content["execution_state"] == "idle":
            break
        output.take(kind, content)
    reply = None
    while reply is None or reply["parent_header"].get("msg_id") != message:
        reply = client.get_shell_msg(timeout=TIMEOUT_S)
    reply = reply["content"]
    if reply["status"] == "error":
        output.error_name = reply["ename"]
    return output.as_json()


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        cells = json.load(file)
    manager, client = start()
    try:
        print(json.dumps([run(client, cell) for cell in cells]))
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


main()
