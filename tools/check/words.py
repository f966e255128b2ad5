"""Checks the vocabulary: refuses words that say nothing, second words for things that have a word already, and comments
that begin with "Of ". Also refuses folders with too many source files."""

import collections
import pathlib
import re

from source import Problem, Tree, line_of

REFUSED = {
    "gang": "actors placed together are a group",
    "manager": "it says nothing: name what the thing does or holds",
    "helper": "it says nothing: name what the thing does or holds",
    "util": "it says nothing: name what is inside",
    "utils": "it says nothing: name what is inside",
    "utility": "it says nothing: name what is inside",
    "common": "it says nothing: name what is shared, and by whom",
    "impl": "it says nothing: name how this one does it",
    "info": "it says nothing: name what is known",
}
REFUSED |= {
    "lessor": "the node's end of the object store is the store node",
    "lender": "what the store node has given out stands in the store book",
    "wish": "a node that wants an object of another one sends a pull request",
}
REFUSED |= {word + "s": why for word, why in REFUSED.items() if not word.endswith(("s", "info"))}

# Names of foreign libraries, and the name of a log level.
ALLOWED = {"kInfo", "type_info", "siginfo_t", "dl_phdr_info", "Dl_info", "_Unwind_GetIPInfo", "getMemoryInfo", "cudaMemGetInfo",
           "GetInfoLogLevel", "j_common_ptr", "png_create_info_struct", "png_read_info", "png_read_update_info", "common_type",
           "common_type_t", "common_reference", "common_reference_t", "common_with", "common_reference_with",
           "clone_impl", "TORCH_LIBRARY_IMPL", "C10_REGISTER_GUARD_IMPL"}
# libtorch's TORCH_MODULE(Name) makes a module of a class NameImpl, and of no other name.
TORCH_MODULE = re.compile(r"\bTORCH_MODULE\((\w+)\)")
FOREIGN_QUALIFIER = re.compile(r"\b(std|spdlog|rocksdb|capnp|kj|CLI|benchmark|testing|torch|at|c10)::[\w:]*$")

IDENTIFIER = re.compile(r"\b[A-Za-z_]\w*\b")
PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
# A task is a unit of work that submit makes; a coroutine is an Async.
COROUTINE_TASK = re.compile(r"\b(co_task\w*|CoTask\w*|AsyncTask\w*|TaskCoroutine\w*|Task(?=\s*<))")

# "Of this code callers ask again": a sentence begins with its subject.
FRAGMENT = re.compile(r"(?m)(?<!:)//[/<]*<? *Of ")
FOLDER_MAX = 40  # source files


def refused_part(name: str) -> str | None:
    return next((part for part in (p.lower() for p in PART.findall(name)) if part in REFUSED), None)


def check_words(tree: Tree) -> list[Problem]:
    problems = []
    folders = collections.Counter(str(pathlib.PurePath(name).parent) for name in tree.cpp_files)
    for folder, count in folders.items():
        if count > FOLDER_MAX:
            problems.append(Problem(folder, 1, f"{count} source files lie here, and {FOLDER_MAX} may: make folders of what "
                                               "belongs together"))
    modules = {match[1] + "Impl" for name in tree.cpp_files for match in TORCH_MODULE.finditer(tree.code(name))}
    for name in tree.files:
        for part in pathlib.PurePath(name).parts:
            if word := refused_part(part):
                problems.append(Problem(name, 1, f'"{word}" in the name "{part}": {REFUSED[word]}; rename it'))
    for name in tree.cpp_files:
        code = re.sub(r"(?m)^[ \t]*#[ \t]*include.*$", lambda match: " " * len(match[0]), tree.code(name))
        for match in IDENTIFIER.finditer(code):
            word = None if match[0] in modules else refused_part(match[0])
            before = code[max(0, match.start() - 80) : match.start()]
            if word is None or match[0] in ALLOWED or FOREIGN_QUALIFIER.search(before) or before.endswith((".", "->")):
                continue  # members of this tree are refused where they are declared
            problems.append(Problem(name, line_of(code, match.start()),
                                    f'"{word}" in {match[0]}: {REFUSED[word]}; rename it'))
        for match in FRAGMENT.finditer(tree.text(name)):
            problems.append(Problem(name, line_of(tree.text(name), match.start()),
                                    'a comment begins with "Of ": begin with the subject, and write a sentence'))
        for match in COROUTINE_TASK.finditer(code):
            problems.append(Problem(name, line_of(code, match.start()),
                                    f"{match[0]}: a task is a unit of work that submit makes; a coroutine is an "
                                    "Async<T>"))
    return problems
