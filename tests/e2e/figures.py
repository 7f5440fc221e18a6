"""figures.py - a stand-in for Prometheus that has an answer for every pod of a run, at once.

Rows are made once for each namespace and kind of question; an answer is the rows of the namespaces
that were asked for, with the time put in. Tens of megabytes a round cost it a fraction of a second,
so that what is measured is who asks. Pods are as busy as their autoscaler wants them (80 % of their
CPU), so that there is nothing to recommend but what is there. Values stay as they are unless
`shake` is given: then CPU and requests go up and down by that share from one moment to the next.
"""

import http.server
import multiprocessing
import re
import time
import urllib.parse

BUCKETS = (("0.05", 0.2), ("0.1", 0.8), ("0.2", 0.95), ("0.5", 0.998), ("1", 1), ("+Inf", 1))
PER_POD = 3.0  # requests per second
NOW = b"1000000000.000"  # in rows: the time of the answer
OLD = b"1000000001.000"  # the time of the newest sample, a few seconds before it
LEVELS = 8  # different values that shaking goes through
SPACES = re.compile(r'namespace=~"([^"]*)"')

# What is asked, by a word that only this question has; the first that fits.
KINDS = (("timestamp(", "time"), ("_bucket", "latency"), ("_sum", "sum"), ("in_flight", "busy"),
         ("throttled", "throttled"), ("cpu_usage", "cpu"), ("working_set", "memory"),
         ("errors_total", "errors"), ("requests_total", "requests"))


class Figures:
    def __init__(self, spaces, pods, shake=0.0):
        """`spaces`: names of pods by namespace, or what makes them: app names and a number each."""
        self.spaces, self.pods, self.shake = spaces, pods, shake
        self.kept = {}

    def value(self, kind, level):
        swing = 1 + self.shake * (2 * level / (LEVELS - 1) - 1)
        return {"cpu": f"{0.2 * swing:.5f}", "memory": "209715200", "throttled": "0",
                "errors": "0", "busy": "0.3", "requests": f"{PER_POD * swing:.4f}",
                "sum": f"{PER_POD * swing * 0.08:.4f}", "time": OLD.decode()}[kind]

    def rows(self, ns, kind, level):
        key = ns, kind, level
        if key not in self.kept:
            pods = [f"{app}-{i:02d}" for app in self.spaces[ns] for i in range(self.pods)]
            if kind == "latency":
                rate = float(self.value("requests", level))
                made = (f'{{"metric":{{"le":"{le}","namespace":"{ns}","pod":"{pod}"}},'
                        f'"value":[{NOW.decode()},"{rate * share:.4f}"]}}'
                        for pod in pods for le, share in BUCKETS)
            else:
                value = self.value(kind, level)
                made = (f'{{"metric":{{"namespace":"{ns}","pod":"{pod}"}},'
                        f'"value":[{NOW.decode()},"{value}"]}}' for pod in pods)
            self.kept[key] = ",".join(made).encode()
        return self.kept[key]

    def prepare(self):
        """All rows: the first answer is as quick as the others."""
        for _, kind in KINDS:
            for ns in self.spaces:
                for level in range(LEVELS if self.shake else 1):
                    self.rows(ns, kind, level)

    def answer(self, question):
        now = time.time()
        wanted = SPACES.search(question)
        kind = next((kind for word, kind in KINDS if word in question), None)
        level = int(now / 15) * 5 % LEVELS if self.shake else 0
        names = wanted[1].split("|") if wanted and kind else []
        rows = b",".join(self.rows(ns, kind, level) for ns in names if ns in self.spaces)
        rows = rows.replace(NOW, f"{now:.3f}".encode())
        if kind == "time":
            rows = rows.replace(OLD, f"{now - 5:.3f}".encode())
        return (b'{"status":"success","data":{"resultType":"vector","result":[' + rows + b"]}}")


def serve(figures, port):
    """Answers on loopback in a process of its own, which is returned."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def reply(self, query):
            body = figures.answer(urllib.parse.parse_qs(query).get("query", [""])[0])
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self):  # pylint: disable=invalid-name # http.server's
            self.reply(self.path.partition("?")[2])

        def do_POST(self):  # pylint: disable=invalid-name
            self.reply(self.rfile.read(int(self.headers["Content-Length"])).decode())

        def log_message(self, *_):  # pylint: disable=arguments-differ
            pass

    figures.prepare()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
    process = multiprocessing.Process(target=server.serve_forever, daemon=True)
    process.start()
    server.socket.close()
    return process
