#!/usr/bin/env python3
"""trace_test.py - the verbs of traces, as a user meets them.

    trace_test.py TEST [AWARE]    one of the functions below, against the program AWARE

Exit status as in cli_test.py. Tests of measured faults read them from AWARE_DATA_DIR and are
skipped without it.
"""

import gzip
import http.server
import json
import os
import random
import re
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

import cli_test
from cli_test import expect, expect_ok, run, skip
from run_test import files

GOLDEN = Path(__file__).parent.parent / "golden" / "trace"
HEAD = "TraceID,SpanID,ParentID,PodName,OperationName,StartTimeUnixNano,EndTimeUnixNano,Duration\n"
SERVICES = cli_test.ROOT / "examples" / "services"
DAY = 1_700_006_400 # 2023-11-15 00:00:00


def pod(service):
    return f"{service}-6f6cfc45b-h5m2n"


def minute_of_requests(seed, minute, count=60, slow=None, ms=0.0, where="own"):
    """Requests of front -> orders -> {stock, pay}, as CSV; `slow` takes `ms` longer."""
    draw = random.Random(seed)
    lines = [HEAD]

    def call(trace, parent, caller, callee, at, children):
        client, server = draw.getrandbits(63) | 1, draw.getrandbits(63) | 1
        begin = at + draw.uniform(1, 2)
        now = begin + draw.uniform(4, 6) + (ms if slow == callee and where == "own" else 0)
        for child in children.get(callee, []):
            now = call(trace, server, callee, child, now, children)
        end = now + 1
        back = end + draw.uniform(1, 2) + (ms if slow == callee and where == "network" else 0)
        span(trace, client, parent, caller, f"call {callee}", at, back)
        span(trace, server, client, callee, f"/{callee}", begin, end)
        return back

    def span(trace, ident, parent, service, name, begin, end):
        zero = (DAY + 60 * minute) * 10**9 + trace * 10**9
        above = f"{parent:016x}" if parent else "root"
        start, stop = zero + int(begin * 1e6), zero + int(end * 1e6)
        lines.append(f"{seed:08x}{minute:08x}{trace:016x},{ident:016x},{above},{pod(service)},"
                     f"{name},{start},{stop},{(stop - start) // 1000}\n")

    for trace in range(1, count + 1):
        root = draw.getrandbits(63) | 1
        now = call(trace, root, "front", "orders", draw.uniform(1, 2), {"orders": ["stock", "pay"]})
        span(trace, root, 0, "front", "GET /cart", 0, now + 1)
    return "".join(lines)


