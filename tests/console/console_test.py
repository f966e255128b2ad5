"""The commands that need no program: what completes, describes and examines."""

import json
import os
import pathlib
import re
import resource
import signal
import socket
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PHAROS = os.environ["PHAROS_TESTED"]
SHIFTED_CLOCK = os.environ["PHAROS_SHIFTED_CLOCK"]


def pharos(*arguments: str, **options) -> subprocess.CompletedProcess:
    return subprocess.run([PHAROS, *arguments], capture_output=True, text=True, timeout=60, **options)


class CompletionTest(unittest.TestCase):
    def completed(self, line: str) -> list[str]:
        """Returns what bash offers at the end of the line."""
        words = line + '""' if line.endswith(" ") else line
        script = (
            f'source <("{PHAROS}" completion)\n'
            f"COMP_WORDS=({words}) COMPREPLY=()\n"
            "COMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n"
            "_pharos\n"
            'printf "%s\\n" "${COMPREPLY[@]}"\n'
        )
        done = subprocess.run(["bash", "-euc", script], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.split()

    def test_commands_and_options_are_completed(self):
        self.assertEqual(self.completed("pharos sta"), ["start", "status", "stack"])
        self.assertNotIn("keeper", self.completed("pharos "))
        self.assertEqual(self.completed("pharos start --he"), ["--help", "--head"])
        self.assertIn("show", self.completed("pharos tune "))
        self.assertEqual(self.completed("pharos tune export DIR --fo"), ["--format"])
        self.assertEqual(self.completed("pharos list gr"), ["groups"])

    def test_a_value_before_the_word_is_no_command(self):
        self.assertEqual(self.completed("pharos start --cpus 4 --he"), ["--help", "--head"])

    def test_after_an_option_for_a_path_bash_completes_paths(self):
        self.assertEqual(self.completed("pharos start --state ./"), [])


class ReferenceTest(unittest.TestCase):
    def test_the_page_of_all_commands_says_what_help_says(self):
        page = (ROOT / "docs/commands.md").read_text()
        self.assertEqual(page, pharos("reference").stdout, "pharos reference > docs/commands.md makes it anew")
        self.assertIn("## pharos start", page)


class WithFolder(unittest.TestCase):
    """Looks only at clusters below a folder of its own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="pharos-console-")
        self.addCleanup(folder.cleanup)
        self.environment = {**os.environ, "PHAROS_FOLDER": folder.name}
        self.environment.pop("PHAROS_ADDRESS", None)
        # With a sanitizer its library is not the first one if another is preloaded.
        self.environment["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"

    def start(self, **environment: str) -> None:
        """Starts a head that ends with this test."""
        head = subprocess.Popen([PHAROS, "start", "--head", "--port", "0", "--block"], stdout=subprocess.PIPE,
                                text=True, env={**self.environment, **environment})

        def end():
            head.send_signal(signal.SIGTERM)
            head.wait(30)
            head.stdout.close()

        self.addCleanup(end)
        self.assertTrue(head.stdout.readline())  # printed once the head has started


class StatusTest(WithFolder):
    def test_programs_read_the_status_as_json(self):
        self.start()
        done = pharos("status", "--format", "json", env=self.environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        status = json.loads(done.stdout)
        self.assertEqual([node["state"] for node in status["nodes"]], ["alive"])
        self.assertEqual((status["jobs"], status["gpus"], status["waiting"], status["waiting_count"]), ([], [], [], 0))


class DoctorTest(WithFolder):
    def examined(self, before: list[str] = [], **options) -> subprocess.CompletedProcess:
        return subprocess.run([*before, PHAROS, "doctor"], capture_output=True, text=True, timeout=60,
                              env=self.environment, **options)

    def line(self, text: str, what: str) -> str:
        found = re.search(rf"^  (ok|FAIL) +{re.escape(what)}: .*(\n +-> .*)?", text, re.MULTILINE)
        self.assertIsNotNone(found, f"no line about {what} in\n{text}")
        return found[0]

    def test_a_machine_on_which_the_tests_run_is_in_order(self):
        done = self.examined()
        for what in ("folder for sockets", "shared memory", "memory", "open files", "clock", "GPUs", "training"):
            self.assertTrue(self.line(done.stdout, what).startswith("  ok "), done.stdout)
        self.assertIn("No cluster runs here", done.stdout)

    def test_a_low_limit_fails_with_what_to_do(self):
        def few_files():
            resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))

        done = self.examined(preexec_fn=few_files)
        line = self.line(done.stdout, "open files")
        self.assertIn("FAIL  open files: the limit is 256\n", line)
        self.assertIn("-> At least 4096 are needed. Raise the hard limit", line)
        self.assertEqual(done.returncode, 1)

    def test_a_folder_from_which_nothing_runs_fails(self):
        if os.getuid() != 0:
            self.skipTest("mounting needs root")
        folder = self.environment["PHAROS_FOLDER"]
        done = self.examined(["unshare", "--mount", "bash", "-c",
                              f'mount -t tmpfs -o noexec none "{folder}" && exec "$@"', "bash"])
        self.assertIn("is mounted with noexec", self.line(done.stdout, "folder for sockets"))
        self.assertEqual(done.returncode, 1)

    def test_a_libtorch_that_is_not_there_fails(self):
        self.environment["PHAROS_TORCH_DIR"] = "/nowhere"
        line = self.line(self.examined().stdout, "training")
        self.assertIn("FAIL  training: /nowhere/lib/libtorch.so: cannot open", line)
        self.assertIn("-> Fetch libtorch by", line)

    def test_a_port_in_use_fails(self):
        with socket.socket() as taken:
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                taken.bind(("127.0.0.1", 7400))
                taken.listen()
            except OSError:
                pass  # another process has it, which is as good
            done = self.examined()
        self.assertIn("-> Give a head another port", self.line(done.stdout, "port 7400"))
        self.assertEqual(done.returncode, 1)

    def test_a_cluster_is_examined_node_by_node(self):
        self.start()
        done = self.examined()
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("ok    cluster: 1 node\n", done.stdout)
        self.assertRegex(done.stdout, r"ok    clock of node .*: as this machine's\n")

    def test_a_node_whose_clock_is_wrong_fails(self):
        self.start(LD_PRELOAD=SHIFTED_CLOCK)
        done = self.examined()
        self.assertRegex(done.stdout, r"FAIL  clock of node .*: 3[56]\d\d\.\d s ahead of this machine's\n +-> .*NTP")
        self.assertEqual(done.returncode, 1)

    def test_a_cluster_that_cannot_be_reached_fails(self):
        self.environment["PHAROS_ADDRESS"] = "unix:/nowhere/node.sock"
        done = self.examined()
        self.assertEqual(done.returncode, 1)
        self.assertIn("/nowhere/node.sock", done.stderr)


if __name__ == "__main__":
    unittest.main()
