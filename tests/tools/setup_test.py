"""What tools/setup does where it may not or must not go on, shown with stand-ins for apt and dpkg."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).parents[2]


class SetupTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="pharos-setup-")
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.root.chmod(0o755)
        (self.root / "bin").mkdir()
        (self.root / "tools").mkdir()
        for name in ("setup", "libtorch.txt", "setup_torch"):
            shutil.copy(ROOT / "tools" / name, self.root / "tools")

    def stand_in(self, name: str, script: str) -> None:
        path = self.root / "bin" / name
        path.write_text("#!/bin/bash\n" + script)
        path.chmod(0o755)

    def setup(self, *arguments: str, user: int | None = None) -> subprocess.CompletedProcess:
        environment = {**os.environ, "PATH": f"{self.root}/bin:{os.environ['PATH']}"}
        return subprocess.run([self.root / "tools/setup", *arguments], capture_output=True, text=True, user=user,
                              env=environment)

    def called(self) -> str:
        log = self.root / "calls"
        return log.read_text() if log.exists() else ""

    def nothing_is_installed(self) -> None:
        self.stand_in("dpkg-query", "exit 1")

    def apt_get(self, plan: str, install_status: int = 0) -> None:
        self.stand_in("apt-get", f"""
echo "$*" >> {self.root}/calls
if [[ $1 == -s ]]; then echo '{plan}'; exit 0; fi
exit {install_status}
""")

    def test_stops_before_anything_if_apt_would_remove_a_package(self):
        self.nothing_is_installed()
        self.apt_get("Inst cmake\nRemv libboost1.74-dev [1.74]")
        run = self.setup("--without-torch")
        self.assertEqual(run.returncode, 4, run.stderr)
        self.assertIn("libboost1.74-dev", run.stderr)
        self.assertIn("Nothing was done", run.stderr)
        self.assertTrue(all(call.startswith("-s ") for call in self.called().splitlines()))

    @unittest.skipUnless(os.geteuid() == 0, "only root can become somebody else")
    def test_without_root_it_says_the_command(self):
        self.nothing_is_installed()
        self.apt_get("Inst cmake")
        run = self.setup("--without-torch", user=65534)
        self.assertEqual(run.returncode, 3, run.stderr)
        self.assertIn("sudo apt-get update && sudo apt-get install --no-install-recommends g++ cmake", run.stderr)

    @unittest.skipUnless(os.geteuid() == 0, "installs as root")
    def test_installs_only_what_is_missing_and_fetches_lists_only_when_needed(self):
        self.stand_in("dpkg-query", r"""
for name in "${@:4}"; do if [[ $name != ccache ]]; then echo "ii  $name"; fi; done""")
        self.apt_get("Inst ccache")
        self.assertEqual(self.setup("--without-torch").returncode, 0)
        self.assertEqual(self.called().splitlines()[-1], "-q -y install --no-install-recommends ccache")
        self.assertNotIn("update", self.called())

    def test_a_failed_download_leaves_no_half_made_libtorch(self):
        self.stand_in("dpkg-query", 'for name in "${@:4}"; do echo "ii  $name"; done')
        (self.root / "tools/libtorch.txt").write_text("torch==0.0.0 --hash=sha256:" + "0" * 64 + "\n")
        environment = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "/nonexistent"}
        os.environ.update(environment)
        self.addCleanup(lambda: [os.environ.pop(name) for name in environment])
        run = self.setup()
        self.assertEqual(run.returncode, 5, run.stderr)
        self.assertIn("--without-torch", run.stderr)
        self.assertFalse((self.root / "third_party/libtorch").exists())

    def test_libtorch_alone_needs_no_apt(self):
        self.nothing_is_installed()
        self.apt_get("Inst cmake")
        (self.root / "third_party/libtorch").mkdir(parents=True)
        shutil.copy(ROOT / "tools/libtorch.txt", self.root / "third_party/libtorch")
        run = self.setup("--only-torch")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(self.called(), "")

    def test_a_second_call_ends_at_once(self):
        self.stand_in("dpkg-query", 'for name in "${@:4}"; do echo "ii  $name"; done')
        self.apt_get("")
        begin = time.monotonic()
        self.assertEqual(self.setup("--without-torch").returncode, 0)
        self.assertLess(time.monotonic() - begin, 2)
        self.assertEqual(self.called(), "")

    def test_an_unknown_option_is_an_error(self):
        run = self.setup("--everything")
        self.assertEqual(run.returncode, 2)
        self.assertIn("usage:", run.stderr)


if __name__ == "__main__":
    unittest.main()
