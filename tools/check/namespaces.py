"""Checks that each folder defines names in the namespaces that ARCHITECTURE gives it (Namespaces), so that a namespace
says which folder a type comes from. An unnamed namespace may stand alone, and std may be specialized."""

import dataclasses
import pathlib
import re

from source import Problem, Tree, line_of

PUBLIC = ["pharos", "pharos::detail"]
ML = ["pharos::ml", "pharos::ml::detail", "pharos"]  # pharos: specializations of Codec
NAMESPACES = {
    "runtime/base": [*PUBLIC, "pharos::literals"],
    "runtime/async": ["pharos::async", "pharos::async::detail", "pharos"],  # pharos: Async and Deadline
    "runtime/wire": [*PUBLIC, "pharos::wire"],
    "runtime/net": ["pharos::net"],
    "runtime/storage": ["pharos::storage"],
    "runtime/process": ["pharos::process", "pharos::detail"],  # pharos::detail: what the replaced main() calls
    "object_store": ["pharos::object_store", "pharos::object_store::detail"],
    "scheduler": ["pharos::scheduler"],
    "actors": [*PUBLIC, "pharos::actors"],
    "node/src/head": ["pharos::node", "pharos::node::head"],
    "node": ["pharos::node", "pharos::node::detail"],
    "testing/src/simulator": ["pharos::simulator"],
    "testing": ["pharos::testing", "pharos::detail"],  # pharos::detail: which library a program has
    "console": ["pharos::console"],
    "ml": ML,
    "ml/parallel": [*ML, "torch::nn"],  # torch::nn: ModuleHolder of our modules
    "ml/xgboost": ["pharos::ml::xgboost"],
}

PIECE = re.compile(r"namespace(?:\s+([\w:]+))?\s*\{|[{}]")
DECLARATIONS = re.compile(r"(?:\s|(?:template\s*<[^;{}]*>\s*)?(?:class|struct|enum class)\s+[\w:]+\s*(?::\s*[\w:]+\s*)?;)*")


def namespaces_of(name: str) -> list[str] | None:
    folders = [str(folder) for folder in pathlib.PurePath(name).parents]
    return next((NAMESPACES[folder] for folder in folders if folder in NAMESPACES), None)


@dataclasses.dataclass
class Block:
    namespace: str  # with the names of the namespaces around it; an unnamed one has the name of the one around it
    offset: int
    own: str = ""  # the code in it that is in no other block


def blocks(code: str) -> list[Block]:
    """Returns each namespace of a file."""
    found, open_blocks, inner_braces, last = [], [Block("", 0)], 0, 0
    for piece in PIECE.finditer(code):
        open_blocks[-1].own += code[last : piece.start()]
        last = piece.end()
        if piece[0] == "{":
            inner_braces += 1
        elif piece[0] != "}":
            outer = open_blocks[-1].namespace
            open_blocks.append(Block("::".join(filter(None, [outer, piece[1]])), piece.start()))
        elif inner_braces > 0:
            inner_braces -= 1
        elif len(open_blocks) > 1:
            found.append(open_blocks.pop())
    return found


def check_namespaces(tree: Tree) -> list[Problem]:
    problems = []
    for name in tree.cpp_files:
        allowed = namespaces_of(name)
        if allowed is None:
            continue
        code = tree.code(name)
        for block in blocks(code):
            if block.namespace.removesuffix("::failpoints") not in ["", "std", *allowed] and not DECLARATIONS.fullmatch(block.own):
                problems.append(Problem(name, line_of(code, block.offset), f"namespace {block.namespace} does not belong here: "
                                        f"this folder has {', '.join(allowed)} (ARCHITECTURE.md, Namespaces)"))
    return problems
