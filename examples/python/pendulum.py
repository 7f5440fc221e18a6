#!/usr/bin/env python3
"""pendulum.py - an environment written in Python, for the learners of `aware`.

    pendulum.py [ADDRESS]                       serves it, by default on 127.0.0.1:50051
    aware train -e grpc://127.0.0.1:50051/python-pendulum-v1 -a td3 -p pendulum-v1 -n 20k
    aware train -e grpc://127.0.0.1:50051/python-pendulum-v1 -a td3 -p pendulum-v1 -n 8k \\
        --bootstrap 10 --set imitate=1 --set imitate_steps=12000 --set updates_per_step=4

The second begins with what the rule below does (fallback_action): it acts in the first 10 episodes
while the learner learns from them, so that the learner never has to act without knowing anything.

Gymnasium's Pendulum-v1: a pendulum hangs on a weak motor; swing it up and hold it upright.
Written out here so that it needs nothing but numpy, and so that it can be compared with the one
built into aware.
"""

import math
import sys

import numpy

import aware_gym


class Pendulum:
    """Swing a pendulum up with a weak motor and hold it upright."""

    name = "python-pendulum-v1"
    observation_axes = [("angle_cosine", ""), ("angle_sine", ""), ("angular_speed", "rad/s")]
    action_axes = [("torque", "N m")]
    observation_space = aware_gym.Box(numpy.array([-1, -1, -8], numpy.float32),
                                      numpy.array([1, 1, 8], numpy.float32))
    action_space = aware_gym.Box(numpy.array([-2], numpy.float32), numpy.array([2], numpy.float32))
    reward_range = (-(math.pi**2 + 0.1 * 8**2 + 0.001 * 2**2), 0.0)
    episode_steps_max = 200  # nothing else ends an episode
    fallback_agent = "pump-and-hold"

    def reset(self, *, seed=None, options=None):
        if seed is not None or not hasattr(self, "random"):
            self.random = numpy.random.default_rng(seed)
        self.angle = self.random.uniform(-math.pi, math.pi)
        self.speed = self.random.uniform(-1, 1)
        return self.seen(), {}

    def step(self, action):
        torque = min(max(float(action[0]), -2.0), 2.0)
        off = (self.angle + math.pi) % (2 * math.pi) - math.pi
        cost = off**2 + 0.1 * self.speed**2 + 0.001 * torque**2
        speed = self.speed + (15 * math.sin(self.angle) + 3 * torque) * 0.05
        self.speed = min(max(speed, -8.0), 8.0)
        self.angle += self.speed * 0.05
        return self.seen(), -cost, False, False, {}

    def fallback_action(self):
        """A rule that needs no learning, with half of the motor: push along until there is energy
        enough to stand, let go, and hold what comes near the top."""
        off = (self.angle + math.pi) % (2 * math.pi) - math.pi
        if abs(off) < 0.4:
            return numpy.array([min(max(-10 * off - 2 * self.speed, -2), 2)], numpy.float32)
        energy = self.speed**2 / 6 + 5 * math.cos(off)  # 5: still, at the top
        return numpy.array([math.copysign(1, self.speed) if energy < 5 else 0], numpy.float32)

    def seen(self):
        return numpy.array([math.cos(self.angle), math.sin(self.angle), self.speed], numpy.float32)


if __name__ == "__main__":
    aware_gym.serve(Pendulum, sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:50051")
