#!/usr/bin/env python3
"""simulate_test.py - the verbs that simulate and fit, as a user meets them.

    simulate_test.py TEST [AWARE]    one of the functions below, against the program AWARE

Exit status as in cli_test.py. Tests of measured data read them from AWARE_DATA_DIR and are skipped
without it.
"""

import csv
import html.parser
import io
import json
import os
import sys
import tempfile
from pathlib import Path

import cli_test
from cli_test import expect, expect_ok, on_a_terminal, run, skip

SHORT = ["--episodes", "2", "-q"]


def data(*parts):
    folder = os.environ.get("AWARE_DATA_DIR")
    if not folder:
        skip("AWARE_DATA_DIR is not set")
    path = Path(folder, *parts)
    if not path.exists():
        skip(f"{path} is not there")
    return str(path)


def one_controller_is_summarised_in_words_json_and_csv():
    text = expect_ok("simulate", *SHORT).stdout
    for words in ("reward", "SLO", "cost", "OOM", "restarts", "replica-hours", "target"):
        expect(words in text, f"the summary lacks {words}")
    document = json.loads(expect_ok("simulate", *SHORT, "-o", "json").stdout)
    expect({"app", "load", "seed", "slo_ms", "settings", "policies"} <= set(document),
           f"keys {set(document)}")
    policy = document["policies"][0]
    expect(policy["policy"] == "hpa+vpa-mem" and 0 <= policy["reward"] <= 200, str(policy)[:200])
    expect(policy["reward_95"][0] <= policy["reward"] <= policy["reward_95"][1], "interval")
    rows = list(csv.DictReader(io.StringIO(expect_ok("simulate", *SHORT, "-o", "csv").stdout)))
    expect(len(rows) == 1 and abs(float(rows[0]["reward"]) - policy["reward"]) < 1e-9,
           f"CSV {rows}")


def a_comparison_marks_the_best_and_names_the_ceilings():
    names = ["static", "hpa", "oracle-cost"]
    text = expect_ok("simulate", *SHORT, "--compare", ",".join(names)).stdout
    expect("*" in text and "ceiling" in text, text)
    document = json.loads(
        expect_ok("simulate", *SHORT, "--compare", ",".join(names), "-o", "json").stdout)
    expect([p["policy"] for p in document["policies"]] == names, "order")
    expect([p["oracle"] for p in document["policies"]] == [False, False, True], "oracles")
    alone = json.loads(expect_ok("simulate", *SHORT, "-p", "hpa", "-o", "json").stdout)
    expect(alone["policies"][0] == document["policies"][1],
           "a policy fares differently in company")


def aware_itself_is_compared_and_is_not_one_of_all():
    names = ["hpa", "aware"]
    text = expect_ok("simulate", *SHORT, "--as-given", "--compare", ",".join(names)).stdout
    expect("aware: 15m 00s old when it is first scored" in text, text)
    document = json.loads(expect_ok("simulate", *SHORT, "--as-given", "--compare", ",".join(names),
                                    "-o", "json").stdout)
    expect([p["policy"] for p in document["policies"]] == names, "order")
    kept, missed = (document["policies"][i]["violation_share"] for i in (1, 0))
    expect(kept <= missed, f"aware misses {kept}, an untuned HPA {missed}")
    words = run("simulate", "--compare", "aware:day3").stderr
    expect("aware:day2" in words, words)


def the_same_seed_gives_the_same_bytes_on_one_thread_and_on_two():
    with tempfile.TemporaryDirectory() as folder:
        args = ["simulate", *SHORT, "--compare", "static,hpa,aimd", "-o", "json"]
        outputs = []
        for name, threads in (("a", "1"), ("b", "1"), ("c", "2")):
            page = Path(folder, name + ".html")
            outputs.append((expect_ok(*args, "-j", threads, "--report", str(page)).stdout,
                            page.read_bytes()))
        expect(outputs[0] == outputs[1], "two runs of one seed differ")
        expect(outputs[0] == outputs[2], "one thread and two differ")
        expect(expect_ok(*args, "--seed", "2").stdout != outputs[0][0], "the seed has no effect")
    args = ["simulate", *SHORT, "--apps", "3", "--compare", "static,hpa", "-o", "json"]
    expect(expect_ok(*args, "-j", "1").stdout == expect_ok(*args, "-j", "2").stdout,
           "a table on one thread and on two differs")


