"""tools/failpoints finds the failpoints at which no process has acted."""

import pathlib
import re
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADER = """enum class Failpoint : std::uint8_t {
  // A group.
  kSlotBegun,    ///< here
  kObjectLetGo,  ///< there
  kEnd,          ///< the number of failpoints
};
"""


class FailpointsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="pharos-failpoints-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "header.hpp").write_text(HEADER)

    def check(self, record: str | None, *options: str) -> tuple[int, str]:
        path = self.folder / "record"
        if record is not None:
            path.write_text(record)
        run = subprocess.run([ROOT / "tools/failpoints", path, *options], capture_output=True, text=True)
        return run.returncode, run.stdout + run.stderr

    def check_own(self, record: str | None) -> tuple[int, str]:
        return self.check(record, "--header", self.folder / "header.hpp")

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

    def test_the_names_of_the_header_are_those_of_the_source(self):
        source = (ROOT / "runtime/base/src/failpoint.cpp").read_text()
        names = re.findall(r'"(\w+)"', re.search(r"kNames\{(.*?)\};", source, re.DOTALL)[1])
        self.assertEqual(self.check("\n".join(names))[0], 0)
        status, text = self.check("\n".join(names[1:]))
        self.assertEqual((status, f"  {names[0]}\n" in text), (1, True), text)

    def test_each_failpoint_is_a_place_in_the_code(self):
        sources = "\n".join(path.read_text() for folder in ("actors", "ml", "node", "object_store", "runtime")
                            for path in (ROOT / folder).rglob("*.[ch]pp"))
        header = (ROOT / "runtime/base/include/pharos/base/failpoint.hpp").read_text()
        for constant in re.findall(r"^  (k\w+),  +///<", header, re.MULTILINE):
            if constant != "kEnd":
                self.assertIn(f"failpoint(Failpoint::{constant})", sources)


if __name__ == "__main__":
    unittest.main()
