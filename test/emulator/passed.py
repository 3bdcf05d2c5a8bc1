# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Lists of the packages that passed on the emulated GPU, which a test does not run again: emulated.txt is that of emulated.py, and
emulated-TEST.txt that of TEST.py.

A run is known by all that it depends on. The first lines name the release of NVRTC and the digest of the sources that launch kernels,
interpret them, make their data and judge their results. Another line is a package with a digest of its kernels' texts, of its manifest
and of its case (the layer, the arguments of the run, the emulator's settings, outputs that it is compared with). NVRTC makes the same PTX
of the same text. If NVRTC or a source differs, the list is void and every package runs.
"""

import functools
import hashlib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
LIST = ROOT / "test" / "golden" / "emulated.txt"
TEST = "emulated"
# The emulator, the launch of kernels, the data, and the judgement; unit tests are none of them.
SOURCES = ["test/emulator/*/*", "runtime/api/Context.*", "runtime/api/Layer.*", "runtime/cuda/CudaCode.*", "runtime/cuda/TensorMaps.*",
           "runtime/package/Arguments.*", "templates/moe/math/*", "test/check/*", "test/reference/*", "tools/device/*", "tools/moec-run/*"]
ENDINGS = {".cpp", ".h", ".cuh", ".def", ".ptx", ".in"}
DIGITS = 16


def digest_of(parts):
    """A digest of strings and bytes."""
    made = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        made.update(f"{len(data)} ".encode() + data)
    return made.hexdigest()[:DIGITS]


@functools.cache
def code():
    """The digest of all sources that a result depends on, but for unit tests."""
    parts = []
    for pattern in SOURCES:
        found = [path for path in sorted(ROOT.glob(pattern)) if path.suffix in ENDINGS and path.parent.name != "tests"]
        if not found:
            raise FileNotFoundError(f"{pattern} names no source: expected SOURCES of passed.py to name those of today")
        for path in found:
            parts += [path.relative_to(ROOT).as_posix(), path.read_bytes()]
    return digest_of(parts)


def digest_of_package(folder, case):
    """The digest of a compiled package, without cubins, and of the words of its case. Where the package is does not count."""
    parts, place = list(case), str(folder.parent).encode()
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.suffix != ".cubin":
            parts += [path.relative_to(folder).as_posix(), path.read_bytes().replace(place, b"")]
    return digest_of(parts)


class Passed:
    """The list of a test, and what has passed today."""

    def __init__(self, release, path=LIST, test=TEST):
        self.path, self.header, self.today = path, [f"nvrtc {release}", f"code {code()}"], {}
        self.update = f"test/emulator/{test}.py --bin=build/bin --work=build/{test} --update"
        lines = path.read_text().splitlines() if path.exists() else []
        self.is_valid = lines[:2] == self.header
        self.known = dict(reversed(line.split()) for line in lines[2:] if not line.startswith("#")) if self.is_valid else {}

    def has(self, name, digest):
        """Whether the package has passed. It counts as one of today then."""
        if self.known.get(digest) != name:
            return False
        self.today[digest] = name
        return True

    def add(self, name, digest):
        self.today[digest] = name

    def about(self):
        """A sentence where the list says nothing."""
        return "" if self.is_valid else f"{self.path.name} is of another NVRTC or of other sources; every package runs"

    def stale(self):
        """A sentence for each line that no package has today."""
        for digest, name in self.known.items():
            if digest not in self.today:
                yield f"{self.path.name}: {name} {digest}: no package of today; {self.update} writes the file again"

    def write(self):
        lines = sorted(f"{name} {digest}" for digest, name in self.today.items())
        self.path.write_text("\n".join([*self.header, f"# Packages that passed. {self.update} writes this file.", *lines]) + "\n")


class Cases:
    """The list of a test script. `update`: whether to write it. `is_usual`: the run has the cases of CI; others
    neither use nor write the list. `script`: the file of the test, on which its verdicts depend. `others`: further such files."""

    def __init__(self, release, script, update, is_usual, others=()):
        if update and not is_usual:
            raise SystemExit("--update: expected no --all, no --only and no MOEC_TEST_ALL")
        test = Path(script).stem
        self.listed = Passed(release, LIST.with_name(f"{LIST.stem}-{test}.txt"), test)
        self.scripts = [path.read_bytes() for path in map(Path, (script, *others))]
        self.update, self.is_usual, self.known = update, is_usual, 0
        if is_usual and self.listed.about():
            print(self.listed.about(), flush=True)

    def digest(self, folder, *case):
        return digest_of([digest_of_package(folder, case), *self.scripts])

    def has(self, name, digest):
        if not self.is_usual or not self.listed.has(name, digest):
            return False
        self.known += 1
        return True

    def add(self, name, digest):
        self.listed.add(name, digest)

    def end(self, failures):
        """Writes the list, or names its lines that no case has. Returns a sentence for the last line of the test."""
        if self.update and not failures:
            self.listed.write()
        elif self.is_usual:
            for sentence in self.listed.stale():
                print(sentence, flush=True)
        return f"{self.known} known to pass"
