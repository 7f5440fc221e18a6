#!/usr/bin/env python3
"""audit_test.py - the verbs of the audit log, as a user meets them.

    audit_test.py TEST [AWARE]    one of the functions below, against the program AWARE

The logs are written here, in Python: a second reading of the format. Exit status as in cli_test.py.
"""

import hashlib
import json
import sys
import tempfile
from pathlib import Path

import cli_test
from cli_test import expect, expect_ok, run

KINDS = ("decision", "freeze", "decision")


def lines_of(count, prev="0" * 64):
    """Entries 1 to `count`, every one its own commit, a minute apart."""
    lines = []
    for seq in range(1, count + 1):
        entry = {"seq": seq, "at": f"2026-11-16T02:{seq:02}:00.000000Z",
                 "kind": KINDS[seq % 3], "first": True, "workload": "shop/web", "cpu": 0.5 * seq,
                 "prev": prev}
        body = json.dumps(entry, separators=(",", ":"))
        prev = hashlib.sha256(body.encode()).hexdigest()
        lines.append(f'{body[:-1]},"hash":"{prev}"}}\n')
    return lines


def write_log(folder, lines, per_file=4):
    for i in range(0, len(lines), per_file):
        path = Path(folder, f"audit-{i // per_file + 1:08}.jsonl")
        path.write_text("".join(lines[i:i + per_file]))


def refused(*args, code=65):
    done = run(*args)
    expect(done.returncode == code, f"{args}: exit {done.returncode}, {done.stderr!r}")
    expect(done.stderr.startswith("aware: ") and done.stderr.count("\n") == 1, done.stderr)
    return done.stderr


def a_log_that_is_whole_is_called_intact():
    with tempfile.TemporaryDirectory() as folder:
        lines = lines_of(10)
        write_log(folder, lines)
        last = json.loads(lines[-1])["hash"]
        text = expect_ok("audit", "verify", folder).stdout
        expect(text == f"intact: entries 1 to 10 in 3 files; the last hash is {last}\n", text)
        document = json.loads(expect_ok("audit", "verify", folder, "-o", "json").stdout)
        expect(document["intact"] and document["entries"] == 10 and
               document["last_hash"] == last, str(document))
        expect_ok("audit", "verify", folder, "--head", json.loads(lines[3])["hash"])
        text = refused("audit", "verify", folder, "--head", "f" * 64)
        expect("ffff" in text, text)
        refused("audit", "verify", folder, "--head", "12")


def what_was_changed_is_named_with_its_place():
    with tempfile.TemporaryDirectory() as folder:
        lines = lines_of(10)
        write_log(folder, lines[:5] + [lines[5].replace("shop", "shoq")] + lines[6:])
        text = refused("audit", "verify", folder)
        expect("audit-00000002.jsonl:2: " in text and "edited" in text, text)
        done = run("audit", "verify", folder, "-o", "json")
        document = json.loads(done.stdout)
        expect(done.returncode == 65 and not document["intact"], str(document))
        expect((document["finding"]["file"], document["finding"]["line"],
                document["finding"]["seq"]) == ("audit-00000002.jsonl", 2, 6), str(document))
        write_log(folder, lines[:5] + lines[6:])
        expect("entries are missing" in refused("audit", "verify", folder), "a line is gone")
        write_log(folder, [*lines[:5], lines[6], lines[5], *lines[7:]])
        expect("expected entry 6, found entry 7" in refused("audit", "verify", folder), "swapped")


def a_torn_end_is_said_to_be_perhaps_a_power_cut():
    with tempfile.TemporaryDirectory() as folder:
        lines = lines_of(3)
        write_log(folder, [*lines[:2], lines[2][:100]])
        expect("a power cut does this too" in refused("audit", "verify", folder), "torn")
        text = expect_ok("audit", "show", folder).stdout
        expect(len(text.splitlines()) == 3, text)


def entries_are_shown_by_time_kind_and_number():
    with tempfile.TemporaryDirectory() as folder:
        write_log(folder, lines_of(10))
        text = expect_ok("audit", "show", folder, "--last", "3").stdout
        rows = text.splitlines()
        expect(len(rows) == 4 and rows[1].split()[:4] ==
               ["8", "2026-11-16", "02:08:00", "decision"], text)
        expect("workload=shop/web cpu=4.0" in rows[1] and "prev" not in text, text)
        document = json.loads(expect_ok("audit", "show", folder, "--kind", "freeze", "-o",
                                        "json").stdout)
        expect([e["seq"] for e in document["entries"]] == [1, 4, 7, 10], str(document))
        document = json.loads(expect_ok("audit", "show", folder, "--since",
                                        "2026-11-16T02:09:00Z", "-o", "json").stdout)
        expect([e["seq"] for e in document["entries"]] == [9, 10], str(document))
        refused("audit", "show", folder, "--since", "yesterday", code=64)
        refused("audit", "show", folder, "--last", "0", code=64)


def what_is_no_log_is_refused_and_damage_is_shown_as_such():
    with tempfile.TemporaryDirectory() as folder:
        refused("audit", "verify", folder, code=66)
        refused("audit", "show", str(Path(folder, "none")), code=66)
        lines = lines_of(4)
        write_log(folder, [lines[0], "\x1b[31m nonsense\n", *lines[2:]])
        text = expect_ok("audit", "show", folder).stdout
        expect("damaged" in text and "\x1b" not in text, text)


if __name__ == "__main__":
    if len(sys.argv) > 2:
        cli_test.AWARE = sys.argv[2]
    globals()[sys.argv[1]]()
