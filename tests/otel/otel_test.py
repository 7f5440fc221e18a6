#!/usr/bin/env python3
"""otel_test.py - spans from a real OpenTelemetry SDK (JavaScript), by every way it can send them.

    otel_test.py TEST AWARE OUT    one of the functions below; what npm brings is kept in OUT

Exit status as in cli_test.py.
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE.parent / "cli"))

import cli_test  # noqa: E402
from cli_test import expect, expect_ok, need, skip  # noqa: E402

OUT = None


def sdk():
    """Where the SDK is: from npm, pinned by package-lock.json."""
    place = Path(OUT, "otel-npm")
    if not (place / "node_modules/@opentelemetry/sdk-trace-base").exists():
        need("npm")
        place.mkdir(parents=True, exist_ok=True)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(HERE / name, place)
        done = subprocess.run(["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"],
                              cwd=place, capture_output=True, text=True, check=False, timeout=300)
        if done.returncode:
            skip(f"npm cannot bring OpenTelemetry: {done.stderr.strip().splitlines()[-1:]}")
    return place


def what_a_real_sdk_sends_is_what_is_shown():
    need("node")
    place = sdk()
    with tempfile.TemporaryDirectory() as folder:
        store = str(Path(folder, "traces.db"))
        collector = subprocess.Popen(
            [cli_test.AWARE, "trace", "collect", "--listen", "127.0.0.1:0", "--grpc",
             "127.0.0.1:0", "--store", store, "-o", "json"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        sent = {}
        try:
            told = collector.stderr.readline()
            http = re.search(r"http://([\d.]+:\d+)", told)[1]
            grpc = "127.0.0.1:" + re.search(r"gRPC at port (\d+)", told)[1]
            for way in ("grpc", "grpc+gzip", "http-protobuf", "http-protobuf+gzip", "http-json",
                        "http-json+gzip", "zipkin"):
                done = subprocess.run(
                    ["node", str(HERE / "send.mjs"), way, grpc if "grpc" in way else http],
                    cwd=place, capture_output=True, text=True, check=False, timeout=120)
                expect(done.returncode == 0, f"{way}: {done.stderr}")
                sent[way] = done.stdout.strip()
        finally:
            collector.terminate()
            out, err = collector.communicate(timeout=60)
        counts = json.loads(out)
        expect(counts["requests"] == len(sent) and counts["spans"] == 3 * len(sent) and
               counts["refused"] == counts["late"] == 0, out + err)
        for way, ident in sent.items():
            shown = json.loads(expect_ok("trace", "show", store, "--trace", ident, "-o",
                                         "json").stdout)
            spans = [(s["service"], s["operation"], s["kind"], round(s["start_ms"], 3),
                      round(s["duration_ms"], 3), round(s["on_path_ms"], 3), s["error"])
                     for s in shown["spans"]]
            expect(spans == [("front", "GET /cart", "server", 0, 100, 20, False),
                             ("front", "GET orders", "client", 10, 80, 20, False),
                             ("orders", "GET /orders", "server", 25, 60, 60, True)],
                   f"{way}: {spans}")
            expect(shown["trace"] == ident, f"{way}: {shown['trace']}")


if __name__ == "__main__":
    cli_test.AWARE, OUT = sys.argv[2], sys.argv[3]
    globals()[sys.argv[1]]()
