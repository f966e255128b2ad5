"""Refuses foreign types and foreign includes in public headers, because a user's own version of a library must not
collide with the version that Pharos uses."""

import re

from includes import door_of
from source import Problem, Tree, includes, line_of

FOREIGN_NAMES = re.compile(
    r"\b(?:namespace\s+)?(boost|asio|capnp|kj|spdlog|fmt|rocksdb|CLI|torch|at|c10|caffe2)\s*(?=::|\{)"
    r"|\b(SSL|SSL_CTX|EVP_\w+|HMAC_CTX|OSSL_\w+|cuda\w+_t|CU[a-z]+|nccl\w+_t|nvml\w+_t|BoosterHandle|DMatrixHandle)\b"
)
# These modules offer functions on libtorch's tensors, so their public headers may name libtorch.
TORCH_MODULES = ("ml/device/", "ml/parallel/", "ml/models/")
# Headers for programs on a library, which nothing else includes, take the library that the program has.
FOR_PROGRAMS_ON_ASIO = "actors/include/pharos/asio/"
TORCH_NAMES = {"torch", "at", "c10"}


def check_foreign(tree: Tree) -> list[Problem]:
    problems = []
    why = "a public header names no foreign library, so that programs may use any version of it; hide it in src/"
    for name in tree.public_headers:
        if name.startswith(FOR_PROGRAMS_ON_ASIO):
            continue
        may_use_torch = name.startswith(TORCH_MODULES)
        for line, included in includes(tree, name):
            folders = door_of(included)
            if folders is not None and not (may_use_torch and "ml/parallel" in folders):
                problems.append(Problem(name, line, f"includes <{included}>; {why}"))
        code = tree.code(name)
        for match in FOREIGN_NAMES.finditer(code):
            found = match[1] or match[2]
            if may_use_torch and found in TORCH_NAMES:
                continue
            problems.append(Problem(name, line_of(code, match.start()), f"names {found}; {why}"))
    return problems
