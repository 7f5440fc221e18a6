#!/usr/bin/env python3
"""random_agent.py - the smallest program that uses an environment: 100 episodes of random actions.

    random_agent.py [EPISODES [NAME [ADDRESS]]]

Without an address it starts `aware` itself (from $AWARE or the PATH).
"""

import sys
import time

import aware_gym


def main(episodes=100, name="autoscale-v0", address=None):
    env = aware_gym.make(name, address)
    env.action_space.seed(0)
    returns, steps, began = [], 0, time.monotonic()
    for episode in range(int(episodes)):
        env.reset(seed=episode)
        total, ended = 0.0, False
        while not ended:
            _, reward, terminated, truncated, _ = env.step(env.action_space.sample())
            total, steps, ended = total + reward, steps + 1, terminated or truncated
        returns.append(total)
    seconds = time.monotonic() - began
    env.close()
    print(f"{name}: {len(returns)} episodes, mean return {sum(returns) / len(returns):.1f}, "
          f"{steps} steps in {seconds:.1f} s ({steps / seconds:.0f} steps/s)")


if __name__ == "__main__":
    main(*sys.argv[1:])
