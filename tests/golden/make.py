#!/usr/bin/python3
"""Makes the golden dumps beside it: what PyTorch computes, for src/nn/golden_test.c to compare.

    /usr/bin/python3 tests/golden/make.py [FOLDER]

Needs python3-torch and python3-numpy (written with PyTorch 1.13). The dumps are committed, so the
tests need neither. Every result is stored twice: as float32 computed by torch's own float32 code
(`CASE.f32.NAME`), and as float64 computed by torch in double from the same float32 inputs
(`CASE.f64.NAME`), which is the exact value for our purposes.
"""
import json
import os
import struct
import sys

import numpy
import torch

torch.set_num_threads(1)

DTYPES = {"int64": "I64", "float64": "F64", "float32": "F32", "uint8": "U8"}
PLACE = {name: i for i, name in enumerate(("I64", "F64", "F32", "U8"))}


def write_safetensors(path, tensors):
    """A dict of numpy arrays, in the reference writer's order: wide dtypes first, then by name."""
    header, data, begin = {}, [], 0
    for name in sorted(tensors, key=lambda n: (PLACE[DTYPES[tensors[n].dtype.name]], n)):
        array = numpy.ascontiguousarray(tensors[name])
        raw = array.tobytes()
        header[name] = {
            "dtype": DTYPES[array.dtype.name],
            "shape": list(tensors[name].shape),
            "data_offsets": [begin, begin + len(raw)],
        }
        begin += len(raw)
        data.append(raw)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(data))


class Dump:
    """Tensors of one file. `inputs` are shared; results are computed once per precision."""

    def __init__(self):
        self.tensors = {}

    def add(self, name, tensor):
        assert name not in self.tensors, name
        self.tensors[name] = tensor.detach().numpy().copy()

    def case(self, name, inputs, compute):
        """compute(dict of leaf tensors) -> dict of results, run in float32 and in float64."""
        for key, tensor in inputs.items():
            self.add(f"{name}.{key}", tensor)
        for label, dtype in (("f32", torch.float32), ("f64", torch.float64)):
            leaves = {
                key: tensor.detach().to(dtype) if tensor.is_floating_point() else tensor
                for key, tensor in inputs.items()
            }
            for key, tensor in compute(leaves).items():
                self.add(f"{name}.{label}.{key}", tensor.to(dtype))


def with_grad(tensors, keys):
    """The tensors of these keys as leaves that collect gradients."""
    return {key: tensors[key].clone().requires_grad_(True) for key in keys}


def gradients(loss, leaves):
    loss.backward()
    return {f"d{key}": leaf.grad for key, leaf in leaves.items()}


def run_module(make, leaves):
    """Builds the module in the precision of its inputs and loads `theta.*` into it."""
    module = make().to(leaves["x"].dtype)
    prefix = "theta."
    state = {key[len(prefix):]: value for key, value in leaves.items() if key.startswith(prefix)}
    module.load_state_dict(state)
    return module


def module_gradients(module):
    return {f"grad.{name}": param.grad for name, param in module.named_parameters()}


class Named(torch.nn.Module):
    """Gives a module the prefix that our parameters have."""

    def __init__(self, name, module):
        super().__init__()
        self.name = name
        self.add_module(name, module)

    def forward(self, *args):
        return getattr(self, self.name)(*args)