class Page(html.parser.HTMLParser):
    """Collects the data element, and notes what would be fetched or is left open."""

    VOID = {"meta", "link", "br", "img", "input", "hr"}

    def __init__(self):
        super().__init__()
        self.open, self.data, self.fetched, self.wrong = [], "", [], []

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        for key in ("src", "href"):
            if attrs.get(key) and not attrs[key].startswith("data:"):
                self.fetched.append(attrs[key])
        if tag not in self.VOID:
            self.open.append((tag, attrs.get("id")))

    def handle_endtag(self, tag):
        if not self.open or self.open[-1][0] != tag:
            self.wrong.append(tag)
        else:
            self.open.pop()

    def handle_data(self, data):
        if self.open and self.open[-1] == ("script", "data"):
            self.data += data


def a_report_is_one_page_with_its_data_inside():
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "r.html")
        Path(folder, "a<").mkdir()
        trace = Path(folder, "a<", "script><b>.txt") # a name that would end the data element
        trace.write_text("".join(f"{20 + i % 7}\n" for i in range(3600)))
        expect_ok("simulate", "--load", str(trace), *SHORT, "--compare", "static,hpa",
                  "--scenario", "neighbour-cpu", "--report", str(path))
        text = path.read_text(encoding="utf-8")
        page = Page()
        page.feed(text)
        expect(text.startswith("<!doctype html>") and "@@" not in text, "the template shows")
        expect(not page.open and not page.wrong, f"open {page.open}, wrong {page.wrong}")
        expect(not page.fetched, f"it fetches {page.fetched}")
        document = json.loads(page.data)
        expect([p["name"] for p in document["policies"]] == ["static", "hpa"], "policies")
        for policy in document["policies"]:
            for key in ("t", "load", "wanted", "ready", "cpu", "mem", "ucpu", "umem", "p99", "bad",
                        "set", "dir", "why"):
                expect(len(policy[key]) == 200, f"{key} has {len(policy[key])} points")
            expect(len(policy["summary"]) == len(document["columns"]), "summary")
        expect("neighbour-cpu" in document["notes"], document["notes"])
        long = Path(folder, "long.html")
        expect_ok("simulate", "-n", "100", "-q", "-p", "static", "--report", str(long))
        page = Page()
        page.feed(long.read_text(encoding="utf-8"))
        points = len(json.loads(page.data)["policies"][0]["t"])
        expect(2000 <= points <= 4000, f"{points} points of 10000 steps")


def a_file_says_what_options_say():
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "ask.yaml")
        path.write_text("app: 1:4\nload: bursts\ncompare: [static, hpa]\nepisodes: 2\nseed: 7\n"
                        "settings: {slo_factor: 2, replicas_max: 12}\n")
        by_file = expect_ok("simulate", "-f", str(path), "-q", "-o", "json").stdout
        by_option = expect_ok("simulate", "--app", "1:4", "--load", "bursts", "-c", "static,hpa",
                              "-n", "2", "-s", "7", "--set", "slo_factor=2", "--set",
                              "replicas_max=12", "-q", "-o", "json").stdout
        expect(by_file == by_option, "a file and the same options differ")
        over = json.loads(expect_ok("simulate", "-f", str(path), "-s", "8", "-q", "-o",
                                    "json").stdout)
        expect(over["seed"] == 8, "an option does not go before the file")
        path.write_text("workload:\n  apps:\n  - name: own\n    segments: [{kind: gzip}]\n"
                        "episodes: 1\npolicy: static\n")
        own = json.loads(expect_ok("simulate", "-f", str(path), "-q", "-o", "json").stdout)
        expect(own["app"] == "own", f"application {own['app']}")


SIMULATE = ["simulate", "-q", "--episodes", "1"]

