"""The C++ that documents show is true: every ```cpp block is compiled, or comes from an example that is.

A block with a main() is a program. Other blocks of one section ("## …") see those before them: each is a part of one
file, or, after a line `<!-- in main -->`, the body of a function that has a `pharos::Runtime& runtime`. After a line
`<!-- from FILE -->` the block's lines are lines of that file, in its order; `// …` stands for any that are left out.
C++ for other libraries is in ```c++ blocks, and not looked at.
"""

import concurrent.futures
import dataclasses
import pathlib
import re
import subprocess
import sys
import tempfile
import textwrap
import unittest

BLOCK = re.compile(r"^```cpp\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MARK = re.compile(r"<!-- (in main|from (\S+)) -->\s*\Z")
HEADERS = ["chrono", "cstdio", "iostream", "string", "utility", "vector", "pharos/pharos.hpp"]


@dataclasses.dataclass
class Snippet:
    code: str
    line: int  # of its first line in the document
    section: int
    in_main: bool
    source: str | None  # the file that it comes from


def snippets_of(text: str) -> list[Snippet]:
    found = []
    for block in BLOCK.finditer(text):
        before = text[: block.start()]
        mark = MARK.search(before)
        found.append(Snippet(block[1], before.count("\n") + 2, len(re.findall(r"^## ", before, re.MULTILINE)),
                             bool(mark) and mark[1] == "in main", mark[2] if mark else None))
    return found


def missing_lines(snippet: Snippet, source: str) -> list[str]:
    """Those that are not in the source, after the ones before them."""
    left = iter(line.strip() for line in source.splitlines())
    wanted = [line.strip() for line in snippet.code.splitlines() if line.strip() not in ("", "// …")]
    return [line for line in wanted if line not in left]


def sources_of(document: str, snippets: list[Snippet]) -> list[str]:
    """Programs as they are, and all other snippets of a section in one file."""
    def placed(snippet: Snippet) -> str:
        return f'#line {snippet.line} "{document}"\n{snippet.code}'

    own = [snippet for snippet in snippets if snippet.source is None]
    programs = [placed(snippet) for snippet in own if "int main(" in snippet.code]
    parts = [snippet for snippet in own if "int main(" not in snippet.code]
    sections: dict[int, str] = {}
    for number, part in enumerate(parts):
        body = placed(part)
        if part.in_main:
            body = f"void body_{number}([[maybe_unused]] pharos::Runtime& runtime) {{\n{body}}}\n"
        sections[part.section] = sections.get(part.section, "") + body
    headers = "".join(f"#include <{name}>\n" for name in HEADERS)
    return programs + [headers + body for body in sections.values()]


def errors_of(source: str) -> list[str]:
    with tempfile.TemporaryDirectory(prefix="pharos-docs-") as folder:
        path = pathlib.Path(folder) / "snippets.cpp"
        path.write_text(source)
        run = subprocess.run([*COMPILE, "-fsyntax-only", "-Wno-unused-variable", "-Wno-unused-but-set-variable", path],
                             capture_output=True, text=True, timeout=60)
    errors = [line for line in run.stderr.splitlines() if re.search(r"\berror: ", line)]
    assert (run.returncode != 0) == bool(errors), run.stderr
    return errors


class SnippetsTest(unittest.TestCase):
    def test_what_the_documents_show_compiles_or_comes_from_an_example(self):
        documents = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
        sources = []
        shown = set()
        for path in documents:
            name = str(path.relative_to(ROOT))
            snippets = snippets_of(path.read_text())
            sources += sources_of(name, snippets)
            shown.update(name for _ in snippets)
            for snippet in snippets:
                if snippet.source:
                    with self.subTest(f"{name}:{snippet.line}"):
                        self.assertEqual(missing_lines(snippet, (ROOT / snippet.source).read_text()), [])
        self.assertGreaterEqual(shown, {"README.md", "docs/from_ray.md"}, "these have some")
        self.assertNotEqual(sources, [], "some are no example's")
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for errors in pool.map(errors_of, sources):
                self.assertEqual(errors, [])

    def test_what_is_wrong_is_named_with_its_line_in_the_document(self):
        text = textwrap.dedent("""\
            # A document
            ## One
            ```cpp
            int one() { return 1; }
            ```
            <!-- in main -->
            ```cpp
            const int sum = runtime.submit<&one>().get();
            const int more = runtime.submit<&two>().get();
            ```
            ```c++
            not for this compiler
            ```
            <!-- from a_file -->
            ```cpp
            a();
            // …
            c();
            b();
            ```
            """)
        snippets = snippets_of(text)
        self.assertEqual([snippet.line for snippet in snippets], [4, 8, 16])
        (source,) = sources_of("document.md", snippets)
        errors = errors_of(source)
        self.assertTrue(errors and errors[0].startswith("document.md:9:"), errors)
        self.assertEqual(missing_lines(snippets[2], "  a();\n  b();\n  c();\n"), ["b();"])
        self.assertEqual(errors_of(source.replace("&two", "&one")), [])


if __name__ == "__main__":
    ROOT = pathlib.Path(sys.argv[1])
    COMPILE = sys.argv[2:]
    unittest.main(argv=sys.argv[:1])
