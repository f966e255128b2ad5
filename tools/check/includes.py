"""Checks that includes between folders only point down, that CMake's targets say the same, and that each foreign library
is included only by the folders that are its door."""

import pathlib
import re

from source import Problem, Tree, includes, line_of

RUNTIME = ["base", "async", "wire", "net", "storage", "process"]

# The modules that each module may include, beside itself. ARCHITECTURE.md has a drawing. Each folder of ml is a module.
MAY_INCLUDE = {
    "base": [],
    "async": ["base"],
    "wire": ["base"],
    "net": ["base", "async", "wire"],
    "storage": ["base", "async", "wire"],
    "process": ["base", "async", "wire", "net"],
    "scheduler": RUNTIME,
    "object_store": RUNTIME,
    "actors": [*RUNTIME, "scheduler", "object_store"],
    "ml/reports": ["base"],
    "ml/models": ["base"],
    "ml/collective": ["base", "async", "wire", "net", "process", "actors"],
    "ml/nccl": ["base", "async", "actors", "ml/collective"],
    "ml/cuda": ["base", "actors", "ml/device", "ml/models"],
    "ml/device": ["base", "actors", "object_store", "ml/collective"],
    "ml/data": ["base", "wire", "actors", "ml/collective"],
    "ml/checkpoint": ["base", "wire", "object_store", "actors", "ml/collective", "ml/data"],
    "ml/trainer": ["base", "async", "wire", "actors", "ml/collective", "ml/data", "ml/reports", "ml/checkpoint"],
    "ml/parallel": ["base", "actors", "ml/collective", "ml/data", "ml/device", "ml/checkpoint", "ml/reports",
                 "ml/trainer"],
    "ml/tune": ["base", "async", "wire", "actors", "ml/collective", "ml/reports", "ml/checkpoint", "ml/trainer"],
    "ml/xgboost": ["base", "wire", "actors", "ml/tune"],
    "node": [*RUNTIME, "scheduler", "object_store"],
    "testing": [*RUNTIME, "scheduler", "object_store", "actors", "node"],
    "console": [*RUNTIME, "scheduler", "object_store", "actors", "node", "ml/tune"],
}
# examples, tests and benchmarks may include anything.

# The folders that may include a foreign library; all other folders of MAY_INCLUDE may not.
DOORS = {
    r"boost/(random|math)/": ["ml/tune"],
    r"boost/context/": ["testing"],
    r"boost/(asio/|version\.hpp)": ["actors/include/pharos/asio"],  # for programs on Asio; nothing else includes it
    r"(boost|asio)(/|\.hpp)": [],
    r"Eigen/": ["ml/tune"],
    r"nlohmann/": ["ml/tune", "ml/data", "ml/checkpoint", "ml/reports"],
    r"(capnp|kj)/|.*\.capnp\.h": [],  # benchmarks compare Pharos with Cap'n Proto
    r"rocksdb/": ["runtime/storage"],
    r"(spdlog|fmt)/": ["runtime/base"],
    r"(jpeglib|jerror|png)\.h": ["ml/data"],
    r"xxhash\.h": ["object_store", "runtime/process"],
    r"CLI/": ["console"],
    r"sodium\.h$": ["runtime/net"],
    r"backtrace\.h": ["runtime/process"],
    r"(torch|ATen|c10|caffe2)/": ["ml/cuda", "ml/device", "ml/parallel", "ml/models"],
    r"(cuda|cuda_runtime|cuda_runtime_api|cublas_v2|nccl|cuda_fp16|cuda_bf16)\.h": ["ml/cuda", "ml/nccl"],
    r"nvml\.h": ["node"],
    r"xgboost/": [],
}


def module_of(name: str) -> str | None:
    parts = pathlib.PurePath(name).parts
    module = parts[0]
    if len(parts) > 2 and module == "runtime":
        module = parts[1]
    elif len(parts) > 2 and module == "ml":
        module = "/".join(parts[:2])
    return module if module in MAY_INCLUDE else None


def door_of(included: str) -> list[str] | None:
    for pattern, folders in DOORS.items():
        if re.match(pattern, included):
            return folders
    return None


def check_includes(tree: Tree) -> list[Problem]:
    return check_arrows(tree) + check_targets(tree)


def check_targets(tree: Tree) -> list[Problem]:
    """Checks that the target of a module links no target of a module that it may not include."""
    targets = {"pharos_" + module.removeprefix("ml/"): module for module in MAY_INCLUDE}
    problems = []
    for name in tree.files:
        module = module_of(name)
        if module is None or pathlib.PurePath(name).name != "CMakeLists.txt":
            continue
        for library in re.finditer(r"^pharos_library\((.*?)\)", tree.text(name), re.MULTILINE | re.DOTALL):
            for target in re.finditer(r"\bpharos_\w+", library[1]):
                linked = targets.get(target[0])
                if linked is not None and linked not in [module, *MAY_INCLUDE[module]]:
                    line = line_of(tree.text(name), library.start(1) + target.start())
                    problems.append(Problem(name, line, f"the target of {module} links {target[0]}, but {module} may "
                                            f"not include {linked} (MAY_INCLUDE in tools/check/includes.py); remove "
                                            "it from DEPS, or correct the table"))
    return problems


def check_arrows(tree: Tree) -> list[Problem]:
    homes = {header.split("/include/", 1)[1]: header for header in tree.public_headers}
    problems = []
    for name in tree.cpp_files:
        module = module_of(name)
        if module is None:
            continue
        allowed = [module, *MAY_INCLUDE[module]]
        for line, included in includes(tree, name):
            if included.startswith("../") or "/../" in included:
                problems.append(Problem(name, line, f'"{included}" climbs out of its folder, where the build cannot '
                                        "see what depends on what; include a public header as <pharos/...>"))
            home = homes.get(included)
            if included.startswith("pharos/") and home is None:
                problems.append(Problem(name, line, f"<{included}> is no public header of this tree; correct the name, "
                                        "or move the header below an include/ folder"))
            if home is not None and module_of(home) not in allowed:
                problems.append(Problem(name, line, f"{module} includes <{included}> of {module_of(home)}, but arrows "
                                        f"point down and {module} may use only: {', '.join(allowed)}; move the code "
                                        "down, or pass in what it needs (ARCHITECTURE.md)"))
            folders = door_of(included)
            if folders is not None and not any(name.startswith(folder + "/") for folder in folders):
                where = " or ".join(folders) if folders else "no folder"
                problems.append(Problem(name, line, f"<{included}> is a foreign library whose one door is {where}; use "
                                        "what that folder offers instead (ARCHITECTURE.md, Dependencies)"))
    return problems
