"""What tools/failed prints about a run of ctest."""

import pathlib
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FAILS = """[ RUN      ] Disk.IsThere
[       OK ] Disk.IsThere (0 ms)
[ RUN      ] Disk.HasRoom
much was said before
/src/disk_test.cpp:7: Failure
Expected: (room) > (0), actual: 0 vs 0
[  FAILED  ] Disk.HasRoom (3 ms)
[ RUN      ] Disk.IsFast
[       OK ] Disk.IsFast (1 ms)
[  FAILED  ] 1 test, listed below:
[  FAILED  ] Disk.HasRoom
"""
DIES = """[ RUN      ] Disk.IsThere
[       OK ] Disk.IsThere (0 ms)
[ RUN      ] Disk.Crashes
the last words
"""


class FailedTest(unittest.TestCase):
    def failed(self, **outputs: str) -> str:
        """Lets real ctest run tests that print this and fail, or pass if they are called `good`. Returns what tools/failed
        prints."""
        with tempfile.TemporaryDirectory(prefix="pharos-failed-") as name:
            folder = pathlib.Path(name)
            tests = ""
            for entry, output in outputs.items():
                (folder / entry).write_text(output)
                status = 0 if entry == "good" else 1
                tests += f'add_test({entry} "sh" "-c" "cat {folder}/{entry}; exit {status}")\n'
            (folder / "CTestTestfile.cmake").write_text(tests)
            ran = subprocess.run([shutil.which("ctest"), "--test-dir", folder], capture_output=True, text=True)
            (folder / "ctest.log").write_text(ran.stdout)
            run = subprocess.run([ROOT / "tools/failed", folder], capture_output=True, text=True)
            self.assertEqual(run.returncode, 0, run.stderr)
            return run.stdout

    def test_a_run_without_failures_is_silent(self):
        self.assertEqual(self.failed(good="[       OK ] Disk.IsThere (0 ms)\n"), "")

    def test_each_failure_is_shown_with_its_words_and_nothing_else(self):
        told = self.failed(disk=FAILS, good="all is well\n")
        self.assertIn("disk: Failed", told)
        self.assertIn("Disk.HasRoom\n      /src/disk_test.cpp:7: Failure\n      Expected: (room) > (0)", told)
        for other in ("Disk.IsThere", "Disk.IsFast", "much was said", "good", "all is well"):
            self.assertNotIn(other, told)

    def test_a_test_that_did_not_end_is_shown_with_its_last_lines(self):
        told = self.failed(disk=DIES)
        self.assertIn("Disk.Crashes\n      did not end; its last lines:\n      the last words", told)
        self.assertNotIn("Disk.IsThere", told)

    def test_of_another_program_the_last_lines_are_shown(self):
        told = self.failed(script="\n".join(f"line {number}" for number in range(30)) + "\n")
        self.assertIn("line 29", told)
        self.assertNotIn("line 2\n", told)


if __name__ == "__main__":
    unittest.main()
