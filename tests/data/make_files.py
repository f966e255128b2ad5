#!/usr/bin/env python3
"""Writes the files that data_test reads: made by the libraries whose formats they are, and kept in the repository.

Needs numpy 2.2, safetensors 0.6 and torch 2.11. Each file has the values that value(i) gives, or what is said here."""

import json
import pathlib
import struct
import sys

import numpy as np
import safetensors.numpy
import torch

FOLDER = pathlib.Path(__file__).parent / "files"


def values(shape, dtype):
    """0, 3, 6, …, which fit into all types."""
    return (np.arange(np.prod(shape), dtype=np.int64) * 3 % 120).reshape(shape).astype(dtype)


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, dtype in {"f2": "<f2", "f4": "<f4", "f8": "<f8", "i1": "|i1", "u1": "|u1", "i2": "<i2", "u2": "<u2",
                        "i4": "<i4", "u4": "<u4", "i8": "<i8", "big_f4": ">f4", "big_i2": ">i2"}.items():
        np.save(FOLDER / f"{name}.npy", values((3, 4), dtype))
    np.save(FOLDER / "bool.npy", np.array([True, False, True]))
    np.save(FOLDER / "columns.npy", np.asfortranarray(values((2, 3, 4), "<f8")))
    np.save(FOLDER / "scalar.npy", np.float64(2.5))
    np.save(FOLDER / "long_head.npy", values((1,) * 20 + (5,), "<i4"))

    tensors = {"weight": values((4, 5), np.float32), "bias": values((5,), np.float16), "steps": np.int64(7),
               "mask": np.array([True, False]), "ids": values((3,), np.uint16), "none": np.zeros((0, 3), np.float32)}
    safetensors.numpy.save_file({k: np.asarray(v) for k, v in tensors.items()}, FOLDER / "six.safetensors",
                                metadata={"format": "pt", "who": "you"})

    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2, bias=False))
    torch.save(model.state_dict(), FOLDER / "state_dict.pt")
    base = torch.arange(12, dtype=torch.float64).reshape(3, 4)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.5)
    model(torch.ones(2, 3)).sum().backward()
    optimizer.step()
    torch.save({"turned": base.t(), "row": base[1], "halves": torch.tensor([1.5, -2.0], dtype=torch.bfloat16),
                "model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3, "loss": 0.25,
                "long": 2**40, "parameter": torch.nn.Parameter(torch.ones(2)), "flags": torch.tensor([True, False])},
               FOLDER / "checkpoint.pt")
    torch.save({"evil": pathlib.PurePosixPath("/")}, FOLDER / "not_tensors.pt")
    expected = {name: tensor.flatten().tolist() for name, tensor in model.state_dict().items()}
    (FOLDER / "checkpoint.json").write_text(json.dumps(expected))
    state = torch.load(FOLDER / "state_dict.pt")
    (FOLDER / "state_dict.json").write_text(json.dumps({n: t.flatten().tolist() for n, t in state.items()}))

    # PyTorch's order of 23 samples on 4 ranks, in batches of 3, without and with drop_last.
    orders = {}
    for drop in (False, True):
        for epoch in (0, 1):
            for rank in range(4):
                sampler = torch.utils.data.DistributedSampler(range(23), 4, rank, seed=5, drop_last=drop)
                sampler.set_epoch(epoch)
                orders[f"{'drop' if drop else 'pad'} {epoch} {rank}"] = list(sampler)
    (FOLDER / "sampler.json").write_text(json.dumps(orders))

    tokens = values((100,), "<u2")
    tokens.tofile(FOLDER / "plain_tokens.bin")
    for name, magic, version, dtype in (("tokens.bin", 20240520, 1, "<u2"), ("wide_tokens.bin", 20240801, 7, "<u4")):
        head = struct.pack("<256i", magic, version, 100, *([0] * 253))
        (FOLDER / name).write_bytes(head + values((100,), dtype).tobytes())


if __name__ == "__main__":
    sys.exit(main())
