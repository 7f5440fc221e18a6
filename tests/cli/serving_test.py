#!/usr/bin/env python3
"""serving_test.py - the verbs of GPUs and of the proxy before model servers, as a user meets them.

    serving_test.py TEST [AWARE]    one of the functions below, against the program AWARE

Exit status as in cli_test.py. AW_FAKE_NVML names the fake of NVIDIA's library (tests/doubles).
"""

import http.client
import json
import os
import signal
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import cli_test
from cli_test import expect, expect_ok, run

LOCKED_AT = 24  # of the first GPU's locked clock in struct fake_nvml
PATIENCE_S = 30


def devices_are_listed_watched_and_played_back():
    document = json.loads(expect_ok("gpu", "list", "-d", "sim:2", "-o", "json").stdout)
    expect([d["id"] for d in document["devices"]] == ["sim0", "sim1"], str(document))
    expect(document["devices"][0]["clocks_mhz"][-1] == 1380, str(document))
    dry = expect_ok("gpu", "watch", "-d", "sim:1", "-n", "2", "-i", "50", "--clock", "901").stdout
    expect("dry run, would set 900 MHz (the nearest there is)" in dry and "1380 MHz" in dry, dry)
    done = expect_ok("gpu", "watch", "-d", "sim:1", "-n", "3", "-i", "100", "--clock", "900",
                     "--act").stdout
    expect(" 900 MHz" in done.splitlines()[-1] and done.rstrip().endswith("; set"), done)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "gpus.csv")
        path.write_text(expect_ok("gpu", "watch", "-d", "sim:1", "-n", "2", "-i", "20",
                                  "-o", "csv").stdout)
        again = json.loads(expect_ok("gpu", "list", "-d", f"recorded:{path}", "-o", "json").stdout)
        expect(again["devices"][0]["reading"]["clock_mhz"] == 1380, str(again))


def what_cannot_be_done_is_said_with_its_remedy():
    for spec, status, words in (("nvml:/nowhere.so", 69, "no NVIDIA driver here"),
                                ("helper:/nowhere.sock", 69, "aware gpu helper --socket"),
                                ("cpufreq:/nowhere", 69, "virtual machines show none"),
                                ("rocm", 64, "expected auto, nvml")):
        done = run("gpu", "list", "-d", spec)
        expect(done.returncode == status and words in done.stderr, f"{spec}: {done.stderr}")


def a_killed_watcher_leaves_no_clock_behind():
    library = os.environ.get("AW_FAKE_NVML")
    if not library:
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder, "nvml")
        state.write_bytes(bytes(4096))

        def locked_becomes(mhz):
            end = time.monotonic() + PATIENCE_S
            while time.monotonic() < end:
                if struct.unpack_from("I", state.read_bytes(), LOCKED_AT)[0] == mhz:
                    return True
                time.sleep(0.02)
            return False

        with subprocess.Popen([cli_test.AWARE, "gpu", "watch", "-d", f"nvml:{library}",
                               "--clock", "705", "--act"], stdout=subprocess.DEVNULL,
                              env={**os.environ, "FAKE_NVML": str(state)}) as watcher:
            expect(locked_becomes(705), "the clock was not set")
            watcher.send_signal(signal.SIGKILL)
        expect(locked_becomes(0), "the clock was left behind")


class Serving:
    """A stand-in model server and the proxy in front of it."""

    def __enter__(self):
        self.processes = []
        self.model = self.begin("serving", "standin", "--port", "0", "--decode", "1000",
                                "--batch", "0", "--prefill", "0")
        self.proxy = self.begin("serving", "proxy", "-u", f"127.0.0.1:{self.model}",
                                "-l", "127.0.0.1:0", "-d", "sim:1")
        return self

    def begin(self, *words):
        process = subprocess.Popen([cli_test.AWARE, *words], stderr=subprocess.PIPE, text=True)
        self.processes.append(process)
        line = process.stderr.readline()
        return int(line.split("http://127.0.0.1:")[1].split(",")[0])

    def __exit__(self, *_):
        for process in reversed(self.processes):
            process.terminate()
            expect(process.wait(timeout=PATIENCE_S) == 0, "did not end well")
            process.stderr.close()


