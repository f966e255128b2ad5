"""Unpacks the parts of libtorch that a C++ program needs. Usage: unpack_libtorch.py WHEELS_FOLDER NEW_FOLDER

Headers go to NEW_FOLDER/include. Shared libraries go to NEW_FOLDER/lib, side by side, so that each library finds the
others by its own $ORIGIN. Parts that only Python uses are left out.
"""

import pathlib
import re
import shutil
import sys
import zipfile

WANTED = [
    (re.compile(r"torch/(include/.+)"), r"\1"),
    (re.compile(r"torch/(lib/lib(?!torch_python|shm)[^/]+\.so[^/]*)"), r"\1"),
    (re.compile(r"nvidia/cu13/(lib/lib(?:cudart|cupti)\.so[^/]*)"), r"\1"),
    (re.compile(r"torch-[^/]+\.dist-info/licenses/(LICENSE|NOTICE)"), r"\1"),
]


def place(member: str) -> str | None:
    for pattern, target in WANTED:
        if match := pattern.fullmatch(member):
            return match.expand(target)
    return None


def main() -> None:
    wheels, new_folder = map(pathlib.Path, sys.argv[1:])
    for wheel in sorted(wheels.glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            for member in archive.infolist():
                target = place(member.filename)
                if target is None or member.is_dir():
                    continue
                path = new_folder / target
                path.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(member) as source, path.open("wb") as copy:
                    shutil.copyfileobj(source, copy, 1 << 20)


if __name__ == "__main__":
    main()
