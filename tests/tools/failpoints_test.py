"""tools/failpoints finds the failpoints at which no process has acted."""

import pathlib
import re
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DECLARATION = re.compile(r'\bFailpoint (k\w+)\{\s*"(\w+)"\}')
HEADER = """inline constexpr Failpoint kSlotBegun{"slot_begun"};  ///< here
inline constexpr Failpoint kObjectLetGo{
    "object_let_go"};  ///< there
inline constexpr std::array kBoth{kSlotBegun, kObjectLetGo};
"""


class FailpointsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="pharos-failpoints-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "node").mkdir()
        (self.folder / "node/failpoints.hpp").write_text(HEADER)

    def check(self, record: str | None, *options: str) -> tuple[int, str]:
        path = self.folder / "record"
        if record is not None:
            path.write_text(record)
        run = subprocess.run([ROOT / "tools/failpoints", path, *options], capture_output=True, text=True)
        return run.returncode, run.stdout + run.stderr

    def check_own(self, record: str | None) -> tuple[int, str]:
        return self.check(record, "--root", self.folder)

    def test_one_that_no_process_has_reached_is_named(self):
        status, text = self.check_own("slot_begun\nslot_begun\n")
        self.assertEqual(status, 1)
        self.assertIn("  object_let_go\n", text)

    def test_without_a_record_all_are_missing(self):
        status, text = self.check_own(None)
        self.assertEqual(status, 1)
        self.assertIn("slot_begun object_let_go", text)

    def test_when_all_are_reached_it_says_how_many(self):
        status, text = self.check_own("object_let_go\nslot_begun\n")
        self.assertEqual((status, "each of the 2" in text), (0, True), text)

    def test_each_failpoint_has_a_name_and_a_place_of_its_own(self):
        files = [path for folder in ("actors", "ml", "node", "object_store", "runtime")
                 for path in (ROOT / folder).rglob("*.[ch]pp")]
        declared = [found for path in files if path.name == "failpoints.hpp"
                    for found in DECLARATION.findall(path.read_text())]
        sources = "\n".join(path.read_text() for path in files if path.name != "failpoints.hpp")
        passed = set(re.findall(r"failpoint\((?:\w+::)*(k\w+)\)", sources))
        names = [name for _, name in declared]
        self.assertGreater(len(names), 40)
        self.assertEqual(len(set(names)), len(names))
        for constant, name in declared:
            self.assertEqual(re.sub(r"(?<!^)([A-Z])", r"_\1", constant[1:]).lower(), name)
            self.assertIn(constant, passed)
        status, text = self.check("\n".join(names[1:]))
        self.assertEqual((status, f"  {names[0]}\n" in text), (1, True), text)


if __name__ == "__main__":
    unittest.main()
