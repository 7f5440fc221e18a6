#!/usr/bin/env python3
"""vector_test.py - copies of an environment, and how those begin anew whose episode has ended.

    vector_test.py TEST [AWARE]    one of the functions below, against the program AWARE

Exit status as in python_test.py.
"""

import os
import sys

import numpy

import python_test
from python_test import Counter, expect, expect_error, need_aware


def copies_are_reset_in_the_three_ways_of_gymnasium():
    """Whoever serves them, Python or C."""
    import aware_gym
    with aware_gym.Server(Counter, "127.0.0.1:0") as server:
        three_ways("counter", server.address, 2, first=1)
    need_aware()
    three_ways("identity-box-v0", None, 0.5)


def three_ways(name, address, choice, **options):
    """Copies that all take `choice` for as long as three episodes: the same episodes each way."""
    import aware_gym
    seen = {}
    for mode in ("SameStep", "NextStep", "Disabled"):
        with aware_gym.make_vec(name, 3, address, autoreset_mode=mode, **options) as envs:
            rows, _ = envs.reset(seed=5)
            begun, ends, ended = [rows[0].tolist()], [], numpy.zeros(3, bool)
            for _ in range(2000):
                waits = ended
                rows, rewards, terminated, truncated, infos = envs.step(
                    numpy.full(envs.action_space.shape, choice))
                ended = terminated | truncated
                if mode == "NextStep" and waits[0]:
                    expect(rewards[0] == 0 and not ended[0], "no step of the new episode yet")
                    begun.append(rows[0].tolist())
                if ended[0]:
                    ends.append((infos["final_obs"] if mode == "SameStep" else rows)[0].tolist())
                if mode == "SameStep" and ended[0]:
                    begun.append(rows[0].tolist())
                    expect(infos["final_info"] == {} and infos["_final_info"][0], "no more to say")
                if mode == "Disabled" and ended.any():
                    expect_error("FAILED_PRECONDITION", "", envs.step,
                                 numpy.full(envs.action_space.shape, choice))
                    rows, _ = envs.reset(options={"reset_mask": ended})
                    if ended[0]:
                        begun.append(rows[0].tolist())
                if len(begun) > 3:
                    break
            seen[mode] = begun[:4], ends[:3]
    expect(seen["SameStep"] == seen["NextStep"] == seen["Disabled"], f"{seen}")
    expect(len(seen["SameStep"][0]) == 4, "three episodes ended")


if __name__ == "__main__":
    if len(sys.argv) > 2:
        python_test.AWARE = os.path.abspath(sys.argv[2])
    globals()[sys.argv[1]]()
