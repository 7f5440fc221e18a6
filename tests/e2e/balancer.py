"""balancer.py - what stands between clients and the pods of a Service here: an HAProxy whose
servers are the addresses of the Service's Endpoints, as an ingress controller keeps them."""

import json
import socket
import subprocess
import threading
import time
import urllib.request

from e2e import SERVER, Failed, wait_for

PORT = 18090
SERVERS_MAX = 32

CONFIG = """
global
    stats socket {socket} level admin
    maxconn 4000
    nbthread 1
defaults
    mode http
    timeout connect 1s
    timeout client 60s
    timeout server 30s
    timeout queue 30s
    retries 3
    option redispatch
    retry-on conn-failure empty-response
frontend shop
    bind 127.0.0.1:{port}
    default_backend pods
backend pods
    balance roundrobin
    server-template pod 1-{most} 127.0.0.1:1 disabled
"""


class Balancer:
    """Follows the Endpoints of a Service by a watch; told(addresses) is called when they change."""

    def __init__(self, cluster, ns, name, told):
        self.cluster, self.ns, self.name, self.told = cluster, ns, name, told
        self.socket = cluster.scratch / "haproxy.socket"
        self.place = {}  # address: number of its server
        self.stopping = False
        config = cluster.scratch / "haproxy.cfg"
        config.write_text(CONFIG.format(socket=self.socket, port=PORT, most=SERVERS_MAX),
                          encoding="ascii")
        self.log = open(cluster.scratch / "haproxy.log", "w", encoding="utf-8")
        self.process = subprocess.Popen(["haproxy", "-q", "-db", "-f", config], stdout=self.log,
                                        stderr=subprocess.STDOUT, start_new_session=True)
        wait_for("the balancer", self.socket.exists)
        self.thread = threading.Thread(target=self.follow, daemon=True)
        self.thread.start()

    def order(self, text):
        with socket.socket(socket.AF_UNIX) as link:
            link.settimeout(10)
            link.connect(str(self.socket))
            link.sendall(text.encode() + b"\n")
            link.shutdown(socket.SHUT_WR)
            return link.makefile().read()

    def take(self, endpoints):
        addresses = {one["ip"] for subset in endpoints.get("subsets") or []
                     for one in subset.get("addresses") or []}
        if addresses == set(self.place):
            return
        for gone in set(self.place) - addresses:
            self.order(f"set server pods/pod{self.place.pop(gone)} state maint")
        for new in sorted(addresses - set(self.place)):
            number = next(n for n in range(1, SERVERS_MAX + 1) if n not in self.place.values())
            self.place[new] = number
            self.order(f"set server pods/pod{number} addr {new} port 8080; "
                       f"set server pods/pod{number} state ready")
        self.told(addresses)

    def follow(self):
        path = f"/api/v1/namespaces/{self.ns}/endpoints"
        while not self.stopping:
            try:
                found = self.cluster.read(f"{path}/{self.name}") or {"metadata": {}}
                self.take(found)
                version = found["metadata"].get("resourceVersion", "")
                url = (f"{SERVER}{path}?watch=1&fieldSelector=metadata.name%3D{self.name}"
                       f"&resourceVersion={version}&timeoutSeconds=300")
                with urllib.request.urlopen(url, context=self.cluster.tls, timeout=310) as lines:
                    for line in lines:
                        change = json.loads(line)
                        if self.stopping or change["type"] == "ERROR":
                            break
                        self.take(change["object"] if change["type"] != "DELETED" else {})
            except (Failed, OSError, ValueError):
                time.sleep(0.2)  # the server may be busy: asked again

    def close(self):
        self.stopping = True
        self.process.terminate()
        self.process.wait(timeout=30)
        self.log.close()
