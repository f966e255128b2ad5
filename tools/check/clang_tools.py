"""clang-format, clang-tidy, and the build's own check that each public header compiles alone."""

import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

from source import Problem, Tree, includes

TIDY_DIAGNOSTIC = re.compile(r"^(?P<path>[^:\n]+):(?P<line>\d+):\d+: (?:warning|error): (?P<text>.*)$", re.MULTILINE)

GCC_ONLY = ("-fpch-preprocess", "-fno-tree-loop-distribute-patterns")  # clang refuses these


def clang_tool(name: str) -> str:
    """Returns the path of the tool in version 14, which Debian 12 has. Other versions judge differently."""
    if path := shutil.which(name + "-14"):
        return path
    path = shutil.which(name)
    if path and re.search(r"version 14\.", subprocess.run([path, "--version"], capture_output=True, text=True).stdout):
        return path
    sys.exit(f"check: {name} 14 is missing; run tools/setup --tests")


# --- format --------------------------------------------------------------------------------------------------------


def check_format(tree: Tree, fix: bool) -> list[Problem]:
    if not tree.cpp_files:
        return []
    tool = clang_tool("clang-format")
    if fix:
        subprocess.run([tool, "-i", *tree.cpp_files], cwd=tree.root, check=True)
    run = subprocess.run([tool, "--dry-run", *tree.cpp_files], cwd=tree.root, capture_output=True, text=True)
    places = re.findall(r"^(\S+?):(\d+):\d+: warning: .*clang-format-violations", run.stderr, re.MULTILINE)
    return [Problem(path, int(line), "not as .clang-format has it; give: ./check format --fix")
            for path, line in sorted(set(places), key=lambda place: (place[0], int(place[1])))]


# --- headers -------------------------------------------------------------------------------------------------------


def check_headers(tree: Tree) -> list[Problem]:
    """Compiles each public header alone, by the target all_verify_interface_header_sets of the build."""
    run = subprocess.run(["cmake", "--build", tree.build, "--target", "all_verify_interface_header_sets", "--",
                          "-k", "0"], capture_output=True, text=True)
    if run.returncode == 0:
        return []
    print(run.stdout)
    failed = re.findall(r"^FAILED: .*_verify_interface_header_sets/(\S+)\.cxx\.o", run.stdout, re.MULTILINE)
    return [Problem(header, 1, "does not compile alone (the compiler's words are above); include what it uses")
            for header in tree.public_headers if header.split("/include/", 1)[1] in failed] or [
                Problem("CMakeLists.txt", 1, "the build stopped before the headers; its words are above")]


# --- tidy ----------------------------------------------------------------------------------------------------------


def git(tree: Tree, *arguments: str) -> str | None:
    run = subprocess.run(["git", *arguments], cwd=tree.root, capture_output=True, text=True)
    return run.stdout.strip() if run.returncode == 0 else None


def base_revision(tree: Tree) -> str | None:
    """Returns the revision where this work left main. On main itself this is the last pushed revision, or the parent of
    the last commit if everything has been pushed."""
    head = git(tree, "rev-parse", "HEAD")
    for main in ("origin/main", "main"):
        base = git(tree, "merge-base", "HEAD", main)
        if base is not None and base != head:
            return base
    return git(tree, "rev-parse", "--verify", "--quiet", "HEAD~1")


def changed_files(tree: Tree, since: str | None) -> set[str]:
    base = since or base_revision(tree)
    if base is None:
        return set(tree.files)
    if git(tree, "rev-parse", "--verify", "--quiet", base + "^{commit}") is None:
        sys.exit(f"check: git knows no revision {base}")
    changed = (git(tree, "diff", "--name-only", base) or "").splitlines()
    untracked = (git(tree, "ls-files", "--others", "--exclude-standard") or "").splitlines()
    return {*changed, *untracked}