def write(folder, name, text):
    path = Path(folder, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return str(path)


def json_of(*args):
    return json.loads(expect_ok("trace", *args, "--output", "json").stdout)


def every_format_shows_the_same_request():
    shown = {}
    for name in ("otlp.bin", "otlp.json", "jaeger.json"):
        document = json_of("show", str(GOLDEN / name))
        shown[name] = [(s["service"], s["operation"], s["start_ms"], s["on_path_ms"])
                       for s in document["spans"]]
        expect(document["latency_ms"] == 100, str(document))
    expect(shown["otlp.bin"] == shown["otlp.json"] == shown["jaeger.json"], str(shown))
    expect(shown["otlp.bin"] == [("front", "GET /cart", 0, 20), ("front", "GET orders", 10, 20),
                                 ("orders", "GET /orders", 20, 60)], str(shown))
    text = expect_ok("trace", "show", str(GOLDEN / "zipkin.json")).stdout
    expect("get /cart" in text and "####" in text and "error" in text, text)


def the_path_sums_to_the_latency():
    with tempfile.TemporaryDirectory() as folder:
        file = write(folder, "a.csv.gz", minute_of_requests(1, 1))
        requests = json_of("list", file, "-n", "0")["requests"]
        expect(len(requests) == 60 and requests[0]["latency_ms"] >= requests[-1]["latency_ms"],
               str(requests[0]))
        expect(requests[0]["type"] == "front GET /cart > /orders", str(requests[0]))
        path = json_of("path", file, "--trace", requests[3]["trace"])
        total = sum(section["ms"] for section in path["sections"])
        expect(abs(total - requests[3]["latency_ms"]) < 1e-6, f"{total} {requests[3]}")
        text = expect_ok("trace", "path", file).stdout
        expect("on the way there" in text and "own work" in text, text)
        graph = json_of("graph", file)
        expect({(c["caller"], c["callee"]) for c in graph["calls"]} ==
               {("front", "orders"), ("orders", "stock"), ("orders", "pay")}, str(graph["calls"]))
        expect(abs(sum(s["on_path_share"] for s in graph["services"]) - 1) < 1e-9, str(graph))
        expect_ok("trace", "graph", file)
        expect("60 requests" in expect_ok("trace", "import", file).stdout, "import counts")


def what_is_imported_comes_back_as_otlp():
    with tempfile.TemporaryDirectory() as folder:
        file = write(folder, "a.csv", minute_of_requests(2, 1, count=5))
        for name in ("b.jsonl", "b.pb"):
            out = str(Path(folder, name))
            expect_ok("trace", "import", file, "--out", out)
            expect(json_of("list", out)["requests"] == json_of("list", file)["requests"], name)


def the_culprit_is_named_with_its_evidence():
    with tempfile.TemporaryDirectory() as folder:
        base = write(folder, "normal.csv.gz", minute_of_requests(1, 1))
        slow = write(folder, "slow.csv.gz", minute_of_requests(2, 5, slow="stock", ms=80,
                                                               where="network"))
        text = expect_ok("trace", "culprits", slow, "--baseline", base).stdout
        lines = text.splitlines()
        expect("culprit found" in text and lines[3].startswith("stock: +") and
               "of the excess" in lines[3] and lines[3].endswith("look at its network"), text)
        found = json_of("culprits", slow, "-b", base)
        expect(found["confident"] and found["culprits"][0]["service"] == "stock", str(found))
        same = write(folder, "same.csv.gz", minute_of_requests(3, 9))
        quiet = json_of("culprits", same, "-b", base)
        expect(not quiet["confident"] and "not a resource problem" in quiet["verdict"], str(quiet))
        few = write(folder, "few.csv", minute_of_requests(4, 9, count=5, slow="pay", ms=500))
        expect(json_of("culprits", few, "-b", base)["verdict"] == "not enough requests", "few")
        expect(json_of("culprits", slow)["verdict"] == "no baseline", "no baseline")
        latest = json_of("culprits", base, slow, "--last", "90s") # minutes 1 and 5 in one
        expect(latest["requests"] == 60 and latest["confident"] and
               latest["culprits"][0]["service"] == "stock", str(latest))
        pods = "".join(f"x,{DAY + 60 * m + 9},{pod('pay')},{500 if m == 12 else 5},"
                       f"{100 if m == 12 else 1}\n" for m in range(14))
        pods = "Time,TimeStamp,PodName,CpuUsage(m),CpuUsageRate(%)\n" + pods
        pods = write(folder, "pods.csv", pods)
        busy = write(folder, "busy.csv", minute_of_requests(5, 12, slow="pay", ms=30))
        found = json_of("culprits", busy, "-b", base, "-m", pods)
        expect(found["culprits"][0]["service"] == "pay" and found["culprits"][0]["needs"] == "cpu",
               str(found))


def faults_folder(folder):
    truth = []
    write(folder, "traces/2023-11-15_normal_0001.csv.gz", minute_of_requests(1, 1))
    write(folder, "traces/2023-11-15_normal_0002.csv.gz", minute_of_requests(2, 2))
    for i, (service, kind, where) in enumerate([("stock", "network_delay", "network"),
                                                ("pay", "network_delay", "network"),
                                                ("orders", "cpu_contention", "own"),
                                                ("pay", "exception", "own")]):
        minute = 10 + 5 * i
        name = f"traces/2023-11-15_{minute:04}.csv.gz"
        ms = 0 if kind == "exception" else 90
        write(folder, name, minute_of_requests(10 + i, minute, slow=service, ms=ms, where=where))
        truth.append({"file": name, "day": "2023-11-15", "type": kind, "service": service,
                      "inject_time": f"2023-11-15 00:{minute:02}:04", "pod": pod(service),
                      "minutes": [f"00_{minute:02}"]})
    write(folder, "ground_truth.json", json.dumps(truth))


def a_folder_of_faults_is_evaluated():
    with tempfile.TemporaryDirectory() as folder:
        faults_folder(folder)
        got = json_of("evaluate", folder)
        expect(got["resource"] == {"cases": 3, "top1": 1, "top3": 1, "confident": 1}, str(got))
        expect(got["code"] == {"cases": 1, "confident": 0}, str(got["code"]))
        expect(got["normal"] == {"cases": 2, "confident": 0}, str(got["normal"]))
        text = expect_ok("trace", "evaluate", folder, "--hold-out").stdout
        expect("learned, for each service, on the faults of all others" in text, text)
        expect_ok("trace", "evaluate", folder, "--hold-out", "--features", "paper")
        first, second = (str(Path(folder, name)) for name in ("a.json", "b.json"))
        expect_ok("trace", "learn", folder, "--out", first)
        expect_ok("trace", "learn", folder, "--out", second)
        expect(Path(first).read_bytes() == Path(second).read_bytes(), "same seed, same bytes")
        expect(json_of("evaluate", folder, "--model", first)["resource"]["top1"] == 1, "learned")


def variants_of_a_folder_come_to_the_same():
    """Other pods, clocks, packing and marks; files that are missing are counted, and said."""
    with tempfile.TemporaryDirectory() as folder:
        faults_folder(folder)
        truth = json.loads(Path(folder, "ground_truth.json").read_text())
        for one in truth:
            one["inject_time"] = one["inject_time"].replace(" 00:", " 08:") # another zone
            one["pod"] = one["service"] + "-abc-def"
        for path in Path(folder, "traces").iterdir():
            text = "\ufeff" + gzip.decompress(path.read_bytes()).decode()
            path.with_suffix("").write_text(
                text.replace("-6f6cfc45b-h5m2n", "-abc-def").replace("\n", "\r\n"))
            path.unlink()
        truth.append(truth[0] | {"file": "traces/2023-11-15_0055.csv.gz"})
        write(folder, "ground_truth.json", json.dumps(truth))
        got = json_of("evaluate", folder)
        expect(got["resource"] == {"cases": 3, "top1": 1, "top3": 1, "confident": 1}, str(got))
        expect(got["left_out"] == 1 and got["without_metrics"] == 6, str(got))
        text = expect_ok("trace", "evaluate", folder).stdout
        expect("left out: 1 of ground_truth.json whose files are not there; the first is "
               "traces/2023-11-15_0055.csv.gz" in text, text)
        for path in Path(folder, "traces").iterdir():
            path.unlink()
        done = run("trace", "evaluate", folder)
        expect(done.returncode == 66 and "none of its 5 files of traces is there" in done.stderr,
               done.stderr)


def what_is_wrong_gets_one_line():
    with tempfile.TemporaryDirectory() as folder:
        good = write(folder, "good.csv", minute_of_requests(1, 1, count=2))
        bad = write(folder, "bad.csv", HEAD + "zz,1,root,p,o,1,2,1\n")
        cases = [
            (["show", "/nonexistent"], 66, "cannot open"),
            (["show", bad], 65,
             "bad.csv:2: TraceID: expected 1 to 32 hexadecimal digits, found \"zz\""),
            (["show", write(folder, "none.json", "{}")], 69, "no spans"),
            (["show", write(folder, "x", "hello")], 65, "found none of them"),
            (["show", good, "--trace", "ffff"], 66, "no trace begins with \"ffff\""),
            (["show", good, "--trace", "0"], 64, "2 traces begin with \"0\"; give more digits"),
            (["show", good, "--format", "zipkin"], 65, "expected JSON"),
            (["culprits", good, "--model", bad], 65, "as aware trace learn writes it"),
            (["culprits", good, "--last", "1h"], 69, "give a shorter time"),
            (["culprits", good, "--last", "1h", "-b", good], 64, "two ways to say one thing"),
            (["evaluate", folder], 66, "expected ground_truth.json, or folders SERVICE-FAULT/REP"),
            (["evaluate", folder, "--features", "paper"], 64, "needs --hold-out"),
            (["learn", folder], 64, "--out"),
        ]
        for args, code, text in cases:
            done = run("trace", *args)
            expect(done.returncode == code and text in done.stderr and
                   len(done.stderr.splitlines()) == 1, f"{args}: {done.returncode} {done.stderr}")


def spans_are_taken_over_http_and_kept():
    with tempfile.TemporaryDirectory() as folder:
        store = str(Path(folder, "traces.db"))
        process = subprocess.Popen(
            [cli_test.AWARE, "trace", "collect", "--listen", "127.0.0.1:0", "--store", store,
             "--grpc", "127.0.0.1:0", "--quiet-period", "200ms", "-o", "json",
             "--keep", "0"], # they are of 2023
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            address = re.search(r"http://[\d.]+:\d+", process.stderr.readline())[0]

            def post(path, body, kind="application/x-protobuf", **headers):
                request = urllib.request.Request(address + path, data=body, method="POST",
                                                 headers={"Content-Type": kind, **headers})
                with urllib.request.urlopen(request, timeout=20) as answer:
                    return answer.status

            expect(post("/v1/traces", (GOLDEN / "otlp.bin").read_bytes()) == 200, "protobuf")
            packed = gzip.compress((GOLDEN / "otlp.json").read_bytes())
            expect(post("/v1/traces", packed, "application/json", **{"Content-Encoding": "gzip"})
                   == 200, "JSON, packed")
            deadline = time.monotonic() + 30
            while time.monotonic() < deadline: # read while it is being written
                shown = run("trace", "show", store, "-o", "json")
                if shown.returncode == 0:
                    break
                time.sleep(0.1)
            expect(json.loads(shown.stdout)["latency_ms"] == 100, shown.stdout + shown.stderr)
            expect(json.loads(shown.stdout)["counts"]["duplicate"] == 3, shown.stdout)
            other = [{"traceId": "77", "id": "1", "timestamp": 1_700_000_000_000_000,
                      "duration": 250_000, "localEndpoint": {"serviceName": "mail"}}]
            expect(post("/api/v2/spans", json.dumps(other).encode(), "application/json") == 202,
                   "Zipkin")
        finally:
            process.terminate()
            out, err = process.communicate(timeout=60)
        told = json.loads(out)
        expect(process.returncode == 0 and told["spans"] == 7 and told["requests"] == 2, out + err)
        requests = json_of("list", store)["requests"] # what still waited at the end is kept too
        expect([r["latency_ms"] for r in requests] == [250, 100], str(requests))
        done = run("trace", "collect", "--listen", "0.0.0.0:0", "--store", store,
                   "--grpc", "none")
        expect(done.returncode == 64 and "--token-file is required" in done.stderr, done.stderr)


def what_is_taken_is_passed_on():
    """To a receiver that is busy at first: every byte arrives; to one that is away: counted."""
    got, busy = [], [503]

    class Tempo(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status = busy.pop() if busy else 200
            if status == 200:
                got.append((self.path, self.headers["Content-Type"], self.headers["Authorization"],
                            body))
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Tempo)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    binary, text = (GOLDEN / "otlp.bin").read_bytes(), (GOLDEN / "otlp.json").read_bytes()
    zipkin = json.dumps([{"traceId": "77", "id": "1", "timestamp": 1_700_000_000_000_000,
                          "duration": 250_000, "localEndpoint": {"serviceName": "mail"}}]).encode()

    def collect(url, *more):
        process = subprocess.Popen(
            [cli_test.AWARE, "trace", "collect", "--listen", "127.0.0.1:0", "--grpc", "none",
             "--store", str(Path(folder, "traces.db")), "--forward", url, "-o", "json", *more],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            address = re.search(r"http://[\d.]+:\d+", process.stderr.readline())[0]
            for path, kind, body, packed in (
                    ("/v1/traces", "application/x-protobuf", binary, False),
                    ("/v1/traces", "application/json", gzip.compress(text), True),
                    ("/api/v2/spans", "application/json", zipkin, False)):
                headers = {"Content-Type": kind} | ({"Content-Encoding": "gzip"} if packed else {})
                urllib.request.urlopen(urllib.request.Request(
                    address + path, data=body, method="POST", headers=headers), timeout=20).close()
            deadline = time.monotonic() + 30
            while more and len(got) < 3 and time.monotonic() < deadline:
                time.sleep(0.1)
        finally:
            process.terminate()
            out, err = process.communicate(timeout=60)
        expect(process.returncode == 0, out + err)
        return json.loads(out)["forwarded"], err

    with tempfile.TemporaryDirectory() as folder:
        token = write(folder, "token", "s3cret-token-of-tempo-0123456789\n")
        os.chmod(token, 0o600)
        there = f"http://127.0.0.1:{server.server_port}"
        told, err = collect(there + "/", "--forward-token-file", token)
        server.shutdown()
        server.server_close()
        expect(told == {"sent": 3, "refused": 0, "dropped": 0}, f"{told} {err}")
        expect(sorted(one[:3] for one in got) ==
               [("/v1/traces", kind, "Bearer s3cret-token-of-tempo-0123456789")
                for kind in ("application/json", "application/x-protobuf",
                             "application/x-protobuf")], str(got))
        bodies = [one[3] for one in got] # what was refused at first comes behind the others
        expect(binary in bodies and text in bodies, "as they came")
        expect(sum(b"mail" in body for body in bodies) == 1, "Zipkin's as OTLP")
        told, err = collect(there) # nobody listens there now
        expect(told == {"sent": 0, "refused": 0, "dropped": 3}, f"{told} {err}")
        wrong = run("trace", "collect", "--forward", "tempo:4318")
        expect(wrong.returncode == 64 and "http://tempo:4318" in wrong.stderr, wrong.stderr)


def the_door_has_tls():
    with tempfile.TemporaryDirectory() as folder:
        cert, key = (str(Path(folder) / name) for name in ("cert.pem", "key.pem"))
        try:
            subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout",
                            key, "-out", cert, "-days", "2", "-subj", "/CN=localhost", "-addext",
                            "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
        except OSError:
            cli_test.skip("openssl is not there to make a certificate")
        args = ["trace", "collect", "--listen", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--store",
                str(Path(folder, "traces.db")), "-o", "json"]
        process = subprocess.Popen([cli_test.AWARE, *args, "--tls-cert", cert, "--tls-key", key],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            address = re.search(r"https://[\d.]+:\d+", process.stderr.readline())[0]
            request = urllib.request.Request(
                address + "/v1/traces", data=(GOLDEN / "otlp.bin").read_bytes(), method="POST",
                headers={"Content-Type": "application/x-protobuf"})
            trusted = ssl.create_default_context(cafile=cert)
            with urllib.request.urlopen(request, timeout=20, context=trusted) as answer:
                expect(answer.status == 200, str(answer.status))
            plain = address.replace("https", "http") + "/v1/traces"
            try:
                urllib.request.urlopen(urllib.request.Request(plain, data=b"", method="POST"),
                                       timeout=20)
                expect(False, "plain was taken")
            except OSError:
                pass
        finally:
            process.terminate()
            out, err = process.communicate(timeout=60)
        expect(process.returncode == 0 and json.loads(out)["spans"] == 3, out + err)
        for more, code, text in ((["--tls-cert", cert], 64, "both a certificate and its key"),
                                 (["--tls-cert", key, "--tls-key", key], 78, "in PEM")):
            done = run(*args, *more)
            expect(done.returncode == code and text in done.stderr, done.stderr)


def a_daemon_takes_spans_beside_its_work():
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            [cli_test.AWARE, "run", "--daemon", "-f", files(folder, ("web",)), "--speed", "50",
             "--traces", "127.0.0.1:0", "--traces-grpc", "127.0.0.1:0", "--log-format", "json"],
            cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            ports = {}
            while len(ports) < 2:
                line = process.stderr.readline()
                expect(line, "the daemon ended")
                for way in ("HTTP", "gRPC"):
                    if f"spans are taken over {way}" in line:
                        ports[way] = json.loads(line)["port"]
            threading.Thread(target=process.stderr.read, daemon=True).start()
            expect(all(ports.values()), str(ports))
            now = time.time_ns() // 1000
            spans = [{"traceId": "77", "id": "1", "timestamp": now, "duration": 250_000,
                      "localEndpoint": {"serviceName": "mail"}}]
            request = urllib.request.Request(
                f"http://127.0.0.1:{ports['HTTP']}/api/v2/spans", method="POST",
                data=json.dumps(spans).encode(), headers={"Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=20) as answer:
                expect(answer.status == 202, str(answer.status))
            expect(run("get", "-o", "json", cwd=folder).returncode == 0, "it does not answer")
        finally:
            process.terminate()
            expect(process.wait(timeout=60) == 0, "the daemon ends well")
        (store,) = Path(folder).rglob("traces.db")
        expect(json_of("list", str(store))["requests"][0]["latency_ms"] == 250, "kept at the end")
        for args in (["--traces", "127.0.0.1:0"], ["--traces-grpc", "127.0.0.1:0"]):
            done = run("run", *args, cwd=folder)
            expect(done.returncode == 64 and "goes with --daemon alone" in done.stderr, done.stderr)


def data(name):
    folder = os.environ.get("AWARE_DATA_DIR")
    if not folder:
        skip("AWARE_DATA_DIR is not set")
    folder = Path(folder, name)
    if not folder.is_dir():
        skip(f"no {folder}")
    return str(folder)


def real_faults_are_found_by_what_others_taught():
    folder = data("nezha_trainticket")
    for args in ([], ["--hold-out"]):
        got = json_of("evaluate", folder, *args)
        expect(got["resource"]["cases"] == 11 and got["resource"]["top1"] >= 0.9 and
               got["resource"]["top3"] == 1, str(got["resource"]))
        expect(got["code"]["cases"] == 16 and got["code"]["confident"] <= 0.1, str(got["code"]))
        expect(got["normal"]["cases"] == 2 and got["normal"]["confident"] <= 0.1, str(got))
    got = json_of("evaluate", data("rcd_sockshop"))
    expect(got["resource"]["cases"] == 30 and got["resource"]["top1"] == 1, str(got["resource"]))


def what_ships_was_learned_from_the_shared_faults():
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "learned.json")
        expect_ok("trace", "learn", data("nezha_trainticket"), "--out", str(out))
        shipped = Path(__file__).parents[2] / "src" / "trace" / "localizer.json"
        ours, theirs = json.loads(out.read_text()), json.loads(shipped.read_text())
        for one, other in zip([ours["threshold"], *ours["weights"]],
                              [theirs["threshold"], *theirs["weights"]], strict=True):
            expect(abs(one - other) < 1e-6, "src/trace/localizer.json: learn it again")


def the_demo_of_services_names_the_culprit_and_mends_it():
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "demo.html"
        out = expect_ok("run", "--demo", "services", "--output", "json", "--seed", "3", "--report",
                        str(page))
        firm, hpa = json.loads(out.stdout)["runs"]
        texts = [event["text"] for event in firm["events"]]
        expect(any(t.startswith("to blame: reservation-db") and "needs disk" in t for t in texts),
               f"the disk of reservation-db is not blamed: {texts}")
        expect(any("given: disk of reservation-db" in t for t in texts), f"not given: {texts}")
        expect(firm["missed_share"] * 4 < hpa["missed_share"], "no better than HPA")
        expect(all(one["mended"] for one in firm["violations"]), "not mended")
        html = page.read_text()
        expect("<svg" in html and "reservation-db" in html, "no page")
        again = run("run", "--demo", "services", "--output", "json", "--seed", "3")
        expect(again.stdout == out.stdout, "the same seed told another story")


CAMPAIGN = """kind: AnomalyCampaign
application: hotel
seed: 5
duration: 30s
anomalies:
- {target: geo-db, kind: disk, intensity: 0.6, at: 14s, for: 10s}
"""


def a_campaign_leaves_labels_and_spans_that_name_its_target():
    with tempfile.TemporaryDirectory() as folder:
        file, spans, events = (Path(folder) / n for n in ("c.yaml", "spans.json", "events.json"))
        file.write_text(CAMPAIGN)
        told = json.loads(expect_ok("inject", "-f", str(file), "--spans", str(spans), "--events",
                                    str(events), "--output", "json").stdout)
        (one,) = told["anomalies"]
        expect(one["target"] == "geo-db" and one["begin_s"] == 14 and one["end_s"] == 24, told)
        expect(one["missed_share"] > 0.05 > one["missed_share_before"], f"no effect: {one}")
        expect(json.loads(events.read_text())["anomalies"] == told["anomalies"], "another log")
        listed = json.loads(expect_ok("trace", "graph", str(spans), "--output", "json").stdout)
        expect("geo-db" in json.dumps(listed), "its spans do not show geo-db")
        file.write_text(CAMPAIGN.replace("geo-db", "geo-bd"))
        wrong = run("inject", "-f", str(file))
        expect(wrong.returncode == 78 and "did you mean 'geo-db'?" in wrong.stderr, wrong.stderr)


def a_graph_of_services_is_served_and_its_record_explains_it():
    """The disk of cart-db is slow from 15 s on: it is blamed and given more, as the record says."""
    with tempfile.TemporaryDirectory() as folder:
        state = str(Path(folder) / "state")
        graph = [a for n in ("shop", "shop-anomalies") for a in ("-f", f"{SERVICES}/{n}.yaml")]
        done = expect_ok("run", *graph, "-d", "30s", "--state", state)
        blamed = [row for row in done.stdout.splitlines() if "to blame: " in row]
        expect(blamed and "cart-db" in blamed[0] and "needs disk" in blamed[0], done.stdout)
        expect("the SLO is back" in done.stdout, done.stdout)
        expect("given: cart-db" in done.stdout, "something is given to the culprit")
        others = [row for row in done.stdout.splitlines()
                  if "given: " in row and "cart-db" not in row]
        expect(not others, f"only the culprit is given anything: {others}")
        history = expect_ok("history", "cart-db", "--state", state).stdout
        expect("needs disk" in history, history)
        decision = next(row.split()[0] for row in history.splitlines() if "replicas 1 -> 2" in row)
        why = expect_ok("explain", "cart-db", "--decision", decision, "--state", state).stdout
        expect("ms exclusive" in why and "needs disk" in why, why)
        expect("intact" in expect_ok("audit", "verify", f"{state}/audit").stdout, "a whole log")


if __name__ == "__main__":
    if len(sys.argv) > 2:
        cli_test.AWARE = os.path.abspath(sys.argv[2])
    globals()[sys.argv[1]]()
