"""Checks that the files, folders, options and commands that documents name exist."""

import pathlib
import re

from source import Problem, Tree, line_of

# Pages about the past. Names in them may not exist any more.
HISTORY = ("CHANGELOG.md",)

CODE_BLOCK = re.compile(r"(?ms)^```.*?^```[ \t]*$")
LINK = re.compile(r"\]\(([^)\s#]+)(?:#[^)]*)?\)")
CODE = re.compile(r"`([^`\n]+)`")
PATH = re.compile(r"[\w.][\w.*-]*(?:/[\w.*-]+)*/?")
FILE_NAME = re.compile(r"[\w-]+\.(?:hpp|cpp|inc|py|md|cmake|capnp|svg|sh)")
OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]+")
FOREIGN_COMMAND = re.compile(r"(ray|cmake|ctest|git|gdb|strace|docker) ")
COMMAND = re.compile(r"^pharos ([a-z]+)\b")


def blank(text: str, pattern: re.Pattern) -> str:
    """Returns the text with all matches of the pattern blanked, so that every offset and line stays."""
    return pattern.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


def exists(root: pathlib.Path, beside: pathlib.Path, name: str) -> bool:
    """Returns whether a file or folder of this name is below `root`, below `beside`, or below src or include of `beside`.
    A * in the name stands for any characters."""
    name = name.rstrip("/")
    return any(folder.is_dir() and (any(folder.glob(name)) if "*" in name else (folder / name).exists())
               for folder in (root, beside, beside / "src", beside / "include"))


def check_documents(tree: Tree) -> list[Problem]:
    documents = [name for name in tree.files if name.endswith(".md")]
    top = {pathlib.PurePath(name).parts[0] for name in tree.files}
    names = {pathlib.PurePath(name).name for name in tree.files}
    sources = "\n".join((tree.root / name).read_text(errors="replace") for name in tree.files
                        if not name.endswith((".md", ".svg", ".json", ".csv")))
    problems = []
    for document in documents:
        text = (tree.root / document).read_text()
        beside = (tree.root / document).parent

        def say(place: int, what: str) -> None:
            problems.append(Problem(document, line_of(text, place), what))

        prose = blank(text, CODE_BLOCK)
        for link in LINK.finditer(prose):
            if not re.match(r"[a-z]+:", link[1]) and not (beside / link[1]).exists():
                say(link.start(), f"it links to {link[1]}, which is not there")
        if document in HISTORY:
            continue
        for code in CODE.finditer(prose):
            for word in code[1].split():
                word = word.strip(",;:()")
                path = word.removeprefix("./")
                is_of_tree = "/" in path and path.split("/")[0] in top or code[1].startswith(word) and word.startswith("./")
                if is_of_tree and PATH.fullmatch(path) and not path.startswith(("build/", "third_party/")):
                    if not exists(tree.root, beside, path):
                        say(code.start(), f"it names {word}, which is not there")
                elif FILE_NAME.fullmatch(word) and word not in names and "NNNN" not in word:
                    say(code.start(), f"it names the file {word}, which is not there")
            for option in OPTION.findall(code[1]):
                if option not in sources and not FOREIGN_COMMAND.match(code[1]):
                    say(code.start(), f"it names the option {option}, which nothing has")
            if (command := COMMAND.match(code[1])) and f'"{command[1]}"' not in sources:
                say(code.start(), f"it names the command pharos {command[1]}, which the console does not have")
    return problems
