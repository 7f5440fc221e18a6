#!/usr/bin/env python3
"""gymnasium_test.py - the environments under Gymnasium itself, where it is installed.

    gymnasium_test.py AWARE              starts the program AWARE for it
    gymnasium_test.py HOST:PORT          with 'aware env serve' there, from a newer Debian's root

Exit status 77 where there is no Gymnasium of 1.1 or newer (Debian's sid has python3-gymnasium).
"""

import os
import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))
try:
    import numpy
    import gymnasium
    from gymnasium.utils.env_checker import check_env
    from gymnasium.vector import AutoresetMode, SyncVectorEnv
    from gymnasium.wrappers import vector as wrappers
    import aware_gym  # protobuf's own warnings are not ours
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

NAMES = ("autoscale-v0", "autoscale-paper-v0", "identity-box-v0", "identity-discrete-v0")


def checked(**where):
    """gymnasium.make finds them, and the checker has not one warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in NAMES:
            env = gymnasium.make(f"aware_gym:{name}", **where)
            check_env(env.unwrapped)
            env.reset(seed=3)
            for _ in range(150):
                *_, terminated, truncated, _ = env.step(env.action_space.sample())
                if terminated or truncated:
                    env.reset()
            env.close()


def steps(envs, mode):
    """What is told of twenty steps of episodes of seven: flags, and names in infos."""
    told = []
    rows, _ = envs.reset(seed=1)
    for _ in range(20):
        rows, _, terminated, truncated, infos = envs.step(numpy.zeros(envs.action_space.shape,
                                                                      numpy.float32))
        assert rows in envs.observation_space
        ended = terminated | truncated
        told.append((ended.tolist(), sorted(infos), infos.get("_final_obs", ended).tolist(),
                     infos.get("final_info"), infos.get("_final_info", ended).tolist()))
        if "final_obs" in infos:
            assert infos["final_obs"][0] in envs.single_observation_space
        if mode is AutoresetMode.DISABLED and ended.any():
            rows, _ = envs.reset(options={"reset_mask": ended})
            assert rows in envs.observation_space
    return told


def vectors(**where):
    """Ours and Gymnasium's own SyncVectorEnv of our environments tell the same."""
    for mode in AutoresetMode:
        ours = gymnasium.make_vec("aware_gym:autoscale-v0", num_envs=3, autoreset_mode=mode,
                                  vectorization_mode="vector_entry_point", episode_steps=7, **where)
        theirs = SyncVectorEnv([lambda: aware_gym.make("autoscale-v0", episode_steps=7, **where)
                                for _ in range(3)], autoreset_mode=mode)
        assert ours.metadata["autoreset_mode"] is mode
        assert steps(ours, mode) == steps(theirs, mode), mode
        if mode is not AutoresetMode.DISABLED:  # most wrappers reset all or nothing
            for wrap in (wrappers.RecordEpisodeStatistics, wrappers.NormalizeReward,
                         wrappers.DictInfoToList):
                wrapped = wrap(ours)
                wrapped.reset(seed=2)
                for _ in range(20):
                    wrapped.step(wrapped.action_space.sample())
        if mode is AutoresetMode.NEXT_STEP:
            wrapped = wrappers.NormalizeObservation(ours)  # which refuses SAME_STEP of anybody
            wrapped.reset(seed=2)
            wrapped.step(wrapped.action_space.sample())
        ours.close()
        theirs.close()


def main():
    where = {}
    if os.path.exists(sys.argv[1]):
        os.environ["AWARE"] = os.path.abspath(sys.argv[1])
    else:
        where["address"] = sys.argv[1]
    checked(**where)
    vectors(**where)
    print(f"Gymnasium {gymnasium.__version__}, Python {sys.version.split()[0]}: passed")


if __name__ == "__main__":
    main()