BAD_INPUT = [
    # arguments, exit code, words that the line must have, why
    (SIMULATE + ["-p", "hpaa"], 66, ["hpaa", "hpa"], "no such policy"),
    (SIMULATE + ["-c", "hpa,hpa"], 64, ["hpa", "twice"], "a policy named twice"),
    (SIMULATE + ["-c", "hpa,"], 64, ["comma"], "a comma and nothing"),
    (SIMULATE + ["-c", "hpa", "-p", "vpa"], 64, ["--policy", "--compare"], "both at once"),
    (SIMULATE + ["-a", "nowhere.yaml"], 66, ["nowhere.yaml"], "no such application"),
    (SIMULATE + ["-l", "diurnl"], 66, ["diurnl", "diurnal"], "no such pattern"),
    (SIMULATE + ["-l", "diurnal:peek=3"], 78, ["peek", "peak"], "no such key of a load"),
    (SIMULATE + ["--set", "slo_facto=2"], 78, ["slo_facto", "slo_factor"], "no such setting"),
    (SIMULATE + ["--set", "replicas_min=9", "--set", "replicas_max=3"], 78, ["9", "3"],
     "impossible bounds"),
    (SIMULATE + ["--set", "cpu_max_cores=99"], 78, ["99", "node"], "larger than any node"),
    (SIMULATE + ["--set", "kind=hpa"], 78, ["kind", "--policy"], "what the name decides"),
    (SIMULATE + ["--set", "step_s"], 64, ["--set", "step_s"], "a setting without a value"),
    (SIMULATE + ["--cores", "many"], 64, ["--cores", "many"], "cores in words"),
    (SIMULATE + ["--scenario", "earthquake"], 66, ["earthquake"], "no such scenario"),
    (SIMULATE + ["--model", "exact"], 64, ["exact", "reference"], "no such model"),
    (SIMULATE + ["--model", "reference", "-p", "oracle"], 69, ["oracle", "fast"],
     "a ceiling needs the fast model"),
    (SIMULATE + ["-r", "/nowhere/r.html"], 66, ["/nowhere"], "a report with no place"),
    (SIMULATE + ["--apps", "2", "-r", "r.html"], 64, ["--report"], "a report of many"),
    (SIMULATE + ["-f", "/nowhere.yaml"], 66, ["/nowhere.yaml"], "no such file"),
    (["simulate", "fit", "/nowhere.csv"], 66, ["/nowhere.csv"], "nothing to fit"),
    (["simulate", "fit"], 64, ["FILE"], "nothing named to fit"),
]


def bad_input_gets_one_line_and_the_right_code():
    cli_test.BAD_INPUT = BAD_INPUT
    cli_test.bad_input_gets_one_line_and_the_right_code()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "f")
        table = [
            ("empty.txt", "", "-l", 69, "an empty trace"),
            ("zeros.txt", "0\n0\n", "-l", 69, "a trace without requests"),
            ("ask.yaml", "polcy: hpa\n", "-f", 78, "an unknown key, with its line"),
            ("ask.yaml", "settings: {slo_factr: 2}\n", "-f", 78, "an unknown setting"),
            ("ask.yaml", "settings: [1]\n", "-f", 78, "a list for a map"),
            ("apps.yaml", "apps: []\n", "-a", None, "no applications"),
        ]
        for name, text, option, code, why in table:
            path = Path(folder, name)
            path.write_text(text)
            done = run(*SIMULATE, option, str(path))
            expect(done.returncode == code if code else done.returncode != 0,
                   f"{why}: exit {done.returncode}: {done.stderr!r}")
            expect(done.stderr.count("\n") == 1, f"{why}: {done.stderr!r}")


def what_breaks_is_felt_and_what_is_misspelt_is_said():
    args = ["simulate", "--app", "1:3", "--policy", "static", *SHORT, "-o", "json"]
    whole = json.loads(expect_ok(*args).stdout)["policies"][0]
    lost = json.loads(expect_ok(*args, "--fault", "node:0@5m+20m,node:1@5m+20m,node:2@5m+20m,"
                                "node:3@5m+20m,node:4@5m+20m,node:5@5m+20m,node:6@5m+20m,"
                                "node:7@5m+20m").stdout)["policies"][0]
    expect(lost["failed_share"] > whole["failed_share"] + 0.1,
           f"{whole} {lost}")
    for text in ("nod@5m+1m", "node@5m", "metrics:1@5m+1m", "api@5m+x", "node:8@1m+1m", ""):
        done = run("simulate", *SHORT, "--fault", text)
        expect(done.returncode == 64 and done.stderr.count("\n") == 1 and "--fault" in done.stderr,
               f"{text!r}: exit {done.returncode}, {done.stderr!r}")


