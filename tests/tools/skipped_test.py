"""Which tests tools/skipped finds in the logs of ctest, and which of them it allows."""

import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SKIPS = """[ RUN      ] Disk.HasNoRoom
/src/disk_test.cpp:7: Skipped
mounting needs root

[  SKIPPED ] Disk.HasNoRoom (3 ms)
[ RUN      ] Disk.IsThere
[       OK ] Disk.IsThere (0 ms)
[  SKIPPED ] 1 test, listed below:
[  SKIPPED ] Disk.HasNoRoom
"""
PYTHON_SKIPS = """test_it_installs (__main__.SetupTest.test_it_installs) ... skipped 'installs as root'
OK (skipped=1)
"""


class SkippedTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="pharos-skipped-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "list.txt").write_text("# no test\n\nDisk.*: needs root\n")

    def entry(self, output: str, named: str = "entry", **properties: str) -> str:
        """Returns the lines of CTestTestfile.cmake for a test that prints this."""
        (self.folder / named).write_text(output)
        lines = f'add_test({named} "cat" "{self.folder}/{named}")\n'
        for name, value in properties.items():
            lines += f'set_tests_properties({named} PROPERTIES {name} "{value}")\n'
        return lines

    def run_tests(self, tests: str) -> None:
        """Runs real ctest as ./test does, so that its logs are those of the installed version."""
        (self.folder / "CTestTestfile.cmake").write_text(tests)
        ran = subprocess.run([shutil.which("ctest"), "--test-dir", self.folder], capture_output=True, text=True)
        (self.folder / "ctest.log").write_text(ran.stdout)

    def check(self, *options: str) -> subprocess.CompletedProcess:
        command = [ROOT / "tools/skipped", self.folder, "--list", self.folder / "list.txt", *options]
        return subprocess.run(command, capture_output=True, text=True)

    def refused(self, *words: str) -> None:
        run = self.check()
        self.assertEqual(run.returncode, 1, run.stdout + run.stderr)
        self.assertIn("NOT ALLOWED", run.stdout)
        for word in words:
            self.assertIn(word, run.stdout)

    def test_a_run_that_left_nothing_out_is_silent(self):
        self.run_tests(self.entry("[       OK ] Disk.IsThere (0 ms)\n"))
        run = self.check()
        self.assertEqual((run.returncode, run.stdout), (0, ""), run.stderr)

    def test_a_listed_test_is_named_and_allowed(self):
        self.run_tests(self.entry(SKIPS))
        run = self.check()
        self.assertEqual(run.returncode, 0, run.stdout)
        self.assertIn("Disk.HasNoRoom: mounting needs root", run.stdout)

    def test_each_entry_of_a_run_is_read(self):
        outputs = [SKIPS, SKIPS.replace("HasNoRoom", "IsFull"), SKIPS.replace("HasNoRoom", "IsSlow")]
        entries = [self.entry(output, f"entry_{number}", SKIP_REGULAR_EXPRESSION="needs root")
                   for number, output in enumerate(outputs)]
        self.run_tests("".join(entries))
        run = self.check()
        self.assertEqual(run.returncode, 0, run.stdout)
        for name in ("HasNoRoom", "IsFull", "IsSlow"):
            self.assertIn(f"Disk.{name}: mounting needs root", run.stdout)

    def test_an_unlisted_test_is_refused_unless_the_caller_allows_all(self):
        (self.folder / "list.txt").write_text("")
        self.run_tests(self.entry(SKIPS))
        self.refused("Disk.HasNoRoom: mounting needs root")
        self.assertEqual(self.check("--may-skip").returncode, 0)

    def test_a_listed_test_that_prints_another_reason_is_refused(self):
        self.run_tests(self.entry(SKIPS.replace("needs root", "is too slow")))
        self.refused("Disk.HasNoRoom: mounting is too slow")

    def test_tests_of_python_are_named(self):
        self.run_tests(self.entry(PYTHON_SKIPS))
        self.refused("SetupTest.test_it_installs: installs as root")

    def test_tests_of_python_that_do_not_say_their_names_are_counted(self):
        self.run_tests(self.entry("OK (skipped=2)\n"))
        self.refused("entry: 2 tests of Python")

    def test_an_entry_that_ctest_skips_or_that_is_disabled_is_found(self):
        for properties in ({"SKIP_REGULAR_EXPRESSION": "no GPU"}, {"DISABLED": "TRUE"}):
            self.run_tests(self.entry("no GPU\n", **properties))
            self.refused("entry: ctest says")

    def test_disabled_tests_of_a_program_are_found(self):
        self.run_tests(self.entry("  YOU HAVE 2 DISABLED TESTS\n"))
        self.refused("entry: 2 of its tests are disabled")

    def test_a_program_that_ran_no_test_is_found(self):
        self.run_tests(self.entry("[==========] 0 tests from 0 test suites ran. (0 ms total)\n"))
        self.refused("entry: the program ran no test")

    def test_a_line_without_a_reason_is_refused(self):
        (self.folder / "list.txt").write_text("Disk.HasNoRoom\n")
        self.run_tests(self.entry(SKIPS))
        self.assertIn("list.txt:1: this line has no reason", self.check().stderr)

    def test_each_name_of_the_list_is_a_test_that_can_print_its_reason(self):
        sources = "\n".join(path.read_text() for pattern in ("*.cpp", "*.hpp")
                            for path in (ROOT / "tests").rglob(pattern))
        for line in (ROOT / "tests/may_be_skipped.txt").read_text().splitlines():
            if not line or line.startswith("#"):
                continue
            name, _, reason = line.partition(": ")
            suite, _, test = name.partition(".")
            wanted = r"\w+" if test == "*" else re.escape(test)
            self.assertTrue(re.search(rf"TEST(_F|_P)?\({suite}, {wanted}\)", sources), f"no test is called {name}")
            self.assertTrue(reason in sources, f"no test says {reason!r}")

    def test_machines_without_a_gpu_may_leave_out_each_suite_that_needs_one(self):
        needing = {suite for path in (ROOT / "tests/gpu").rglob("*_test.cpp")
                   for suite in re.findall(r"^TEST(?:_F|_P)?\((\w+),", path.read_text(), re.MULTILINE)}
        listed = re.findall(r"^(\w+)\.\*: this machine has no GPU$", (ROOT / "tests/may_be_skipped.txt").read_text(),
                            re.MULTILINE)
        self.assertTrue(needing)
        self.assertEqual(needing - set(listed), set())


if __name__ == "__main__":
    unittest.main()
