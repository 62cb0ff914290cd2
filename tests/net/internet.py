# SPDX-License-Identifier: Apache-2.0
"""A small internet in network namespaces: nothing in it leaves the machine.

    slot ── gate ── [host namespace: the library under test] ── [internet namespace: every server below]

The host namespace has a public-looking address and a default route into the internet namespace, where one process serves
HTTP, HTTPS (own CA), DNS, TCP and UDP on public-looking and private-looking addresses (servers.py).
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))

HOST_V4, INTERNET_V4 = "45.33.32.1", "45.33.32.2"
HOST_V6, INTERNET_V6 = "2600:3c01::1", "2600:3c01::2"
RESOLVER = "9.9.9.53"

EXAMPLE, EXAMPLE6 = "93.184.216.34", "2606:2800:220:1::34"
WWW = "93.184.216.35"
CDN = "151.101.1.69"  # serves several names
EVIL, EVIL6 = "104.18.0.66", "2606:4700::66"
GIT = "140.82.112.3"
OTHER, OTHER6 = "52.1.2.3", "2600:1f18::3"
REFUSES = "52.9.9.9"  # no HTTPS is served there
PUBLIC_DNS, DOH = "8.8.8.8", "1.1.1.1"
TEN, LAN, CORP, CGNAT = "10.1.2.3", "192.168.7.7", "172.16.5.5", "100.64.9.9"
ULA = "fd12:3456::7"
METADATA, METADATA6, AZURE = "169.254.169.254", "fd00:ec2::254", "168.63.129.16"
NAT64 = "64:ff9b::a01:203"  # 10.1.2.3

V4 = [RESOLVER, EXAMPLE, WWW, CDN, EVIL, GIT, OTHER, PUBLIC_DNS, DOH, TEN, LAN, CORP, CGNAT, METADATA, AZURE]
V6 = [EXAMPLE6, EVIL6, OTHER6, ULA, METADATA6, NAT64]

# name -> {type: [values]}; TTL 30 unless said otherwise.
ZONE = {
    "example.com": {"A": [EXAMPLE], "AAAA": [EXAMPLE6], "TXT": ["hello"], "MX": ["10 mail.example.com"]},
    "www.example.com": {"A": [WWW]},
    "deep.www.example.com": {"A": [WWW]},
    "mail.example.com": {"A": [WWW]},
    "alias.example.com": {"CNAME": ["a.cdn.net"]},
    "evilexample.com": {"A": [EVIL]},
    "example.com.evil.com": {"A": [EVIL]},
    "evil.com": {"A": [EVIL], "AAAA": [EVIL6]},
    "sub.evil.com": {"A": [EVIL]},
    "toevil.org": {"CNAME": ["evil.com"]},
    "a.cdn.net": {"A": [CDN]},
    "b.cdn.net": {"A": [CDN]},
    "git.org": {"A": [GIT]},
    "other.org": {"A": [OTHER], "AAAA": [OTHER6]},
    "xn--bcher-kva.example.com": {"A": [WWW]},
    "rebind.org": {"A": [TEN]},
    "rebind-mixed.org": {"A": [TEN, OTHER]},
    "rebind6.org": {"AAAA": [ULA]},
    "rebind-metadata.org": {"A": [METADATA]},
    "rebind-loopback.org": {"A": ["127.0.0.1"]},
    "rebind-mapped.org": {"AAAA": ["::ffff:10.1.2.3"]},
    "rebind-host.org": {"A": [HOST_V4]},
    "short.org": {"A": [OTHER], "TTL": 1},
    "big.org": {"A": [f"52.9.{i // 250}.{i % 250 + 1}" for i in range(120)]},
    "refuses.org": {"A": [REFUSES]},
    "intra.corp.net": {"A": [CORP]},
    "dns.google": {"A": [PUBLIC_DNS]},
    "one.one.one.one": {"A": [DOH]},
}
CERTIFICATE_NAMES = sorted(ZONE) + ["*.example.com", "*.cdn.net"]


def run(*argv, check=True, **kw):
    return subprocess.run(argv, check=check, text=True, capture_output=True, **kw)


def sh(script, check=True):
    return run("sh", "-ec", script, check=check)


class Internet:
    """Builds itself; close() removes all of it."""

    def __init__(self, name=None):
        name = name or f"vn{os.getpid() % 100000}"
        self.host_ns, self.internet_ns = f"{name}-host", f"{name}-inet"
        self.dir = tempfile.mkdtemp(prefix="vial-net-")
        self.servers = None
        try:
            self._links()
            self._certificates()
            self._start()
        except BaseException:
            self.close()
            raise

    def _links(self):
        h, i = self.host_ns, self.internet_ns
        sh(f"""
            ip netns add {h}; ip netns add {i}
            for n in {h} {i}; do
                ip netns exec $n sysctl -qw net.ipv6.conf.all.accept_dad=0 net.ipv6.conf.default.accept_dad=0
                ip -n $n link set lo up
            done
            ip link add wan0 netns {h} type veth peer name wan0 netns {i}
            ip -n {h} addr add {HOST_V4}/24 dev wan0; ip -n {i} addr add {INTERNET_V4}/24 dev wan0
            ip -n {h} addr add {HOST_V6}/64 dev wan0 nodad; ip -n {i} addr add {INTERNET_V6}/64 dev wan0 nodad
            ip -n {h} link set wan0 up; ip -n {i} link set wan0 up
            ip -n {h} route add default via {INTERNET_V4}; ip -n {h} -6 route add default via {INTERNET_V6}
        """)
        lines = [f"addr add {a}/32 dev lo" for a in V4] + [f"addr add {a}/128 dev lo nodad" for a in V6]
        # 10.1.2.3 through NAT64 is an address like any other to whoever owns the prefix.
        lines += ["route add local 52.9.0.0/16 dev lo"]
        run("ip", "-n", i, "-batch", "-", input="\n".join(lines))
        run("ip", "netns", "exec", i, "nft", "-f", "-", input=f"""
            table ip refuses {{ chain in {{ type filter hook input priority 0; ip daddr {REFUSES} tcp dport 443 reject with tcp reset; }}; }}""")

    def _certificates(self):
        d = self.dir
        names = ",".join(f"DNS:{n}" for n in CERTIFICATE_NAMES)
        names += "," + ",".join(f"IP:{a}" for a in V4 + V6)
        sh(f"""
            cd {d}
            openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout ca.key -out ca.pem \
                -subj "/CN=test CA" -days 2
            openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout key.pem -out req.pem -subj "/CN=test"
            printf 'subjectAltName={names}' > ext
            openssl x509 -req -in req.pem -CA ca.pem -CAkey ca.key -CAcreateserial -out cert.pem -days 2 -extfile ext
        """)

    def _start(self):
        with open(os.path.join(self.dir, "zone.json"), "w") as f:
            json.dump(ZONE, f)
        self.query_log = os.path.join(self.dir, "queries")
        self.servers = []
        for ns, role in ((self.internet_ns, "internet"), (self.host_ns, "host")):
            self.servers.append(self._serve(ns, role))

    def _serve(self, ns, role, *more):
        server = subprocess.Popen(["nsenter", f"--net=/run/netns/{ns}", sys.executable, os.path.join(HERE, "servers.py"), self.dir, role,
                                   *more], stdout=subprocess.PIPE, text=True)
        if server.stdout.readline().strip() != "ready":
            server.kill()
            raise RuntimeError("the servers did not start")
        return server

    def stop_http(self, address):
        """Frees port 80 of one address for a server of the caller's: the servers start again without the wildcard there."""
        self.servers[0].kill()
        self.servers[0].wait()
        self.servers[0] = self._serve(self.internet_ns, "internet", "--no-http-on", address)

    def queries(self):
        """Names that the upstream resolver was asked for so far."""
        try:
            with open(self.query_log) as f:
                return [json.loads(line) for line in f]
        except FileNotFoundError:
            return []

    def in_host(self, *argv, **kw):
        return subprocess.run(["nsenter", f"--net=/run/netns/{self.host_ns}", *argv], text=True, capture_output=True, **kw)

    def close(self):
        for server in self.servers or []:
            server.kill()
            server.wait()
        for ns in (self.host_ns, self.internet_ns):
            run("ip", "netns", "del", ns, check=False)
        shutil.rmtree(self.dir, ignore_errors=True)


if __name__ == "__main__":
    net = Internet("vnplay")
    print(f"host namespace {net.host_ns}, files in {net.dir}; Ctrl-C ends it")
    try:
        time.sleep(10**9)
    except KeyboardInterrupt:
        net.close()
