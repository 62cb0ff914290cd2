# SPDX-License-Identifier: Apache-2.0
"""Projects, keys, quotas, usage and records of the stand-in for viald: enough to see what the CLI makes of the answers, odd ones included.

Lists come in tiny pages. An export of a project that is called HOSTILE-… is odd in the way the name says."""

QUOTAS = {"max_sandboxes": 20, "max_vcpu": 8.5, "max_memory_mb": 65536, "max_snapshot_bytes": 20 << 30, "max_ttl_seconds": 86400,
          "network_modes": ["disabled", "filtered"], "tiers": ["2x4"]}
USED = {"sandboxes": 3, "vcpu": 6.0, "memory_mb": 6144, "disk_mb": 12288, "snapshot_bytes": 4096, "templates": 0, "created_last_hour": 3, "concurrent_runs": 1}
PAGE = 3


def key(number, **fields):
    return {"id": f"{number:020d}", "name": f"key-{number}", "project": "default", "role": "runner", "form": "vial", "hint": "vial_1234",
            "created_at": "2026-11-18T08:00:00.000Z", **fields}


def record(seq, **fields):
    return {"ledger": 1, "chain": "c", "seq": seq, "time": "2026-11-18T08:00:00.000Z", "action": "run", "outcome": "done", "project": "default",
            "principal": {"kind": "key", "id": "k", "name": "agents", "role": "runner"}, "sandbox": "s" * 20, "exit_code": 0,
            "body_sha256": "0" * 64, "body": {"salt": "0", "code": f"print({seq})\nprint('more')", "files": [{"path": "/workspace/x"}]}, "hash": "0" * 64, **fields}


class Governance:
    def __init__(self):
        self.role = "operator"
        self.projects = {"default": self.project("default")}
        self.keys = [key(n) for n in range(7)] + [key(7, name="twice"), key(8, name="twice", project="other"), key(9, name="two words")]
        self.records = [record(n) for n in range(1, 8)]
        self.verdict = {"ok": True, "finding": "good", "sentence": "7 records: all is well", "records": 7, "bodies": 7, "heads": 1, "signed_through": 7}
        self.unavailable = 0  # so many questions for records are answered with 503
        self.restarts = 0
        self.asked = []  # (method, path, body) of what changes something

    @staticmethod
    def project(name, **fields):
        return {"name": name, "description": "", "state": "active", "legal_hold": False, "quotas": dict(QUOTAS), "created_at": "2026-11-18T08:00:00.000Z", **fields}

    def find_key(self, id_, refuse):
        found = [k for k in self.keys if k["id"] == id_]
        return found[0] if found else refuse(404, "not_found", f"there is no key {id_}")

    def page(self, items, query):
        start = int(query.get("cursor", 0))
        if start and self.restarts:  # what the cursor named has gone: viald begins at the front again
            self.restarts -= 1
            start = 0
        after = start + PAGE
        return {"items": items[start:after], "next": str(after) if after < len(items) else None}

    def audit(self, query, refuse):
        if self.unavailable:
            self.unavailable -= 1
            refuse(503, "unavailable", "this Vial is shutting down")
        cursor = int(query.get("cursor", 1 << 60))
        limit = min(int(query.get("limit", 50)), PAGE)
        found = [r for r in reversed(self.records) if r["seq"] < cursor and query.get("action", r.get("action")) == r.get("action")]
        return {"items": found[:limit], "next": found[limit - 1]["seq"] if len(found) > limit else None}

    def export(self, handler, query):
        lines = ['{"vial_audit":1,"chain":"c","first":1,"previous":"","public_key":""}', '{"record":{"ledger":1},"body":null,"hash":""}', '{"head":{"seq":1}}']
        odd = query.get("project", "")
        text = "".join(line + "\n" for line in lines).encode()
        if odd == "HOSTILE-headless":
            text = "".join(line + "\n" for line in lines[:2]).encode()
        handler.send_response(200)
        handler.send_header("Content-Type", "application/x-ndjson")
        handler.send_header("Content-Length", str(len(text) + (100 if odd == "HOSTILE-cut" else 0)))
        handler.end_headers()
        handler.wfile.write(text)
        handler.close_connection = odd == "HOSTILE-cut"

    def route(self, handler, method, words, query, refuse):
        """TRUE when it was ours."""
        if method != "GET" and words[0] in ("projects", "keys", "audit"):
            self.asked.append((method, "/".join(words), handler.json()))
        match (method, *words):
            case ("GET", "me"):
                handler.reply(200, {"project": "default", "role": self.role, "engine": "gvisor", "engine_version": "release-20260905.0"})
            case ("GET", "projects"):
                handler.reply(200, list(self.projects.values()))
            case ("POST", "projects"):
                name = self.asked[-1][2]["name"]
                self.projects[name] = self.project(name)
                handler.reply(201, self.projects[name])
            case ("GET", "projects", "*", "usage") | ("GET", "projects", "default", "usage"):
                rows = [{"day": "2026-11-18", "template": "minimal", "sandbox_seconds": 10.25, "vcpu_seconds": 20.5, "memory_gb_seconds": 20.5,
                         "runs": 3, "bytes_in": 2048, "bytes_out": 4096}] * 2
                handler.reply(200, rows) if query.get("format") != "csv" else handler.reply(200, b"day,runs\r\n", "text/csv")
            case (_, "projects", name, *_) if name not in self.projects:
                refuse(404, "not_found", f"there is no project {name}")
            case ("GET", "projects", name) | ("PATCH", "projects", name):
                handler.reply(200, self.projects[name])
            case ("DELETE", "projects", name):
                del self.projects[name]
                handler.reply(204)
            case ("GET", "projects", name, "quotas"):
                handler.reply(200, {"project": name, "quotas": self.projects[name]["quotas"], "used": USED,
                                    "by": {"keys": {"agents": 2, "ci": 1}, "templates": {"minimal": 3}}})
            case ("GET", "keys"):
                handler.reply(200, self.page(self.keys, query))
            case ("POST", "keys"):
                handler.reply(201, key(99, **{k: v for k, v in self.asked[-1][2].items() if v is not None}) | {"key": "vial_" + "a" * 40})
            case ("GET", "keys", id_) | ("PATCH", "keys", id_):
                handler.reply(200, self.find_key(id_, refuse))
            case ("POST", "keys", id_, "rotate"):
                handler.reply(200, self.find_key(id_, refuse) | {"key": "vial_" + "b" * 40, "previous_works_until": "2036-11-18T08:00:00Z"})
            case ("DELETE", "keys", id_):
                self.find_key(id_, refuse)
                handler.reply(204)
            case ("GET", "audit"):
                handler.reply(200, self.audit(query, refuse))
            case ("GET", "audit", "export"):
                self.export(handler, query)
            case ("POST", "audit", "verify"):
                handler.reply(200, self.verdict)
            case ("GET", "audit", seq):
                found = [r for r in self.records if r["seq"] == int(seq)]
                handler.reply(200, found[0]) if found else refuse(404, "not_found", f"there is no record {seq}")
            case _:
                return False
        return True