def an_slo_that_nothing_can_meet_is_a_named_warning():
    done = expect_ok(*SIMULATE, "-p", "static", "--set", "slo_ms=0.01")
    expect("no allocation can meet the SLO" in done.stderr, done.stderr)
    done = expect_ok(*SIMULATE, "-p", "static", "--load", "constant:mean=1000000")
    expect("more than all replicas can serve" in done.stderr, done.stderr)


def lines_are_drawn_on_a_terminal_alone():
    args = ["simulate", "--episodes", "100", "--compare", "hpa,static", "-j", "1"]
    code, drawn = on_a_terminal(args)
    expect(code == 0, f"exit {code}")
    expect("is being tuned" in drawn or "missed" in drawn, f"nothing was drawn: {drawn[:200]!r}")
    expect("\x1b[J" in drawn, "what was drawn is not erased")
    done = expect_ok("simulate", "--episodes", "2", "-p", "hpa")
    expect(done.stderr == "", f"lines without a terminal: {done.stderr!r}")


def made_up(path, rows=400):
    """Rows as a queue with 20 ms of CPU per request would give them, the last ones malformed."""
    with open(path, "w", encoding="utf-8") as out:
        out.write("requests,latency_ms,replicas,cores\n")
        for i in range(rows):
            cores = (0.5, 1)[i % 2]
            load = 0.05 + 0.9 * (i // 2) / (rows // 2)
            rate = load * cores / 0.020
            latency = 25 + 8 * load / (1.02 - load)
            out.write(f"{60 * rate:.1f},{latency:.2f},1,{cores}\n")
        out.write("12,fast,1,1\n12\n")


def a_fit_is_judged_on_unseen_rows_and_can_be_run():
    with tempfile.TemporaryDirectory() as folder:
        rows, app = Path(folder, "rows.csv"), Path(folder, "app.yaml")
        made_up(rows)
        args = ["simulate", "fit", str(rows), "-o", str(app)]
        done = expect_ok(*args, "--output", "json")
        document = json.loads(done.stdout)
        expect(document["rows"] == 400 and document["rows_bad"] == 2, str(document)[:200])
        expect("402" in done.stderr and "fast" in done.stderr, f"no place: {done.stderr!r}")
        fit = document["fits"][0]
        expect(fit["rows_seen"] == 280 and fit["rows_unseen"] == 120, "the split")
        expect(fit["error_median"] < 0.15, f"median error {fit['error_median']}")
        expect(json.loads(expect_ok(*args, "--output", "json").stdout) == document, "not the same")
        expect("KNEES" in expect_ok(*args).stdout, "no table")
        ran = json.loads(expect_ok("simulate", "--app", str(app), *SHORT, "-p", "static", "-o",
                                   "json").stdout)
        expect(ran["app"] == "rows", ran["app"])


def measured_services_are_fitted():
    """Must stay as good as docs/results/fit.md says, with room for another compiler's rounding."""
    table = [("primeapp_primeapp.csv", 0.30, 0.75), ("serveapp_serveapp.csv", 0.35, 0.5)]
    for name, median, near in table:
        path = data("terminus_microservice_capacity", name)
        fit = json.loads(expect_ok("simulate", "fit", path, "-o", os.devnull, "--output",
                                   "json").stdout)["fits"][0]
        expect(fit["error_median"] < median, f"{name}: median error {fit['error_median']}")
        expect(fit["knees_near"] >= near * len(fit["knees"]), f"{name}: {fit['knees_near']} knees")


def measured_functions_are_fitted():
    path = data("aws_lambda_memory_slapp", "App6_Lambda_Logs.csv")
    document = json.loads(expect_ok("simulate", "fit", path, "--output", "json").stdout)
    expect(len(document["fits"]) == 6, "functions")
    for fit in document["fits"]:
        expect(fit["error_median"] < 0.08, f"{fit['app']}: median error {fit['error_median']}")


if __name__ == "__main__":
    if len(sys.argv) > 2:
        cli_test.AWARE = sys.argv[2]
    globals()[sys.argv[1]]()
