"""The files of the tree, and C++ text with its comments and strings blanked out."""

import dataclasses
import functools
import pathlib
import re
import subprocess

CPP_SUFFIXES = {".cpp", ".hpp", ".cu", ".cuh", ".h", ".cc"}


@dataclasses.dataclass(frozen=True)
class Problem:
    path: str
    line: int
    text: str  # what is wrong, why that matters, and what to do

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}"


@dataclasses.dataclass(frozen=True)
class Tree:
    root: pathlib.Path
    build: pathlib.Path

    @functools.cached_property
    def files(self) -> list[str]:
        """The files that git tracks or would track, as paths from the root."""
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(command, cwd=self.root, check=True, capture_output=True, text=True).stdout.split("\0")
        return sorted({name for name in names if name and (self.root / name).is_file()})

    @functools.cached_property
    def cpp_files(self) -> list[str]:
        return [name for name in self.files if pathlib.PurePath(name).suffix in CPP_SUFFIXES]

    @functools.cached_property
    def public_headers(self) -> list[str]:
        return [name for name in self.cpp_files if "/include/" in name and name.endswith(".hpp")]

    @functools.cache
    def text(self, name: str) -> str:
        return (self.root / name).read_text(encoding="utf-8", errors="replace")

    @functools.cache
    def code(self, name: str) -> str:
        """The text with comments and the insides of strings blanked, so that every offset and line stays."""
        return strip(self.text(name))


_NOT_CODE = re.compile(
    r"""//[^\n]*
      | /\*.*?\*/
      | R"(?P<mark>[^()\\\s]*)\(.*?\)(?P=mark)"
      | (?<![0-9a-zA-Z])'(?:\\.|[^'\\\n])+'
      | "(?:\\.|[^"\\\n])*"
    """,
    re.VERBOSE | re.DOTALL,
)
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"]+)[>"]', re.MULTILINE)


def strip(text: str) -> str:
    def blank(match: re.Match) -> str:
        start = text.rfind("\n", 0, match.start()) + 1
        if text[start : match.start()].lstrip().startswith("#include"):
            return match[0]
        return re.sub(r"[^\n]", " ", match[0])

    return _NOT_CODE.sub(blank, text)


def line_of(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1


def includes(tree: Tree, name: str) -> list[tuple[int, str]]:
    """Returns (line, included name) for each #include."""
    code = tree.code(name)
    return [(line_of(code, match.start()), match[1]) for match in _INCLUDE.finditer(code)]
