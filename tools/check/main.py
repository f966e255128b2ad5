"""Runs the checks: see ./check --help."""

import argparse
import pathlib
import sys

import clang_tools
from classes import check_classes
from coroutines import check_coroutines
from cycles import check_cycles
from documents import check_documents
from foreign import check_foreign
from includes import check_includes
from namespaces import check_namespaces
from source import Tree
from words import check_words

NAMES = ["format", "includes", "foreign", "words", "classes", "namespaces", "coroutines", "documents", "headers", "tidy"]


def main() -> int:
    parser = argparse.ArgumentParser(prog="check")
    parser.add_argument("names", nargs="*", metavar="CHECK", help=", ".join(NAMES))
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--since")
    parser.add_argument("--fix", action="store_true")
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).parents[2])
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/release"))
    options = parser.parse_args()
    if unknown := set(options.names) - set(NAMES):
        parser.error(f"no check is called {', '.join(sorted(unknown))}; there are: {', '.join(NAMES)}")

    tree = Tree(options.root.resolve(), options.build.resolve())
    checks = {
        "format": lambda: clang_tools.check_format(tree, options.fix),
        "includes": lambda: [*check_includes(tree), *check_cycles(tree)],
        "foreign": lambda: check_foreign(tree),
        "words": lambda: check_words(tree),
        "classes": lambda: check_classes(tree),
        "namespaces": lambda: check_namespaces(tree),
        "coroutines": lambda: check_coroutines(tree),
        "documents": lambda: check_documents(tree),
        "headers": lambda: clang_tools.check_headers(tree),
        "tidy": lambda: clang_tools.check_tidy(tree, options.all, options.since),
    }
    status = 0
    for name in options.names or NAMES:
        problems = checks[name]()
        for problem in problems:
            print(problem)
        print(f"{name}: {f'{len(problems)} to mend' if problems else 'passed'}", flush=True)
        status |= bool(problems)
    return status


if __name__ == "__main__":
    sys.exit(main())
