"""The PyTorch side of `aware-bench nn --against torch`.

Reads one line "CASE COUNT" at a time, runs the case COUNT times on one thread and answers with the
thread's CPU seconds. The parent alternates between us and itself, so both meet the same weather.
Each case is written as a PyTorch user who cares about speed would write it.
"""
import sys
import time

import torch
import torch.nn as nn

torch.set_num_threads(1)
torch.manual_seed(1)

STATE, ACTION, WIDTH, BATCH = 73, 3, 40, 64
EPISODES, STEPS, FEATURES, HIDDEN = 20, 100, 13, 256


def mlp(sizes, last):
    layers = []
    for i in range(len(sizes) - 1):
        layers.append(nn.Linear(sizes[i], sizes[i + 1]))
        layers.append(nn.ReLU() if i + 2 < len(sizes) else last())
    return nn.Sequential(*layers)


class Ddpg:
    """Critic step, actor step, two soft updates: one DDPG update on a sampled batch."""

    def __init__(self):
        self.actor, self.actor_target = (mlp([STATE, WIDTH, WIDTH, ACTION], nn.Tanh) for _ in "ab")
        self.critic, self.critic_target = (
            mlp([STATE + ACTION, WIDTH, WIDTH, 1], nn.Identity) for _ in "ab"
        )
        self.actor_target.load_state_dict(self.actor.state_dict())
        self.critic_target.load_state_dict(self.critic.state_dict())
        self.actor_adam = torch.optim.Adam(self.actor.parameters(), lr=3e-4)
        self.critic_adam = torch.optim.Adam(self.critic.parameters(), lr=3e-3)
        size = 10000
        self.state, self.next_state = torch.randn(size, STATE), torch.randn(size, STATE)
        self.action = torch.rand(size, ACTION) * 2 - 1
        self.reward, self.live = torch.randn(size, 1), torch.ones(size, 1)

    def update(self):
        index = torch.randint(0, len(self.state), (BATCH,))
        state, next_state = self.state[index], self.next_state[index]
        action, reward, live = self.action[index], self.reward[index], self.live[index]
        with torch.no_grad():
            following = torch.cat([next_state, self.actor_target(next_state)], 1)
            target = reward + 0.99 * live * self.critic_target(following)
        value = self.critic(torch.cat([state, action], 1))
        self.critic_adam.zero_grad()
        nn.functional.mse_loss(value, target).backward()
        self.critic_adam.step()
        self.actor_adam.zero_grad()
        (-self.critic(torch.cat([state, self.actor(state)], 1)).mean()).backward()
        self.actor_adam.step()
        with torch.no_grad():
            for online, target in (
                (self.actor, self.actor_target),
                (self.critic, self.critic_target),
            ):
                for p, q in zip(online.parameters(), target.parameters()):
                    q.lerp_(p, 3e-3)


class Encoder:
    """Two bidirectional GRU layers over the episodes of a bundle."""

    def __init__(self):
        self.gru = nn.GRU(FEATURES, HIDDEN, 2, bidirectional=True)
        self.x = torch.randn(STEPS, EPISODES, FEATURES)
        self.dy = torch.randn(STEPS, EPISODES, 2 * HIDDEN)

    def forward(self):
        with torch.no_grad():
            self.gru(self.x)

    def both(self):
        for p in self.gru.parameters():
            p.grad = None
        y, _ = self.gru(self.x)
        y.backward(self.dy)


ddpg, encoder = Ddpg(), Encoder()
one_state = torch.randn(1, STATE)


def act():
    with torch.no_grad():
        return ddpg.actor(one_state)


cases = {
    "ddpg_update": ddpg.update,
    "action": act,
    "gru_forward": encoder.forward,
    "gru_both": encoder.both,
}

def fast_products():
    """Without a tuned BLAS Debian's PyTorch is 20 times slower, and no opponent. Which one it found
    is in no setting of its own: the libraries that it has loaded tell."""
    torch.mm(torch.randn(8, 8), torch.randn(8, 8))
    with open("/proc/self/maps") as maps:
        loaded = maps.read().lower()
    return torch.backends.mkl.is_available() or "openblas" in loaded or "libblis" in loaded


print("ready", torch.__version__, int(fast_products()), flush=True)
for line in sys.stdin:
    name, count = line.split()
    run = cases[name]
    begin = time.thread_time()
    for _ in range(int(count)):
        run()
    print("%.9f" % (time.thread_time() - begin), flush=True)
