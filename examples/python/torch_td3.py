#!/usr/bin/env python3
"""torch_td3.py - an agent in PyTorch that learns an environment of `aware` over gRPC.

    torch_td3.py [--env NAME] [--steps N] [--seed N] [--address ADDRESS]

TD3 (Fujimoto et al., 2018: twin critics, delayed policy, smoothed targets), with the settings
that `aware agent describe td3` shows, so that the two can be compared. It prints what `aware
train` calls the evaluation: the mean return of episodes without exploration.
"""

import argparse
import copy
import json
import time

import numpy
import torch
from torch import nn

import aware_gym

HIDDEN, BATCH, WARMUP, GAMMA, TAU, RATE = 64, 64, 1000, 0.99, 0.005, 1e-3
NOISE, NOISE_END, NOISE_STEPS = 0.2, 0.1, 10000  # of exploration, on actions scaled to [-1, 1]
TARGET_NOISE, NOISE_MAX, POLICY_DELAY = 0.2, 0.5, 2
PRETANH_PENALTY = 1e-3  # keeps the actor out of the tanh's flat ends
EVAL_SEED = 10**9  # of episodes that nobody was taught on


def network(inputs, outputs):
    return nn.Sequential(nn.Linear(inputs, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN),
                         nn.ReLU(), nn.Linear(HIDDEN, outputs))


class Replay:
    def __init__(self, capacity, obs, act):
        self.rows = torch.zeros(capacity, 2 * obs + act + 2)
        self.sizes, self.count = [obs, act, 1, obs, 1], 0

    def push(self, *parts):
        row = numpy.concatenate([numpy.atleast_1d(part) for part in parts])
        self.rows[self.count % len(self.rows)] = torch.from_numpy(row.astype(numpy.float32))
        self.count += 1

    def sample(self):
        chosen = torch.randint(min(self.count, len(self.rows)), (BATCH,))
        return self.rows[chosen].split(self.sizes, dim=1)


class TD3:
    def __init__(self, obs, act):
        self.actor = network(obs, act)
        self.critics = nn.ModuleList([network(obs + act, 1), network(obs + act, 1)])
        for net in (self.actor, *self.critics):
            nn.init.uniform_(net[-1].weight, -3e-3, 3e-3)
            nn.init.uniform_(net[-1].bias, -3e-3, 3e-3)
        self.targets = copy.deepcopy(nn.ModuleList([self.actor, self.critics]))
        self.actor_adam = torch.optim.Adam(self.actor.parameters(), RATE)
        self.critic_adam = torch.optim.Adam(self.critics.parameters(), RATE)
        self.updates = 0

    def act(self, obs):
        with torch.no_grad():
            return torch.tanh(self.actor(torch.from_numpy(obs))).numpy()

    def learn(self, replay):
        obs, act, reward, next_obs, terminated = replay.sample()
        with torch.no_grad():
            noise = (torch.randn_like(act) * TARGET_NOISE).clamp(-NOISE_MAX, NOISE_MAX)
            next_act = (torch.tanh(self.targets[0](next_obs)) + noise).clamp(-1, 1)
            after = torch.cat([next_obs, next_act], 1)
            value = torch.min(self.targets[1][0](after), self.targets[1][1](after))
            goal = reward + GAMMA * (1 - terminated) * value
        now = torch.cat([obs, act], 1)
        loss = sum(nn.functional.mse_loss(critic(now), goal) for critic in self.critics)
        self.critic_adam.zero_grad()
        loss.backward()
        self.critic_adam.step()
        self.updates += 1
        if self.updates % POLICY_DELAY:
            return
        raw = self.actor(obs)
        loss = PRETANH_PENALTY * (raw**2).sum(1).mean() \
            - self.critics[0](torch.cat([obs, torch.tanh(raw)], 1)).mean()
        self.actor_adam.zero_grad()
        loss.backward()
        self.actor_adam.step()
        with torch.no_grad():
            online = nn.ModuleList([self.actor, self.critics])
            for target, source in zip(self.targets.parameters(), online.parameters()):
                target.lerp_(source, TAU)


def evaluate(envs, agent, to_env):
    """Returns of one episode of each copy, without exploration; all copies act on one message."""
    obs, _ = envs.reset(seed=EVAL_SEED)
    returns, running = numpy.zeros(envs.num_envs), numpy.ones(envs.num_envs, bool)
    while running.any():
        obs, rewards, terminated, truncated, _ = envs.step(to_env(agent.act(obs)))
        returns += rewards * running
        running &= ~(terminated | truncated)
    return returns


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--env", default="autoscale-v0")
    options.add_argument("--steps", type=int, default=10000)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--eval-episodes", type=int, default=100)
    options.add_argument("--address")
    options = options.parse_args()
    torch.manual_seed(options.seed)
    torch.set_num_threads(1)
    random = numpy.random.default_rng(options.seed)

    env = aware_gym.make(options.env, options.address)
    low, high = env.action_space.low, env.action_space.high
    to_env = lambda act: low + (act + 1) / 2 * (high - low)
    agent = TD3(env.observation_space.shape[0], low.size)
    replay = Replay(options.steps, env.observation_space.shape[0], low.size)
    began = time.monotonic()
    obs, _ = env.reset(seed=options.seed)
    for step in range(options.steps):
        if step < WARMUP:
            act = random.uniform(-1, 1, low.size)
        else:
            spread = NOISE + (NOISE_END - NOISE) * min(step / NOISE_STEPS, 1)
            act = numpy.clip(agent.act(obs) + spread * random.standard_normal(low.size), -1, 1)
        next_obs, reward, terminated, truncated, _ = env.step(to_env(act))
        # Terminated alone is worth nothing afterwards: a clock that ran out ends no value.
        replay.push(obs, act, reward, next_obs, terminated)
        obs = next_obs
        if terminated or truncated:
            obs, _ = env.reset()
        if step >= WARMUP:
            agent.learn(replay)
    seconds = time.monotonic() - began
    env.close()
    with aware_gym.make_vec(options.env, options.eval_episodes, options.address) as envs:
        returns = evaluate(envs, agent, to_env)
    print(json.dumps({"env": options.env, "agent": "torch-td3", "seed": options.seed,
                      "steps": options.steps, "seconds": round(seconds, 1),
                      "return_mean": round(float(returns.mean()), 2),
                      "return_std": round(float(returns.std()), 2)}))


if __name__ == "__main__":
    main()
