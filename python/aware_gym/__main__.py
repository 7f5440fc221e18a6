"""__main__.py - python3 -m aware_gym: a look at environments without writing a program.

    python3 -m aware_gym list                       what there is
    python3 -m aware_gym describe NAME              spaces, rewards, options
    python3 -m aware_gym check NAME                 does it keep the contract? exit status 1: no
    python3 -m aware_gym bench NAME [--envs N]      steps per second from here
    python3 -m aware_gym serve FILE:CLASS ADDRESS   an environment of yours for `aware train`

All but serve take --address and --set OPTION=VALUE, and start `aware` themselves without an
address.
"""

import argparse
import importlib
import importlib.util
import sys
import time

import numpy

from . import Error, check_env, check_parallel_env, check_vec_env, describe, list_envs
from . import list_parallel_envs, make, make_vec, parallel_env, serve


def arguments():
    parser = argparse.ArgumentParser(prog="python3 -m aware_gym", epilog=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    for verb in ("list", "describe", "check", "bench"):
        one = verbs.add_parser(verb)
        one.add_argument("--address")
        if verb != "list":
            one.add_argument("name")
            one.add_argument("--set", action="append", default=[], metavar="OPTION=VALUE")
        if verb == "bench":
            one.add_argument("--envs", type=int, default=1)
            one.add_argument("--seconds", type=float, default=5)
    one = verbs.add_parser("serve")
    one.add_argument("what", metavar="FILE:CLASS")
    one.add_argument("where", metavar="ADDRESS")
    return parser.parse_args()


def settings(pairs):
    for pair in pairs:
        if "=" not in pair:
            raise ValueError(f"--set takes OPTION=VALUE, found {pair!r}")
    return dict(pair.split("=", 1) for pair in pairs)


def show_list(options):
    environments = {**list_envs(options.address), **list_parallel_envs(options.address)}
    width = max(map(len, environments), default=0)
    for name, summary in environments.items():
        print(f"{name:<{width}}  {summary}")


def many(options):
    """Whether it is an environment of many agents."""
    try:
        return options.name in list_parallel_envs(options.address)
    except Error:  # a server that has none
        return False


def show_description(options):
    keywords = settings(options.set)
    if many(options):
        with parallel_env(options.name, options.address, **keywords) as env:
            print(env.description, end="")
    else:
        print(describe(options.name, options.address, **keywords), end="")


def findings_of(options):
    keywords = settings(options.set)
    if many(options):
        with parallel_env(options.name, options.address, **keywords) as env:
            return check_parallel_env(env)
    with make(options.name, options.address, **keywords) as env:
        findings = check_env(env)
    with make_vec(options.name, 4, options.address, **keywords) as envs:
        return findings + check_vec_env(envs)


def check(options):
    findings = findings_of(options)
    for finding in findings:
        print(f"{finding.rule}: {finding.text}")
    if not findings:
        print(f"{options.name}: keeps the contract")
    return 1 if findings else 0


def bench_many(options):
    """Steps of all agents a second, in flat arrays and with dictionaries."""
    with parallel_env(options.name, options.address, **settings(options.set)) as env:
        count = len(env.possible_agents)
        actions = numpy.stack([[space.sample() for space in env.action_spaces.values()]
                               for _ in range(16)])
        for way in ("flat arrays", "dictionaries"):
            steps, cpu, began = 0, time.process_time(), time.perf_counter()
            env.reset_flat(0)
            while time.perf_counter() - began < options.seconds:
                if way == "flat arrays":
                    env.step_flat(actions[steps % 16])
                else:
                    env.step(dict(zip(env.possible_agents, actions[steps % 16])))
                steps += 1
                if not env.num_live:
                    env.reset_flat(steps)
            seconds = time.perf_counter() - began
            print(f"{options.name}, {way}: {steps / seconds:.0f} steps/s of {count} agents, "
                  f"{count * steps / seconds:.0f} agent steps/s, "
                  f"{1e6 * (time.process_time() - cpu) / steps:.0f} us of CPU a step here")


def bench(options):
    """Steps a second, with actions drawn beforehand: what is measured is the way there and back."""
    if many(options):
        bench_many(options)
        return
    keywords = settings(options.set)
    if options.envs == 1:
        env = make(options.name, options.address, **keywords)
    else:
        env = make_vec(options.name, options.envs, options.address, **keywords)
    env.action_space.seed(0)
    actions = [env.action_space.sample() for _ in range(64)]
    env.reset(seed=0)
    messages, began = 0, time.perf_counter()
    while time.perf_counter() - began < options.seconds:
        for action in actions:
            _, _, terminated, truncated, _ = env.step(action)
            if options.envs == 1 and (terminated or truncated):
                env.reset()
        messages += len(actions)
    seconds = time.perf_counter() - began
    env.close()
    print(f"{options.name}: {messages * options.envs / seconds:.0f} steps/s, "
          f"{messages / seconds:.0f} messages/s of {options.envs} environments")


def load(what):
    """FILE.py:CLASS or MODULE:CLASS"""
    where, _, name = what.rpartition(":")
    if not where:
        raise ValueError(f"serve takes FILE:CLASS, found {what!r}")
    if where.endswith(".py"):
        spec = importlib.util.spec_from_file_location("served", where)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    else:
        module = importlib.import_module(where)
    return getattr(module, name)


def main():
    options = arguments()
    try:
        if options.verb == "serve":
            serve(load(options.what), options.where)
            return 0
        return {"list": show_list, "describe": show_description, "check": check,
                "bench": bench}[options.verb](options) or 0
    except (Error, ValueError, OSError, ImportError, AttributeError) as error:
        print(f"aware_gym: {error}", file=sys.stderr)
        return 69


if __name__ == "__main__":
    sys.exit(main())
