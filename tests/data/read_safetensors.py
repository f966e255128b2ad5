"""What the safetensors package reads in a file: its tensors as JSON, with the numbers that they are for numpy."""

import json
import sys

import numpy as np
import safetensors

TYPES = {"U8": "<u1", "I8": "<i1", "I32": "<i4", "I64": "<i8", "F16": "<f2", "BF16": "<u2", "F32": "<f4", "F64": "<f8"}


def numbers(dtype: str, data: bytes) -> list[float]:
    read = np.frombuffer(bytes(data), TYPES[dtype])
    if dtype == "BF16":  # which numpy has not: a float's upper half
        read = (read.astype("<u4") << 16).view("<f4")
    return [float(each) for each in read]


with open(sys.argv[1], "rb") as file:
    tensors = safetensors.deserialize(file.read())
with safetensors.safe_open(sys.argv[1], framework="np") as file:
    metadata = file.metadata() or {}
json.dump({"metadata": metadata,
           "tensors": {name: {"dtype": its["dtype"], "shape": its["shape"], "numbers": numbers(its["dtype"], its["data"])}
                       for name, its in tensors}}, sys.stdout)
