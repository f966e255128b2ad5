"""What ./run shows of a build."""

import pathlib
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


class ProgressTest(unittest.TestCase):
    def shown(self, output: str) -> str:
        """Returns what ./run prints when a build prints this."""
        script = (ROOT / "run").read_text()
        functions = script[script.index("clock() {") : script.index("configure() {")]
        done = subprocess.run(["bash", "-euc", f"{functions}\nshow_progress building"], input=output,
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_steps_that_are_done_are_shown(self):
        self.assertIn("building: step 1 of 4, about 0:00 left", self.shown("[1/4] Building CXX object a.o\n"))

    def test_a_build_that_looks_for_files_first_has_done_nothing_yet(self):
        shown = self.shown("[0/2] Re-checking globbed directories...\n[1/4] Building CXX object a.o\n")
        self.assertEqual(shown.count("step"), 1)
        self.assertIn("step 1 of 4", shown)


if __name__ == "__main__":
    unittest.main()