def clang_command(entry: dict) -> list[str]:
    """Returns the compile command without the options for warnings, whose names GCC and clang do not share, and without
    the precompiled header."""
    words = shlex.split(entry["command"])
    kept, skip = [], False
    for word in words[next(i for i, w in enumerate(words) if re.search(r"(\+\+|g?cc|clang)(-\d+)?$", w)) :]:
        if skip:
            skip = False
        elif word.startswith("-W") or word in GCC_ONLY:
            pass
        elif word.endswith("cmake_pch.hxx"):
            kept.pop()  # the -include before it
        elif word == "-o":
            skip = True
        else:
            kept.append(word)
    return kept


def taken_apart(entry: dict[str, str]) -> list[dict[str, str]]:
    """Returns an entry for each source file that this entry's file includes, if that is a file of a unity build."""
    together = pathlib.Path(entry["file"])
    if together.parent.name != "Unity":
        return [entry]
    files = re.findall(r'^#include "(.*)"$', together.read_text(), re.MULTILINE)
    return [{**entry, "file": file, "command": entry["command"].replace(str(together), file)} for file in files]


def tidy_places(tree: Tree, wanted: set[str]) -> dict[str, list[str]]:
    """Returns the files to check, each with its compile command: the wanted sources, and one file for each wanted
    header that includes the header. For a public header this is the file by which the build compiles the header alone,
    if there is one."""
    database = json.loads((tree.build / "compile_commands.json").read_text())
    commands: dict[str, list[str]] = {}
    alone: dict[str, str] = {}
    for entry in (each for together in database for each in taken_apart(together)):
        path = os.path.relpath(entry["file"], tree.root)
        if match := re.search(r"_verify_interface_header_sets/(.*)\.cxx$", path):
            alone.update({header: path for header in tree.public_headers if header.endswith("/include/" + match[1])})
        commands.setdefault(path, clang_command(entry))
    chosen = {path for path in wanted if path in commands}
    for header in (path for path in wanted if path.endswith(".hpp") and path in tree.cpp_files):
        users = [path for path in tree.cpp_files if path in commands
                 and any(header.endswith("/" + included) for _, included in includes(tree, path))]
        if not chosen.intersection(users):
            chosen.update([alone[header]] if header in alone else users[:1])
    return {path: commands[path] for path in sorted(chosen)}


def check_tidy(tree: Tree, everything: bool, since: str | None) -> list[Problem]:
    tool = clang_tool("clang-tidy")
    wanted = set(tree.cpp_files) if everything else changed_files(tree, since) & set(tree.cpp_files)
    places = tidy_places(tree, wanted)

    # A file that has passed before passes again if it and all headers of this tree are the same.
    headers = hashlib.sha256()
    for name in tree.files:
        if name.endswith((".hpp", ".h", ".clang-tidy")):
            headers.update(name.encode() + tree.text(name).encode())
    passed_folder = tree.build / "tidy"
    passed_folder.mkdir(exist_ok=True)
    database = passed_folder / "compile_commands.json"
    database.write_text(json.dumps([{"directory": str(tree.build), "file": str(tree.root / path),
                                     "arguments": command} for path, command in places.items()]))

    def look(path: str) -> list[Problem]:
        source = (tree.root / path).read_bytes()
        key = hashlib.sha256(headers.digest() + source + " ".join(places[path]).encode()).hexdigest()
        if (passed_folder / key).exists():
            return []
        run = subprocess.run([tool, "--quiet", f"-p={passed_folder}", str(tree.root / path)], cwd=tree.root,
                             capture_output=True, text=True)
        problems = [Problem(os.path.relpath(match["path"], tree.root), int(match["line"]),
                            f"{match['text']}; mend it, or write NOLINT with the check's name and the reason")
                    for match in TIDY_DIAGNOSTIC.finditer(run.stdout)]
        if run.returncode != 0 and not problems:
            problems = [Problem(path, 1, f"clang-tidy failed: {(run.stdout + run.stderr).strip()[-400:]}")]
        if not problems:
            (passed_folder / key).touch()
        return problems

    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        found = {problem for problems in pool.map(look, places) for problem in problems}
    print(f"tidy: looked at {len(places)} files")
    return sorted(found, key=lambda problem: (problem.path, problem.line))
