#!/usr/bin/env python3
"""cache_task.py - a task of one's own in Python: how large should a cache be?

    cache_task.py [PATH OF aware]

A pair is a service whose requests follow Zipf's law over its keys, with a backend of its own speed.
A configuration is a cache size. The value is the mean time of a request. What is learned from other
services predicts a new one from two measurements; the exit status is 1 unless it halves the error
of the best rule without learning. `aware_task.py` lies in the folder python.
"""

import math
import random
import sys

import aware_task


class CacheSize:
    name = "cache-size"
    columns = ["cache_mb"]
    configurations = [(64 * 2**k,) for k in range(8)]

    def pair(self, seed):
        random.seed(seed)
        return {"keys_mb": 2 ** random.uniform(8, 14), "skew": random.uniform(0.5, 1.2),
                "hit_ms": random.uniform(0.2, 1), "miss_ms": random.uniform(5, 80)}

    def sample(self, pair, configuration):
        part = min(1.0, configuration[0] / pair["keys_mb"])
        hits = part ** (1 - pair["skew"] / 1.5)
        noise = math.exp(random.gauss(0, 0.02))
        return (hits * pair["hit_ms"] + (1 - hits) * pair["miss_ms"]) * noise


def main():
    rows = aware_task.compare(CacheSize(), aware=sys.argv[1] if len(sys.argv) > 1 else "aware")
    at_two = {row["method"]: row["mape"] for row in rows if row["shots"] == 2 and row["mape"]}
    for method, mape in at_two.items():
        print(f"{method:30} MAPE {mape:.3f}")
    rules = [at_two[name] for name in ("flat", "family") if name in at_two]
    return 0 if at_two["aware"] < 0.5 * min(rules) else 1


if __name__ == "__main__":
    sys.exit(main())
