# SPDX-License-Identifier: Apache-2.0
"""The policy table: (what it shows, policy, [(attempt, does it succeed?), …]). Tried from inside with real sockets.

Attempts of one case run in order in one sandbox, since a name rule admits only addresses that were resolved before.
"""
from internet import (AZURE, CDN, CGNAT, CORP, DOH, EVIL, EVIL6, EXAMPLE, EXAMPLE6, GIT, HOST_V4, HOST_V6, LAN, METADATA,
                      METADATA6, NAT64, OTHER, OTHER6, PUBLIC_DNS, RESOLVER, TEN, ULA, WWW)

YES, NO = True, False
ALL = "ALL_TRAFFIC"


def tcp(to, port=9000):
    return {"do": "tcp", "to": to, "port": port}


def udp(to, port=9000):
    return {"do": "udp", "to": to, "port": port}


def http(to, port=80, **more):
    return {"do": "http", "to": to, "port": port, **more}


def https(to, port=443, **more):
    return {"do": "https", "to": to, "port": port, **more}


def ping(to):
    return {"do": "ping", "to": to}


def resolve(name, family=4):
    return {"do": "resolve", "name": name, "family": family}


def query(name, **more):
    return {"do": "query", "name": name, **more}


def filtered(allow=(), deny=()):
    return {"mode": "filtered", "allow_out": list(allow), "deny_out": list(deny)}


def opened(allow=(), deny=()):
    return {"mode": "open", "allow_out": list(allow), "deny_out": list(deny)}


DISABLED = {"mode": "disabled"}
OPEN = {"mode": "open"}

