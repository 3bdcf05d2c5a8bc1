# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""kernels.txt: the kernel texts that passed, so that nobody compiles them again.

The first line names the release of NVRTC that compiled them. Another line has the texts of one folder or of one layer: the folder, then
`name:archs:digest` of each text, so that the difference of two lists names the layers and kernels that a change reaches. A digest is of
what the compiler sees: the options, the text and the headers that it includes, without comments and empty lines, beside the version of
the rules by which a test judges its kernels. A text belongs to a part, which one test owns: `layers` conformance/compile_all.py,
`configs` templates/compile.py, `headers` lint/headers.py.
"""

import functools
import hashlib
import pathlib
import re
import sys

LIST = pathlib.Path(__file__).resolve().parent / "kernels.txt"
UPDATE = "test/golden/kernels.py --bin=build/bin --work=build/kernels"
# Digits of a digest; two texts with the same ones are an error.
DIGITS = 12
SKIPPED = re.compile(r'(R"(\w*)\(.*?\)\2"|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)\')|//[^\n]*|/\*.*?\*/', re.DOTALL)
INCLUDE = re.compile(r'^\s*#\s*include\s*["<]([^">]+)[">]', re.MULTILINE)



@functools.cache
def plain(text):
    """(a digest of what the compiler sees of the text, what it includes)"""
    kept = SKIPPED.sub(lambda found: found.group(1) or " ", text)
    lines = "\n".join(line for line in map(str.strip, kept.splitlines()) if line)
    return hashlib.sha256(lines.encode()).hexdigest(), INCLUDE.findall(lines)


def included(source, headers):
    """[(name, digest)] of the headers that a text includes, itself or by another; `headers`: include name -> text."""
    found, waiting = {}, list(plain(source)[1])
    while waiting:
        name = waiting.pop()
        if name in headers and name not in found:
            found[name], more = plain(headers[name])
            waiting += more
    return sorted(found.items())


def order_of(arch):
    return int(re.sub(r"\D", "", arch)), arch


class KernelList:
    """A part of the list, and the texts that its test has today."""

    def __init__(self, part, rules, version, path=None):
        path = path or LIST
        self.part, self.rules, self.version, self.path = part, rules, version, path
        self.of_version, self.parts, self.seen, self.whole = "", {}, {}, {}
        lines = path.read_text().splitlines() if path.exists() else []
        for line in lines:
            if line.startswith("nvrtc "):
                self.of_version = line.split()[1]
            elif line.startswith("["):
                part = line.strip("[]")
            elif line and not line.startswith("#"):
                folder, *texts = line.split()
                for text in texts:
                    name, archs, digest = text.split(":")
                    self.parts.setdefault(part, {})[digest] = (archs.split(","), str(pathlib.PurePath(folder, name)))
        # Another NVRTC may spill where this one does not.
        self.is_valid = self.of_version == version

    def digest(self, source, headers, options=()):
        """The digest of a text; `headers`: include name -> text."""
        parts = (self.part, self.rules, *options, plain(source)[0], *(word for pair in included(source, headers) for word in pair))
        whole = hashlib.sha256("\0".join(parts).encode()).hexdigest()
        short = whole[:DIGITS]
        if self.whole.setdefault(short, whole) != whole:
            sys.exit(f"{short}: two kernel texts have these first digits of a digest; expected a larger DIGITS")
        return short

    def see(self, digest, name, arch):
        """Whether the list has the text for this arch."""
        archs, _ = self.seen.setdefault(digest, ([], name))
        if arch not in archs:
            archs.append(arch)
        return self.is_valid and arch in self.parts.get(self.part, {}).get(digest, ([],))[0]

    def stale(self):
        """A sentence for each line of the part that no text has today."""
        for digest, (archs, name) in self.parts.get(self.part, {}).items():
            unseen = [arch for arch in archs if arch not in self.seen.get(digest, ([],))[0]]
            if unseen:
                yield f"{self.path.name}: {digest} {','.join(unseen)} {name}: no text of today; {UPDATE} writes the file anew"

    def about(self):
        """A sentence where the list says nothing of this NVRTC."""
        if not self.of_version:
            return f"there is no {self.path.name}: every text is compiled"
        return "" if self.is_valid else f"{self.path.name} is of NVRTC {self.of_version}; every text is compiled by {self.version}"

    def write(self):
        """The texts of today as the part; other parts stay where they are of this NVRTC."""
        if not self.is_valid:
            self.parts = {}
        self.parts[self.part] = self.seen
        text = f"nvrtc {self.version}\n# Kernel texts that passed. {UPDATE} writes this file.\n"
        for part in sorted(self.parts):
            folders = {}
            for digest, (archs, name) in self.parts[part].items():
                path = pathlib.PurePath(name)
                folders.setdefault(str(path.parent), []).append((path.name, sorted(archs, key=order_of), digest))
            text += f"[{part}]\n"
            for folder, texts in sorted(folders.items()):
                text += " ".join([folder, *(f"{name}:{','.join(archs)}:{digest}" for name, archs, digest in sorted(texts))]) + "\n"
        self.path.write_text(text)


def options_of(parser):
    """Options of a test whose part this is."""
    parser.add_argument("--update", action="store_true", help="write kernels.txt, if all pass")