def ask(port, method, path, body=None, headers=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    connection.request(method, path, body, headers or {})
    answer = connection.getresponse()
    data = answer.read()
    connection.close()
    return answer.status, data


def the_proxy_passes_streams_measures_and_explains():
    with Serving() as serving:
        body = json.dumps({"stream": True, "prompt": "my secret words"})
        body = body.replace(": ", ":").replace(", ", ",")
        for seed in range(3):
            headers = {"X-Seed": str(seed), "X-Tokens": "20"}
            through = ask(serving.proxy, "POST", "/v1/completions", body, headers)
            direct = ask(serving.model, "POST", "/v1/completions", body, headers)
            expect(through == direct and through[0] == 200, f"{through} is not {direct}")
        document = json.loads(ask(serving.proxy, "GET", "/aware/explain")[1])
        expect(document["lengths_learned"] == 3, str(document))
        last = document["finished"][0]
        expect(last["tokens"] == 20 and abs(last["predicted_tokens"] - 20) <= 1, str(last))
        expect(last["seen_before"] and last["why"] == "nobody else waited", str(last))
        expect(last["ttft_ms"] > 0 and last["tpot_ms"] > 0.9, str(last))
        expect("secret" not in json.dumps(document), "a prompt was kept")
        status, metrics = ask(serving.proxy, "GET", "/metrics")
        expect(status == 200 and b"aware_proxy_answered_total 3\n" in metrics, metrics.decode())
        status, data = ask(serving.proxy, "POST", "/v1/completions", "{", {})
        expect(status == 400 and "expected" in json.loads(data)["error"]["message"], str(data))


def clocks_follow_the_slo_and_go_back_after_sigkill():
    """Through the fake NVML library, its helper and the audit log: slack lowers, SIGKILL resets."""
    library = os.environ["AW_FAKE_NVML"]
    with tempfile.TemporaryDirectory() as folder, Serving() as serving:
        state = Path(folder, "nvml")
        state.write_bytes(bytes(4096))
        audit = Path(folder, "audit")

        def locked():
            return struct.unpack_from("I", state.read_bytes(), LOCKED_AT)[0]

        def waited(test):
            end = time.monotonic() + PATIENCE_S
            while time.monotonic() < end and not test():
                time.sleep(0.02)
            return test()

        words = [cli_test.AWARE, "serving", "proxy", "-u", f"127.0.0.1:{serving.model}#0", "-l",
                 "127.0.0.1:0", "-d", f"nvml:{library}", "--power", "predictive",
                 "--slo", "latency=20s,tpot=1s"]
        refused = subprocess.run(words + ["--act"], stderr=subprocess.PIPE, text=True, check=False)
        expect(refused.returncode != 0 and "--audit" in refused.stderr, refused.stderr)
        with subprocess.Popen(words + ["--act", "--audit", str(audit)], stderr=subprocess.PIPE,
                              text=True, env={**os.environ, "FAKE_NVML": str(state)}) as proxy:
            port = int(proxy.stderr.readline().split("http://127.0.0.1:")[1].split(",")[0])
            for seed in range(12):
                ask(port, "POST", "/v1/completions", '{"stream":true,"prompt":"a word"}',
                    {"X-Seed": str(seed), "X-Tokens": "20"})
            expect(waited(lambda: 0 < locked() < 1380), "the clock did not go down")
            clocks = json.loads(ask(port, "GET", "/aware/clocks")[1])["clocks"]
            expect(len(clocks) == 2 and clocks[0]["acts"], str(clocks))
            expect("MHz: " in clocks[0]["why"], str(clocks))
            proxy.send_signal(signal.SIGKILL)
        expect(waited(lambda: locked() == 0), "the clock was left behind")
        lines = [json.loads(line) for line in
                 (audit / "audit-00000001.jsonl").read_text("utf-8").splitlines()]
        expect(lines and all(line["kind"] == "clock" for line in lines), str(lines[:1]))
        expect(lines[0]["from_mhz"] > lines[0]["to_mhz"] and lines[0]["acts"], str(lines[0]))


def a_model_of_onnx_is_profiled():
    """A block of a transformer, written by the onnx package itself."""
    try:
        import numpy  # pylint: disable=import-outside-toplevel
        from onnx import TensorProto, helper, numpy_helper, save
    except ImportError as missing:
        cli_test.skip(str(missing))
    weights, nodes = [], []
    for name, shape in (("q", (64, 64)), ("k", (64, 64)), ("up", (64, 256)), ("down", (256, 64))):
        weights.append(numpy_helper.from_array(numpy.zeros(shape, numpy.float16), name))
    for name in "qk":
        nodes.append(helper.make_node("MatMul", ["x", name], [name + "o"], name=name))
        weights.append(numpy_helper.from_array(numpy.array([0, 0, 4, 16]), name + "to"))
        nodes.append(helper.make_node("Reshape", [name + "o", name + "to"], [name + "r"]))
        nodes.append(helper.make_node("Transpose", [name + "r"], [name + "t"],
                                      perm=[0, 2, 3, 1] if name == "k" else [0, 2, 1, 3]))
    nodes += [helper.make_node("MatMul", ["qt", "kt"], ["s"], name="scores"),
              helper.make_node("Softmax", ["s"], ["y"]),
              helper.make_node("MatMul", ["x", "up"], ["u"], name="up"),
              helper.make_node("Relu", ["u"], ["v"]),
              helper.make_node("MatMul", ["v", "down"], ["z"], name="down")]
    sizes = ["batch", 32, 64]
    graph = helper.make_graph(
        nodes, "block", [helper.make_tensor_value_info("x", TensorProto.FLOAT16, sizes)],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT16, sizes)], weights)
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/block.onnx"
        save(helper.make_model(graph), path)
        done = expect_ok("serving", "profile", "--data", path, "--free", "2", "--output", "json")
        model = json.loads(done.stdout)
        by_name = {op["name"]: op for op in model["operators"]}
        expect(model["model"] == "block" and model["without_shape"] == 0, str(model))
        expect(by_name["q"]["flops"] == 2 * 2 * 32 * 64 * 64, str(by_name["q"]))
        expect(by_name["scores"]["flops"] == 2 * 2 * 4 * 32 * 32 * 16, str(by_name["scores"]))
        expect(by_name["down"]["flops"] == 2 * 2 * 32 * 256 * 64, str(by_name["down"]))
        done = expect_ok("serving", "profile", "--data", path)
        expect("MatMul" in done.stdout and "sensitivity" in done.stdout, done.stdout)
        Path(path).write_text("no model", "utf-8")
        done = run("serving", "profile", "--data", path)
        expect(done.returncode != 0 and "expected an ONNX model" in done.stderr, done.stderr)


if __name__ == "__main__":
    if len(sys.argv) > 2:
        cli_test.AWARE = sys.argv[2]
    globals()[sys.argv[1]]()
