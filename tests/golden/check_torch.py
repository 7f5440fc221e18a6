#!/usr/bin/python3
"""Loads a checkpoint that we wrote into PyTorch, and checks that it computes the same there.

    check_torch.py WRITE_CHECKPOINT

The argument is the program built from write_checkpoint.c. Where PyTorch is not installed the check
is skipped (exit code 77). The file is read with the `safetensors` package where there is one, and
with a reader of the format's definition in any case.
"""
import json
import os
import struct
import subprocess
import sys
import tempfile

SKIP = 77
TOLERANCE = 1e-6

try:
    import numpy
    import torch
except ImportError as error:
    print(f"skipped: PyTorch is not here to load our checkpoint ({error}); install python3-torch")
    sys.exit(SKIP)

DTYPES = {"F32": "<f4", "F64": "<f8", "I64": "<i8", "U8": "u1"}


def read_safetensors(path):
    """Tensors and metadata, and every promise of the format about the bytes between them."""
    with open(path, "rb") as file:
        raw = file.read()
    (length,) = struct.unpack("<Q", raw[:8])
    text = raw[8 : 8 + length]
    assert length % 8 == 0, "the header is padded to a multiple of 8"
    assert text[:1] == b"{", "the header begins with {"
    header = json.loads(text)
    meta = header.pop("__metadata__", {})
    data, end, tensors = raw[8 + length :], 0, {}
    for name, info in header.items():
        begin, stop = info["data_offsets"]
        assert begin == end, f"{name} begins where the one before it ends"
        array = numpy.frombuffer(data[begin:stop], DTYPES[info["dtype"]]).reshape(info["shape"])
        tensors[name] = torch.from_numpy(array.copy())
        end = stop
    assert end == len(data), "the tensors cover the data"
    return tensors, meta


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        linear, relu, tanh = torch.nn.Linear, torch.nn.ReLU, torch.nn.Tanh
        self.actor = torch.nn.Sequential(
            linear(5, 8), relu(), linear(8, 7), relu(), linear(7, 2), tanh()
        )
        self.encoder = torch.nn.GRU(5, 6, 2, bidirectional=True)


def check(tensors):
    model = Model()
    weights = {
        name: tensor for name, tensor in tensors.items() if name.startswith(("actor.", "encoder."))
    }
    model.load_state_dict(weights, strict=True)
    with torch.no_grad():
        action = model.actor(tensors["check.obs"])
        encoded, _ = model.encoder(tensors["check.sequence"])
    for name, got in (("check.action", action), ("check.encoded", encoded)):
        error = (got - tensors[name]).abs().max().item()
        assert got.shape == tensors[name].shape, name
        assert error <= TOLERANCE, f"{name}: PyTorch computes something else, off by {error}"
        print(f"{name}: largest difference {error:.1e}")
    assert tensors["step"].shape == () and tensors["step"].item() == 7


def main():
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.safetensors")
        subprocess.run([sys.argv[1], path], check=True)
        tensors, meta = read_safetensors(path)
        assert meta == {"seed": "42"}, meta
        check(tensors)
        try:
            from safetensors.torch import load_file
        except ImportError:
            print("the safetensors package is not here; read by the format's definition alone")
        else:
            check(load_file(path))


if __name__ == "__main__":
    main()