def mlp_cases(dump):
    acts = {"none": None, "relu": torch.nn.ReLU, "tanh": torch.nn.Tanh}
    table = [
        # name, widths, hidden, output, batch
        ("linear", [7, 5], "none", "none", 3),
        ("relu", [73, 40, 40, 3], "relu", "none", 64),
        ("relu_tanh", [73, 40, 40, 3], "relu", "tanh", 64),
        ("tanh_one_row", [73, 40, 40, 3], "tanh", "none", 1),
        ("relu_one_row", [73, 40, 40, 3], "relu", "tanh", 1),
        ("odd_relu", [7, 13, 5], "relu", "none", 3),
        ("odd_tanh", [7, 13, 5], "tanh", "tanh", 3),
        ("narrow", [1, 1, 1], "tanh", "none", 2),
        ("wide", [76, 64, 1], "relu", "none", 17),
    ]
    for name, widths, hidden, output, batch in table:

        def make():
            layers = []
            for i in range(len(widths) - 1):
                layers.append(torch.nn.Linear(widths[i], widths[i + 1]))
                act = acts[output if i == len(widths) - 2 else hidden]
                if act:
                    layers.append(act())
            return Named("net", torch.nn.Sequential(*layers))

        inputs = {f"theta.{key}": value for key, value in make().state_dict().items()}
        inputs["x"] = torch.randn(batch, widths[0])
        inputs["dy"] = torch.randn(batch, widths[-1])

        def compute(leaves):
            module = run_module(make, leaves)
            x = leaves["x"].clone().requires_grad_(True)
            y = module(x)
            y.backward(leaves["dy"])
            return {"y": y, "dx": x.grad, **module_gradients(module)}

        dump.case(name, inputs, compute)


def gru_cases(dump):
    table = [
        # name, inputs, hidden, layers, bidirectional, T, B
        ("plain", 13, 24, 1, False, 7, 5),
        ("odd", 13, 10, 1, False, 7, 5),
        ("one_step", 3, 8, 1, False, 1, 1),
        ("deep_both_ways", 13, 24, 2, True, 7, 5),
        ("odd_both_ways", 5, 10, 2, True, 4, 3),
        ("three_layers", 4, 6, 3, False, 5, 2),
        ("long", 13, 64, 1, False, 20, 4),
    ]
    for name, size, hidden, layers, both, T, B in table:
        directions = 2 if both else 1

        def make():
            return Named("gru", torch.nn.GRU(size, hidden, layers, bidirectional=both))

        inputs = {f"theta.{key}": value for key, value in make().state_dict().items()}
        inputs["x"] = torch.randn(T, B, size)
        inputs["dy"] = torch.randn(T, B, directions * hidden)
        inputs["dh_n"] = torch.randn(layers * directions, B, hidden)

        def compute(leaves):
            module = run_module(make, leaves)
            x = leaves["x"].clone().requires_grad_(True)
            y, h_n = module(x)
            torch.autograd.backward([y, h_n], [leaves["dy"], leaves["dh_n"]])
            return {"y": y, "h_n": h_n, "dx": x.grad, **module_gradients(module)}

        dump.case(name, inputs, compute)


