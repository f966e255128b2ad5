"""What ./test reads in the logs of ctest."""

import pathlib
import re


def outputs_of(build: pathlib.Path) -> dict[str, str]:
    """Returns the output of each entry of ctest, by its name."""
    log = build / "Testing/Temporary/LastTest.log"
    entry = re.compile(r'^"([^"\n]+)" start time: [^\n]*\nOutput:\n-+\n(.*?)^<end of output>$', re.MULTILINE | re.DOTALL)
    return dict(entry.findall(log.read_text(errors="replace")))


def statuses_of(build: pathlib.Path) -> dict[str, str]:
    """Returns what ctest printed for each entry that did not pass, by its name: Failed, Timeout, Skipped, …"""
    log = (build / "ctest.log").read_text(errors="replace")
    return dict(re.findall(r"Test +#\d+: (\S+) [ .]*\*\*\*(\w[^\n]*?) +[\d.]+ sec$", log, re.MULTILINE))
