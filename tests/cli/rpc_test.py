#!/usr/bin/env python3
"""rpc_test.py - environments over gRPC, as a user meets them.

    rpc_test.py TEST AWARE    one of the functions below, against the program

Everything listens on and talks to this machine. Exit status as in cli_test.py.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import cli_test
from cli_test import expect, expect_ok, run, skip

PATIENCE_S = 120
TOKEN = "a-token-of-many-characters"


@contextlib.contextmanager
def serving(*args):
    """A server; yields the address that it printed, and sees to it that it ends well."""
    process = subprocess.Popen([cli_test.AWARE, "env", "serve", *args], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    address = process.stdout.readline().strip()
    try:
        yield address
    finally:
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=PATIENCE_S)
        expect(process.returncode == 0 and not errors, f"{process.returncode}: {errors}")


def what_is_served_is_learned_from():
    with serving("--listen", "127.0.0.1:0") as address:
        expect(address.startswith("grpc://127.0.0.1:"), address)
        done = expect_ok("env", "describe", f"{address}/pendulum-v1", "-o", "json")
        told = json.loads(done.stdout)
        expect([axis["name"] for axis in told["action"]["elements"]] == ["torque"], told)
        common = ("--agent", "td3", "--steps", "400", "--eval-episodes", "2", "--preset",
                  "pendulum-v1", "--quiet", "-o", "json")
        there = expect_ok("train", "--env", f"{address}/pendulum-v1", *common)
        here = expect_ok("train", "--env", "pendulum-v1", *common)
        returns = [json.loads(done.stdout)["evaluation"] for done in (there, here)]
        expect(returns[0] == returns[1], f"another environment over the wire: {returns}")
        done = run("train", "--env", f"{address}/no-such", "--agent", "td3")
        expect(done.returncode == 66 and "no-such" in done.stderr, done.stderr)
    done = run("train", "--env", f"{address}/pendulum-v1", "--agent", "td3")
    expect(done.returncode == 69 and address[7:] in done.stderr and done.stderr.count("\n") == 1,
           done.stderr)


def beyond_this_machine_it_takes_tls_and_a_token():
    done = run("env", "serve", "--listen", "0.0.0.0:0")
    expect(done.returncode == 78 and "TLS and a token" in done.stderr, done.stderr)
    with tempfile.TemporaryDirectory() as folder:
        cert, key, token = (Path(folder) / name for name in ("cert.pem", "key.pem", "token"))
        try:
            subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout",
                            key, "-out", cert, "-days", "2", "-subj", "/CN=localhost", "-addext",
                            "subjectAltName=DNS:localhost"], check=True, capture_output=True)
        except OSError:
            skip("openssl is not there to make a certificate")
        token.write_text(TOKEN + "\n")
        os.chmod(token, 0o600)
        with serving("--listen", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key,
                     "--token-file", token) as address:
            port = address.rsplit(":", 1)[1]
            where = f"grpcs://localhost:{port}/cartpole-v1?ca={cert}"
            expect_ok("env", "describe", f"{where}&token={token}")
            done = run("env", "describe", where)
            expect(done.returncode == 78 and "UNAUTHENTICATED" in done.stderr, done.stderr)
            done = run("env", "describe", f"grpc://localhost:{port}/cartpole-v1")
            expect(done.returncode == 69, f"plain was taken: {done.stderr}")
            done = run("env", "describe", f"grpcs://localhost:{port}/cartpole-v1?token={token}")
            expect(done.returncode == 69, f"an unknown certificate was trusted: {done.stderr}")


if __name__ == "__main__":
    if len(sys.argv) > 2:
        cli_test.AWARE = os.path.abspath(sys.argv[2])
    globals()[sys.argv[1]]()