def loss_cases(dump):
    def one(tensor):
        return tensor.reshape(1)

    n = 24

    def mse(t):
        leaf = with_grad(t, ["y"])
        loss = torch.nn.functional.mse_loss(leaf["y"], t["target"])
        return {"loss": one(loss), **gradients(loss, leaf)}

    def huber(t):
        leaf = with_grad(t, ["y"])
        loss = torch.nn.functional.huber_loss(leaf["y"], t["target"], delta=0.75)
        return {"loss": one(loss), **gradients(loss, leaf)}

    dump.case("mse", {"y": torch.randn(n), "target": torch.randn(n)}, mse)
    dump.case("huber", {"y": torch.randn(n), "target": torch.randn(n)}, huber)

    B, D = 6, 4

    def gaussian(t):
        leaf = with_grad(t, ["mean", "log_std"])
        normal = torch.distributions.Normal(leaf["mean"], leaf["log_std"].exp().expand(B, D))
        logp = normal.log_prob(t["x"]).sum(-1)
        entropy = normal.entropy().sum(-1)
        loss = (logp * t["dlogp"]).sum()
        return {"logp": logp, "entropy": entropy, **gradients(loss, leaf)}

    for name, shape in (("gaussian_shared", (D,)), ("gaussian_own", (B, D))):
        inputs = {
            "x": torch.randn(B, D),
            "mean": torch.randn(B, D),
            "log_std": torch.randn(*shape) * 0.7 - 0.5,
            "dlogp": torch.randn(B),
        }
        dump.case(name, inputs, gaussian)

    N = 5

    def categorical(t):
        leaf = with_grad(t, ["logits"])
        choice = torch.distributions.Categorical(logits=leaf["logits"])
        logp, entropy = choice.log_prob(t["index"]), choice.entropy()
        loss = (logp * t["dlogp"]).sum() + (entropy * t["dentropy"]).sum()
        return {
            "logp_all": torch.log_softmax(leaf["logits"], -1),
            "entropy": entropy,
            **gradients(loss, leaf),
        }

    inputs = {
        "logits": torch.randn(B, N) * 3,
        "index": torch.randint(N, (B,)),
        "dlogp": torch.randn(B),
        "dentropy": torch.randn(B),
    }
    dump.case("categorical", inputs, categorical)

    def vae(t):
        leaf = with_grad(t, ["mean", "log_std"])
        std = leaf["log_std"].exp()
        # as in the BCQ authors' VAE
        kl = -0.5 * (1 + torch.log(std.pow(2)) - leaf["mean"].pow(2) - std.pow(2)).mean()
        results = {"kl": one(kl), **gradients(kl, leaf)}
        leaf = with_grad(t, ["mean", "log_std"])
        z = leaf["mean"] + leaf["log_std"].exp() * t["noise"]
        z.backward(t["dz"])
        results["z"] = z
        results["z_dmean"], results["z_dlog_std"] = leaf["mean"].grad, leaf["log_std"].grad
        return results

    names = ("mean", "log_std", "noise", "dz")
    dump.case("vae", {name: torch.randn(n) for name in names}, vae)


def optim_cases(dump):
    steps, rows, columns = 10, 9, 11

    def adam(kind, **settings):
        def compute(t):
            param = torch.nn.Parameter(t["theta"].clone())
            optimiser = kind([param], **settings)
            for step in range(steps):
                param.grad = t["grads"][step].clone()
                optimiser.step()
            state = optimiser.state[param]
            return {"theta": param, "m": state["exp_avg"], "v": state["exp_avg_sq"]}

        return compute

    table = {
        "adam": adam(torch.optim.Adam, lr=1e-3),
        "adam_decay": adam(torch.optim.Adam, lr=3e-4, weight_decay=0.01),
        "adamw": adam(torch.optim.AdamW, lr=3e-4, weight_decay=0.01),
        "adam_settings": adam(torch.optim.Adam, lr=1e-2, betas=(0.8, 0.95), eps=1e-3),
    }
    for name, compute in table.items():
        # gradients of very different sizes, as a network's layers have them
        sizes = 10.0 ** torch.randint(-6, 1, (rows, columns))
        inputs = {
            "theta": torch.randn(rows, columns),
            "grads": torch.randn(steps, rows, columns) * sizes,
        }
        dump.case(name, inputs, compute)

    def soft_update(t):
        return {"target": 0.995 * t["target"] + 0.005 * t["source"]}

    dump.case("soft_update", {"target": torch.randn(37), "source": torch.randn(37)}, soft_update)

    def clip(t):
        params = [torch.nn.Parameter(torch.zeros_like(t[key])) for key in ("a", "b")]
        for param, key in zip(params, ("a", "b")):
            param.grad = t[key].clone()
        norm = torch.nn.utils.clip_grad_norm_(params, 0.5)
        return {"norm": norm.reshape(1), "a": params[0].grad, "b": params[1].grad}

    dump.case("clip", {"a": torch.randn(5, 7), "b": torch.randn(9)}, clip)


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    for seed, (name, fill) in enumerate(
        (("mlp", mlp_cases), ("gru", gru_cases), ("loss", loss_cases), ("optim", optim_cases))
    ):
        torch.manual_seed(seed)
        dump = Dump()
        fill(dump)
        path = os.path.join(folder, name + ".safetensors")
        write_safetensors(path, dump.tensors)
        print(f"{path}: {len(dump.tensors)} tensors, {os.path.getsize(path)} bytes")


if __name__ == "__main__":
    main()
