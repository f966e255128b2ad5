#!/usr/bin/env python3
"""Writes the files that data_test reads: made by the libraries whose formats they are, and kept in the repository.

Needs numpy 2.2, safetensors 0.6 and torch 2.11. Each file has what is said here, or what a .json beside it says: what
Python has read back."""

import csv
import itertools
import json
import pathlib
import struct
import sys

import numpy as np
import safetensors.numpy
import torch

FOLDER = pathlib.Path(__file__).parent / "files"


def values(shape, dtype):
    """From the smallest that the type has to the largest."""
    last = int(np.prod(shape)) - 1
    if np.dtype(dtype).kind == "f":
        numbers = np.linspace(-1, 1, last + 1) * float(np.finfo(dtype).max)
    else:
        least, most = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
        numbers = np.array([least + (most - least) * i // last for i in range(last + 1)], dtype=object)
    return numbers.astype(dtype).reshape(shape)


def described(read):
    """For a .json: whole numbers and real ones as texts, since JSON has no infinite ones."""
    return {"dtype": read.dtype.name, "shape": read.shape, "values": [repr(float(each)) for each in read.ravel()]}


IDX_TYPES = {"u1": (0x08, (12,)), "i1": (0x09, (3, 4)), ">i2": (0x0B, (2, 1, 6)), ">i4": (0x0C, (4, 3)),
             ">f4": (0x0D, (6, 2)), ">f8": (0x0E, (1, 12))}


def write_idx() -> None:
    """As Yann LeCun's page on MNIST has it: two zeros, the type, the number of lengths, these, the numbers."""
    whole = np.array([0, 1, 2, -1, 127, -128, 300, -300, 32767, -32768, 2**31 - 1, -(2**31)], dtype=np.int64)
    real = np.array([0, -0.0, 1, -2.5, 1e-7, 3.4e38, -1e-45, 1 / 3, np.inf, -np.inf, 65504, 1e10])
    expected = {}
    for dtype, (code, shape) in IDX_TYPES.items():
        numbers = (whole if np.dtype(dtype).kind in "ui" else real).astype(dtype)  # what is too large is cut off
        path = FOLDER / f"{np.dtype(dtype).name}.idx"
        head = struct.pack(f">HBB{len(shape)}I", 0, code, len(shape), *shape)
        path.write_bytes(head + numbers.tobytes())
        read = np.fromfile(path, dtype=dtype, offset=len(head)).reshape(shape)
        expected[path.name] = described(read)
    (FOLDER / "idx.json").write_text(json.dumps(expected))


def write_cifar10() -> None:
    """As Alex Krizhevsky's page has the binary version: a label, then 32 rows of 32 each of red, of green, of blue."""
    random = np.random.default_rng(10)
    labels = np.array([9, 0], dtype=np.uint8)
    images = random.integers(0, 256, (2, 3, 32, 32), dtype=np.uint8)
    path = FOLDER / "cifar10.bin"
    np.concatenate([labels[:, None], images.reshape(2, -1)], axis=1).tofile(path)
    read = np.fromfile(path, dtype=np.uint8).reshape(2, 1 + 3 * 32 * 32)
    pixels = read[:, 1:].reshape(2, 3, 32, 32)
    places = [[int(random.integers(0, length)) for length in pixels.shape] for _ in range(40)]
    expected = {"labels": read[:, 0].tolist(), "shape": pixels.shape, "sums": pixels.sum(axis=(2, 3)).tolist(),
                "pixels": [[*place, int(pixels[tuple(place)])] for place in places]}
    (FOLDER / "cifar10.json").write_text(json.dumps(expected))


def typed(values):
    """A column: whole numbers if all are, real ones if all are numbers, else texts; a number that is missing is null."""
    def as_all(number):
        return [None if each in (None, "") else number(each) for each in values]

    if all(type(each) in (int, bool) for each in values):
        whole = [int(each) for each in values]
        return ["whole", whole] if all(-(2**63) <= each < 2**63 for each in whole) else ["real", as_all(float)]
    if all(each is None or type(each) in (int, bool, float) for each in values):
        return ["real", as_all(float)]
    if all(each is None or type(each) is str for each in values):
        for kind, number in (("whole", int), ("real", float)):
            try:
                numbers = as_all(number)
            except ValueError:
                continue
            if kind == "whole" and (None in numbers or not all(-(2**63) <= each < 2**63 for each in numbers)):
                continue
            if any(each is not None for each in numbers):
                return [kind, numbers]
    return ["text", ["" if each is None else each if type(each) is str else json.dumps(each) for each in values]]


TEXTS = ["plain", "a,b;c\td", 'says "no"', "two\nlines", "caf\u00e9", "\u65e5\u672c", "\U0001f600", " spaces ", "", "+-3"]
REALS = [0.1, -2.5e10, 1e-300, 1.7976931348623157e308, -1 / 3, 1e22, 12345678901234567890.0, -0.0, 5e-05, 2.0]
WHOLES = [0, -1, 2**63 - 1, -(2**63), 7, 10, -42, 1000000, 2**53 + 1, 3]


def write_csv() -> None:
    rows = [{"id": i, "whole": WHOLES[i], "real": REALS[i], "gaps": REALS[i] if i % 3 else "", "large": 2**63 + i,
             "text": TEXTS[i], "nothing": ""} for i in range(10)]
    expected = {}
    for name, dialect, separator in (("excel.csv", "excel", ","), ("tabs.tsv", "excel-tab", "\t"),
                                     ("unix.csv", "unix", ","), ("semicolons.csv", "excel", ";")):
        with open(FOLDER / name, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, rows[0], dialect=dialect, delimiter=separator)
            writer.writeheader()
            writer.writerows(rows)
        with open(FOLDER / name, newline="", encoding="utf-8") as file:
            read = list(csv.DictReader(file, dialect=dialect, delimiter=separator))
        expected[name] = {"separator": separator,
                          "columns": [[column, *typed([row[column] for row in read])] for column in read[0]]}
    (FOLDER / "csv.json").write_text(json.dumps(expected))


def write_json_lines() -> None:
    rows = [{"id": i, "whole": WHOLES[i], "real": REALS[i], "gaps": REALS[i] if i % 3 else None, "large": 2**63 + i,
             "text": TEXTS[i], "flag": i % 2 == 0, "mixed": [1.5, "two", True, -3][i % 4]} for i in range(10)]
    for row in rows[::4]:
        del row["gaps"]
    expected = {}
    for name, ascii_only in (("ascii.jsonl", True), ("utf8.jsonl", False)):
        with open(FOLDER / name, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(row, ensure_ascii=ascii_only) + "\n" for row in rows)
        with open(FOLDER / name, encoding="utf-8") as file:
            read = [json.loads(line) for line in file]
        names = list(dict.fromkeys(name for row in read for name in row))
        expected[name] = [[column, *typed([row.get(column) for row in read])] for column in names]
    (FOLDER / "jsonl.json").write_text(json.dumps(expected))


def write_npy() -> None:
    for name, dtype in {"f2": "<f2", "f4": "<f4", "f8": "<f8", "i1": "|i1", "u1": "|u1", "i2": "<i2", "u2": "<u2",
                        "i4": "<i4", "u4": "<u4", "i8": "<i8", "big_f4": ">f4", "big_i2": ">i2"}.items():
        np.save(FOLDER / f"{name}.npy", values((3, 4), dtype))
    np.save(FOLDER / "bool.npy", np.array([True, False, True]))
    np.save(FOLDER / "columns.npy", np.asfortranarray(values((2, 3, 4), "<f8")))
    np.save(FOLDER / "scalar.npy", np.float64(2.5))
    np.save(FOLDER / "long_head.npy", values((1,) * 20 + (5,), "<i4"))
    read = {path.name: described(np.load(path)) for path in sorted(FOLDER.glob("*.npy"))}
    (FOLDER / "npy.json").write_text(json.dumps(read))


def write_safetensors() -> None:
    tensors = {"weight": values((4, 5), np.float32), "bias": values((5,), np.float16), "steps": np.int64(7),
               "mask": np.array([True, False]), "ids": values((3,), np.uint16), "none": np.zeros((0, 3), np.float32)}
    safetensors.numpy.save_file({k: np.asarray(v) for k, v in tensors.items()}, FOLDER / "six.safetensors",
                                metadata={"format": "pt", "who": "you"})
    read = safetensors.numpy.load_file(FOLDER / "six.safetensors")
    (FOLDER / "six.json").write_text(json.dumps({name: described(read[name]) for name in sorted(read)}))


def write_torch() -> None:
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
    torch.serialization.set_crc32_options(False)
    torch.save({"turned": base.t(), "short": torch.tensor([-32768, 32767], dtype=torch.int16), "size": base.shape,
                "list": [1, (2.5, {3: torch.ones(2)})]}, FOLDER / "no_checksums.pt")
    torch.serialization.set_crc32_options(True)
    torch.save({"evil": pathlib.PurePosixPath("/")}, FOLDER / "not_tensors.pt")
    expected = {name: tensor.flatten().tolist() for name, tensor in model.state_dict().items()}
    (FOLDER / "checkpoint.json").write_text(json.dumps(expected))
    state = torch.load(FOLDER / "state_dict.pt")
    (FOLDER / "state_dict.json").write_text(json.dumps({n: t.flatten().tolist() for n, t in state.items()}))


def write_orders() -> None:
    """PyTorch's order of so many samples on 4 ranks, without and with drop_last."""
    orders = []
    # The last size takes more random numbers than torch's generator makes at once (624).
    for size, seed, drop, epoch, rank in itertools.product((4, 5, 23, 24, 1501), (0, 5), (False, True), (0, 1), range(4)):
        sampler = torch.utils.data.DistributedSampler(range(size), 4, rank, seed=seed, drop_last=drop)
        sampler.set_epoch(epoch)
        orders.append({"size": size, "seed": seed, "drop": drop, "epoch": epoch, "rank": rank, "samples": list(sampler)})
    (FOLDER / "sampler.json").write_text(json.dumps(orders))


def write_tokens() -> None:
    values((100,), "<u2").tofile(FOLDER / "plain_tokens.bin")
    for name, magic, version, dtype in (("tokens.bin", 20240520, 1, "<u2"), ("wide_tokens.bin", 20240801, 7, "<u4")):
        head = struct.pack("<256i", magic, version, 100, *([0] * 253))
        (FOLDER / name).write_bytes(head + values((100,), dtype).tobytes())
    read = {path.name: np.fromfile(path, "<u4" if path.name.startswith("wide") else "<u2",
                                   offset=0 if path.name.startswith("plain") else 1024).tolist()
            for path in sorted(FOLDER.glob("*tokens.bin"))}
    (FOLDER / "tokens.json").write_text(json.dumps(read))


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    write_idx()
    write_cifar10()
    write_csv()
    write_json_lines()
    write_npy()
    write_safetensors()
    write_torch()
    write_orders()
    write_tokens()


if __name__ == "__main__":
    sys.exit(main())
