"""What `benchmarks/record --compare` takes for the same, and what not."""

import json
import pathlib
import subprocess
import tempfile
import unittest

RECORD = pathlib.Path(__file__).resolve().parents[2] / "benchmarks/record"


class Compare(unittest.TestCase):
    def setUp(self) -> None:
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.root = pathlib.Path(holder.name)

    def write(self, name: str, hashes: dict, figures: dict) -> pathlib.Path:
        folder = self.root / name
        folder.mkdir()
        (folder / "hashes.txt").write_text("".join(f"{seed} {each}\n" for seed, each in hashes.items()))
        kept = {name: {"unit": "us", "values": values} for name, values in figures.items()}
        (folder / "figures.json").write_text(json.dumps(kept))
        return folder

    def compare(self, *folders: pathlib.Path) -> tuple[int, str]:
        result = subprocess.run([RECORD, "--compare", *folders], capture_output=True, text=True)
        return result.returncode, result.stdout + result.stderr

    def test_figures_within_their_shares_and_equal_hashes_are_the_same(self) -> None:
        before = self.write("before", {1: "a", 2: "b"}, {"core/call_instructions": [5000], "core/init": [1, 1.04, 3]})
        after = self.write("after", {1: "a", 2: "b"}, {"core/call_instructions": [5040], "core/init": [1, 1.08, 9]})
        status, text = self.compare(before, after)
        self.assertEqual(status, 0, text)
        self.assertIn("hashes of 2 seeds are the same", text)

    def test_a_seed_whose_hash_differs_is_named(self) -> None:
        status, text = self.compare(self.write("before", {1: "a", 2: "b"}, {}), self.write("after", {1: "a", 2: "c"}, {}))
        self.assertEqual(status, 1)
        self.assertIn("hashes of 1 seeds differ: 2\n", text)

    def test_a_seed_on_which_one_build_does_not_agree_is_not_compared(self) -> None:
        status, text = self.compare(self.write("before", {1: "a", 2: "-"}, {}), self.write("after", {1: "a", 2: "c"}, {}))
        self.assertEqual(status, 0, text)
        self.assertIn("hashes of 1 seeds are the same", text)

    def test_a_seed_that_one_of_them_lacks_differs(self) -> None:
        status, text = self.compare(self.write("before", {1: "a", 2: "b"}, {}), self.write("after", {1: "a"}, {}))
        self.assertEqual(status, 1)
        self.assertIn("differ: 2\n", text)

    def test_instructions_may_differ_by_one_percent_and_the_rest_by_five(self) -> None:
        before = self.write("before", {}, {"core/call_instructions": [5000], "core/init": [1.0]})
        after = self.write("after", {}, {"core/call_instructions": [5060], "core/init": [0.94]})
        status, text = self.compare(before, after)
        self.assertEqual(status, 1)
        self.assertIn("core/call_instructions: 5000 to 5060 us (+1.2 %)", text)
        self.assertIn("core/init: 1 to 0.94 us (-6.0 %)", text)

    def test_limits_and_peers_are_left_out_and_a_missing_figure_is_not(self) -> None:
        before = self.write("before", {}, {"core/limit_exec": [1], "core/asio_call_sync_median": [1], "core/init": [1]})
        after = self.write("after", {}, {"core/limit_exec": [2], "core/asio_call_sync_median": [2]})
        status, text = self.compare(before, after)
        self.assertEqual(status, 1)
        self.assertIn("1 figures differ by too much:\ncore/init: only before", text)

    def test_a_folder_without_a_recording_is_refused(self) -> None:
        status, text = self.compare(self.root / "none", self.root / "nothing")
        self.assertEqual(status, 1)
        self.assertIn("there is no recording in", text)


if __name__ == "__main__":
    unittest.main()