CASES = [
    # ---- disabled ----
    ("disabled refuses addresses, names, pings and our resolver", DISABLED,
     [(tcp(EXAMPLE), NO), (udp(EXAMPLE), NO), (tcp(EXAMPLE6), NO), (http(EXAMPLE), NO), (https(EXAMPLE), NO),
      (ping(EXAMPLE), NO), (resolve("example.com"), NO), (query("example.com"), NO), (query("example.com", tcp=True), NO)]),
    ("no policy at all is disabled", None, [(tcp(EXAMPLE), NO), (resolve("example.com"), NO)]),
    ("disabled refuses private ranges and the host", DISABLED, [(tcp(TEN), NO), (tcp(HOST_V4, 7777), NO)]),

    # ---- open ----
    ("open reaches public addresses over IPv4", OPEN,
     [(tcp(EXAMPLE), YES), (udp(EXAMPLE), YES), (http(EXAMPLE), YES), (https(EXAMPLE), YES), (ping(EXAMPLE), YES)]),
    ("open reaches public addresses over IPv6", OPEN,
     [(tcp(EXAMPLE6), YES), (udp(EXAMPLE6), YES), (http(EXAMPLE6), YES), (https(EXAMPLE6), YES), (ping(EXAMPLE6), YES)]),
    ("open resolves names of both families", OPEN, [(resolve("example.com"), YES), (resolve("example.com", 6), YES)]),
    ("open reaches a name", OPEN, [(http("example.com"), YES), (https("example.com"), YES), (tcp("git.org", 22), YES)]),
    ("open never reaches 10/8", OPEN, [(tcp(TEN), NO), (udp(TEN), NO), (http(TEN), NO), (ping(TEN), NO)]),
    ("open never reaches 192.168/16", OPEN, [(tcp(LAN), NO), (http(LAN), NO)]),
    ("open never reaches 172.16/12", OPEN, [(tcp(CORP), NO)]),
    ("open never reaches carrier NAT", OPEN, [(tcp(CGNAT), NO)]),
    ("open never reaches unique local IPv6", OPEN, [(tcp(ULA), NO), (ping(ULA), NO)]),
    ("open never reaches metadata services", OPEN,
     [(http(METADATA), NO), (http(METADATA6), NO), (http(AZURE), NO), (ping(METADATA), NO)]),
    ("open never reaches IPv4 through NAT64", OPEN, [(tcp(NAT64), NO)]),
    ("open never reaches the host", OPEN,
     [(tcp(HOST_V4), NO), (tcp(HOST_V4, 7777), NO), (http(HOST_V4), NO), (tcp(HOST_V6), NO), (ping(HOST_V4), NO)]),
    ("open never reaches the gateway", OPEN,
     [(tcp("192.0.0.1", 22), NO), (tcp("192.0.0.1", 3129), NO), (ping("192.0.0.1"), NO),
      ({"do": "connect", "to": "192.0.0.1", "port": 80}, NO)]),
    ("open never reaches multicast, broadcast and 0.0.0.0/8", OPEN,
     [(udp("224.0.0.1"), NO), (udp("255.255.255.255"), NO), (tcp("0.1.2.3"), NO)]),
    ("open lets nobody use another resolver", OPEN,
     [(query("example.com", to=PUBLIC_DNS), NO), (query("example.com", to=PUBLIC_DNS, tcp=True), NO),
      (query("example.com", to=RESOLVER), NO), (tcp(PUBLIC_DNS, 853), NO)]),
    ("open and an allow entry for a private address", opened([TEN]), [(tcp(TEN), YES), (tcp(LAN), NO), (tcp(EXAMPLE), YES)]),
    ("open and an allow entry for a private range", opened(["192.168.0.0/16"]), [(tcp(LAN), YES), (tcp(TEN), NO)]),
    ("open and an allow entry for a unique local range", opened(["fd12:3456::/32"]), [(tcp(ULA), YES)]),
    ("open with a deny entry", opened([], [EVIL]), [(tcp(EVIL), NO), (tcp(EXAMPLE), YES), (tcp(EVIL6), YES)]),
    ("open with a denied name", opened([], ["evil.com"]),
     [(resolve("evil.com"), NO), (resolve("sub.evil.com"), YES), (https(EVIL, sni="evil.com"), NO),
      (https("example.com"), YES), (http(EVIL, host="evil.com"), NO), (tcp("git.org", 22), YES)]),
    ("open and 0.0.0.0/0 opens no private range", opened(["0.0.0.0/0", "::/0"]), [(tcp(TEN), NO), (tcp(ULA), NO), (tcp(OTHER), YES)]),

    # ---- filtered: the baselines ----
    ("filtered with empty lists refuses everything", filtered(), [(tcp(EXAMPLE), NO), (resolve("example.com"), NO)]),
    ("filtered with only a deny list refuses everything", filtered([], [EVIL]), [(tcp(EXAMPLE), NO), (tcp(EVIL), NO)]),
    ("deny ALL_TRAFFIC alone refuses everything", filtered([], [ALL]), [(tcp(EXAMPLE), NO), (tcp(OTHER6), NO)]),
    ("allow ALL_TRAFFIC alone is like open", filtered([ALL]), [(tcp(EXAMPLE), YES), (tcp(TEN), NO), (tcp(OTHER6), YES)]),
    ("allow ALL_TRAFFIC beats deny ALL_TRAFFIC", filtered([ALL], [ALL]), [(tcp(EXAMPLE), YES)]),
    ("ALL_TRAFFIC with a port", filtered([ALL + ":9000"]), [(tcp(EXAMPLE), YES), (http(EXAMPLE), NO), (ping(EXAMPLE), NO)]),
    ("deny ALL_TRAFFIC with a port narrows nothing that is allowed", filtered([ALL], [ALL + ":9000"]), [(tcp(EXAMPLE), YES)]),

    # ---- filtered: addresses ----
    ("one address", filtered([EXAMPLE], [ALL]), [(tcp(EXAMPLE), YES), (udp(EXAMPLE), YES), (ping(EXAMPLE), YES), (tcp(WWW), NO)]),
    ("one address needs no SNI and no Host", filtered([EXAMPLE]), [(http(EXAMPLE), YES), (https(EXAMPLE, sni="whatever.org"), YES)]),
    ("one IPv6 address", filtered([EXAMPLE6]), [(tcp(EXAMPLE6), YES), (http(EXAMPLE6), YES), (tcp(OTHER6), NO), (tcp(EXAMPLE), NO)]),
    ("a CIDR", filtered(["93.184.216.0/24"]), [(tcp(EXAMPLE), YES), (tcp(WWW), YES), (tcp(OTHER), NO)]),
    ("an odd prefix", filtered(["93.184.216.34/31"]), [(tcp(EXAMPLE), YES), (tcp(WWW), YES)]),
    ("an IPv6 CIDR", filtered(["2606:2800::/32"]), [(tcp(EXAMPLE6), YES), (tcp(EVIL6), NO)]),
    ("an address with a port", filtered([EXAMPLE + ":9000"]), [(tcp(EXAMPLE), YES), (udp(EXAMPLE), YES), (http(EXAMPLE), NO), (ping(EXAMPLE), NO)]),
    ("an address with a port range", filtered([EXAMPLE + ":8000-9000"]), [(tcp(EXAMPLE), YES), (http(EXAMPLE, 8080), YES), (tcp(EXAMPLE, 7), NO)]),
    ("an IPv6 address with a port", filtered([f"[{EXAMPLE6}]:9000"]), [(tcp(EXAMPLE6), YES), (http(EXAMPLE6), NO)]),
    ("an IPv6 CIDR with a port", filtered(["[2606:2800::/32]:9000"]), [(tcp(EXAMPLE6), YES), (tcp(EXAMPLE6, 7), NO)]),
    ("a mapped address is its IPv4 self", filtered(["::ffff:93.184.216.34"]), [(tcp(EXAMPLE), YES), (tcp(WWW), NO)]),
    ("a private address by name opens just it", filtered([TEN], [ALL]), [(tcp(TEN), YES), (tcp(LAN), NO), (tcp(EXAMPLE), NO)]),
    ("a private range with a port", filtered(["10.0.0.0/8:9000"]), [(tcp(TEN), YES), (http(TEN), NO)]),
    ("everything by CIDR still opens no private range", filtered(["0.0.0.0/0"]), [(tcp(EXAMPLE), YES), (tcp(TEN), NO), (http(METADATA), NO), (tcp(EXAMPLE6), NO)]),
    ("a range wider than the private one does not name it", filtered(["8.0.0.0/6"]), [(tcp(PUBLIC_DNS), YES), (tcp(TEN), NO)]),
    ("the host's address named exactly is open", filtered([HOST_V4]), [(tcp(HOST_V4), YES), (tcp(HOST_V6), NO)]),
    ("a range around the host's address does not name it", filtered(["45.33.32.0/24"]), [(tcp(HOST_V4), NO)]),
    ("an address rule opens another resolver", filtered([PUBLIC_DNS]), [(query("example.com", to=PUBLIC_DNS), YES)]),

    # ---- precedence ----
    ("allow beats deny, same address", filtered([EXAMPLE], [EXAMPLE]), [(tcp(EXAMPLE), YES)]),
    ("allow beats a more specific deny", filtered(["93.184.216.0/24"], [EXAMPLE]), [(tcp(EXAMPLE), YES)]),
    ("deny beats the baseline ALL_TRAFFIC", filtered([ALL], [EVIL, "93.184.216.0/24"]), [(tcp(EVIL), NO), (tcp(EXAMPLE), NO), (tcp(OTHER), YES)]),
    ("a specific allow beats deny beats the baseline", filtered([ALL, EXAMPLE], ["93.184.216.0/24"]), [(tcp(EXAMPLE), YES), (tcp(WWW), NO), (tcp(OTHER), YES)]),
    ("deny with a port", filtered([ALL], [EXAMPLE + ":9000"]), [(tcp(EXAMPLE), NO), (http(EXAMPLE), YES)]),
    ("an allow with a port beats deny only there", filtered([EXAMPLE + ":9000"], [EXAMPLE]), [(tcp(EXAMPLE), YES), (http(EXAMPLE), NO)]),
    ("a name rule beats a deny of its address", filtered(["example.com"], [EXAMPLE, ALL]), [(https("example.com"), YES), (https(EXAMPLE, sni=None), NO)]),
    ("a deny of IPv6 leaves IPv4 alone", filtered([ALL], ["::/0"]), [(tcp(EXAMPLE), YES), (tcp(EXAMPLE6), NO)]),
    ("closed ranges stay closed to names", filtered(["rebind.org"]), [(resolve("rebind.org"), NO), (tcp(TEN), NO)]),

    # ---- names ----
    ("an exact name", filtered(["example.com"], [ALL]),
     [(http("example.com"), YES), (https("example.com"), YES), (resolve("www.example.com"), NO), (resolve("evil.com"), NO)]),
    ("an exact name over IPv6", filtered(["example.com"]),
     [(resolve("example.com", 6), YES), (https(EXAMPLE6, sni="example.com"), YES), (https(EXAMPLE6, sni="evil.com"), NO)]),
    ("a wildcard covers every level below, not the name itself", filtered(["*.example.com"]),
     [(https("www.example.com"), YES), (https("deep.www.example.com"), YES), (resolve("example.com"), NO)]),
    ("the address is open only after our resolver gave it", filtered(["example.com"]),
     [(https(EXAMPLE, sni="example.com"), NO), (resolve("example.com"), YES), (https(EXAMPLE, sni="example.com"), YES)]),
    ("direct addresses are refused", filtered(["example.com"]),
     [(resolve("example.com"), YES), (https(EXAMPLE, sni=None), NO), (http(EXAMPLE), NO), (https(OTHER, sni="example.com"), NO)]),
    ("a spoofed SNI is refused", filtered(["example.com"]),
     [(resolve("example.com"), YES), (https(EXAMPLE, sni="evil.com"), NO), (https(EVIL, sni="example.com"), NO)]),
    ("a spoofed Host is refused", filtered(["example.com"]),
     [(resolve("example.com"), YES), (http(EXAMPLE, host="evil.com"), NO), (http(EXAMPLE, host="example.com"), YES)]),
    ("two names on one address: only the allowed one", filtered(["a.cdn.net"]),
     [(https("a.cdn.net"), YES), (https(CDN, sni="b.cdn.net"), NO), (http(CDN, host="b.cdn.net"), NO)]),
    ("a name not asked for yet is refused on a known address", filtered(["*.cdn.net"]),
     [(resolve("a.cdn.net"), YES), (https(CDN, sni="b.cdn.net"), NO), (https("b.cdn.net"), YES)]),
    ("suffix without a label boundary", filtered(["example.com", "*.example.com"]), [(resolve("evilexample.com"), NO)]),
    ("allowed name as a prefix", filtered(["example.com", "*.example.com"]), [(resolve("example.com.evil.com"), NO)]),
    ("a trailing dot is the same name", filtered(["example.com."]),
     [(resolve("example.com."), YES), (http(EXAMPLE, host="example.com."), YES), (https("example.com"), YES)]),
    ("upper case is the same name", filtered(["EXAMPLE.Com"]),
     [(resolve("eXaMpLe.CoM"), YES), (https(EXAMPLE, sni="EXAMPLE.COM"), YES), (http(EXAMPLE, host="Example.COM"), YES)]),
    ("an international name is its punycode", filtered(["bücher.example.com"]),
     [(resolve("xn--bcher-kva.example.com"), YES), (https("xn--bcher-kva.example.com"), YES)]),
    ("a look-alike is another name", filtered(["exаmple.com"]), [(resolve("example.com"), NO)]),  # with a Cyrillic letter
    ("a name with a port", filtered(["example.com:443"]), [(https("example.com"), YES), (http("example.com"), NO), (tcp("example.com"), NO)]),
    ("a name with another port: the address is enough", filtered(["example.com:9000"]),
     [(tcp("example.com"), YES), (udp("example.com"), YES), (https("example.com"), NO), (tcp(WWW), NO)]),
    ("a name with a port range", filtered(["example.com:8000-9000"]), [(tcp("example.com"), YES), (http("example.com", 8080), YES), (http("example.com"), NO)]),
    ("a name without a port: other ports are pinned", filtered(["git.org"]), [(tcp("git.org", 22), YES), (tcp(GIT, 7), YES), (tcp(OTHER, 22), NO)]),
    ("QUIC to a name is refused", filtered(["example.com"]), [(resolve("example.com"), YES), (udp(EXAMPLE, 443), NO)]),
    ("an alias is admitted under the name asked for", filtered(["alias.example.com"]),
     [(https("alias.example.com"), YES), (https(CDN, sni="a.cdn.net"), NO)]),
    ("an alias of a denied name", filtered([ALL], ["evil.com"]), [(resolve("toevil.org"), NO)]),
    ("a denied wildcard", filtered([ALL], ["*.evil.com"]), [(resolve("sub.evil.com"), NO), (resolve("evil.com"), YES), (https(EVIL, sni="sub.evil.com"), NO)]),
    ("a name rule beats a denied wildcard", filtered(["sub.evil.com"], ["*.evil.com"]), [(https("sub.evil.com"), YES)]),
    ("names need name rules", filtered([EXAMPLE]), [(resolve("example.com"), NO)]),
    ("no DNS over HTTPS or TLS past the rules", filtered(["example.com"]),
     [(https(DOH, sni="one.one.one.one"), NO), (tcp(DOH, 853), NO), (query("evil.com", to=DOH), NO)]),
    ("a name rule opens no other resolver", filtered(["dns.google"]),
     [(resolve("dns.google"), YES), (query("evil.com", to=PUBLIC_DNS), NO), (tcp(PUBLIC_DNS, 853), NO)]),

    # ---- rebinding ----
    ("private answers are dropped in open", OPEN,
     [(resolve("rebind.org"), NO), (resolve("rebind6.org", 6), NO), (resolve("rebind-metadata.org"), NO),
      (resolve("rebind-loopback.org"), NO), (resolve("rebind-mapped.org", 6), NO), (resolve("rebind-host.org"), NO)]),
    ("private answers are dropped for an allowed name", filtered(["rebind.org"]), [(resolve("rebind.org"), NO)]),
    ("of a mixed answer the public part stays", OPEN, [(http("rebind-mixed.org"), YES)]),
    ("a private answer that an address rule opens", filtered(["intra.corp.net", "172.16.0.0/12"]), [(http("intra.corp.net"), YES)]),
]
