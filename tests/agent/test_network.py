# SPDX-License-Identifier: Apache-2.0
"""Ports inside the sandbox."""
from wireclient import wait_until

SERVER = """
import socket, sys, threading
family = socket.AF_INET6 if sys.argv[2] == '6' else socket.AF_INET
server = socket.socket(family); server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
server.bind(('::1' if sys.argv[2] == '6' else '127.0.0.1', int(sys.argv[1]))); server.listen()
print('ready', flush=True)
def serve(peer):
    total = 0
    while data := peer.recv(65536):
        total += len(data)
        peer.sendall(data)
    peer.sendall(b'|%d' % total)
    peer.close()
while True:
    threading.Thread(target=serve, args=(server.accept()[0],)).start()
"""


def echo_server(box, port, version="4"):
    box.write("/tmp/echo.py", SERVER.encode())
    pid = box.run(argv=["python3", "/tmp/echo.py", str(port), version], background=True).result["pid"]
    attached = box.open("proc.attach", pid=pid)
    while attached.next()[0] != "data":
        pass
    attached.cancel()
    return pid


def test_a_tunnel_carries_bytes_and_the_end_both_ways(box):
    pid = echo_server(box, 9001)
    stream = box.open("tcp", port=9001)
    assert stream.next_event()["event"] == "connected"
    stream.send_data(b"hello")
    assert stream.next()[2] == b"hello"
    stream.send_eof()
    answer = stream.collect()
    assert answer.main == b"|5" and answer.result["ok"]
    box.call("proc.signal", pid=pid, signal="KILL")


def test_a_tunnel_reaches_ipv6_only_servers(box):
    if "::1" not in box.run("cat /proc/net/if_inet6 >/dev/null && python3 -c 'import socket; s=socket.socket(socket.AF_INET6); s.bind((\"::1\",0)); print(s.getsockname()[0])'").stdout:
        return
    pid = echo_server(box, 9002, "6")
    stream = box.open("tcp", port=9002)
    stream.send_data(b"six")
    stream.send_eof()
    assert stream.collect().main == b"six|3"
    box.call("proc.signal", pid=pid, signal="KILL")


def test_many_bytes_pass_with_back_pressure(box):
    pid = echo_server(box, 9003)
    stream = box.open("tcp", port=9003)
    import threading
    data = bytes(range(256)) * 40000
    sender = threading.Thread(target=lambda: (stream.send_data(data), stream.send_eof()))
    sender.start()
    answer = stream.collect()
    sender.join()
    assert answer.main == data + b"|%d" % len(data)
    box.call("proc.signal", pid=pid, signal="KILL")


def test_ports_lists_listeners(box):
    pid = echo_server(box, 9004)
    assert {"port": 9004, "address": "127.0.0.1"} in box.call("ports").result["ports"]
    box.call("proc.signal", pid=pid, signal="KILL")
    assert wait_until(lambda: 9004 not in [port["port"] for port in box.call("ports").result["ports"]])


def test_a_port_without_a_listener(box):
    result = box.open("tcp", port=9999).collect(15).result
    assert result["code"] == "unavailable" and "9999" in result["error"]
    for port in (0, 65536, "80", None):
        assert box.open("tcp", port=port).collect().result["code"] == "invalid"


def test_cancel_closes_the_connection(box):
    pid = echo_server(box, 9005)
    stream = box.open("tcp", port=9005)
    stream.next_event()
    stream.cancel()
    assert stream.collect().result["ok"]
    box.call("proc.signal", pid=pid, signal="KILL")
