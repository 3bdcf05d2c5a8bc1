# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The emulator's parser of PTX, and the forms of instructions that kernels have.

A form is an instruction without its guard, with one name for all registers of a type and `#` for numbers. instructions.txt has an
example of each form; a unit test of the emulator decodes it.
"""

import ctypes
import pathlib
import re

LIST = pathlib.Path(__file__).resolve().parent.parent / "golden" / "instructions.txt"
NAMES = {"pred": "%p1", "b8": "%c1", "b16": "%rs1", "b32": "%r1", "b64": "%rd1", "f32": "%f1", "f64": "%fd1", "b128": "%q1"}
BITS = {"u": "b", "s": "b", "b": "b", "f": "f"}
LINES = re.compile(r"^\s*\.(loc|file|pragma)\b[^\n]*$", re.MULTILINE)
ENTRY = re.compile(r"\.entry\b[^{]*\{")
WORD = re.compile(r"[%$]?[A-Za-z_$][\w$]*(?:\.[a-z_0-9]+)*")
NUMBER = re.compile(r"(?<![\w%.$])-?(0[xX][0-9a-fA-F]+|0[fFdD][0-9a-fA-F]+|\d+)\b")
LABEL = re.compile(r"\s*([%$]?[A-Za-z_$][\w$]*):")


def library_of(programs):
    """The emulator's library beside the folder of the programs."""
    return str(pathlib.Path(programs).parent / "lib" / "libmoec-emulator.so")


class Decoder:
    def __init__(self, library):
        self.function = ctypes.CDLL(library).moec_emulator_decode
        self.function.restype = ctypes.c_char_p

    def fault(self, ptx):
        """None, or the sentence by which the emulator refuses a text."""
        said = self.function(ptx.encode())
        return said.decode() if said else None


class Scopes:
    """The canonical names of declared registers."""

    def __init__(self):
        self.stack = [({}, {})]

    def declare(self, statement):
        found = re.match(r"\.reg\s+\.(\w+)\s+(.*)", statement, re.DOTALL)
        if not found:
            return
        kind = found.group(1)
        name = NAMES.get(kind) or NAMES[BITS[kind[0]] + kind[1:]]
        names, ranges = self.stack[-1]
        for declared in found.group(2).split(","):
            declared = declared.strip()
            if declared.endswith(">"):
                ranges[declared.partition("<")[0]] = name
            else:
                names[declared] = name

    def find(self, word):
        for names, ranges in reversed(self.stack):
            if word in names:
                return names[word]
            if (prefix := word.rstrip("0123456789")) in ranges and prefix != word:
                return ranges[prefix]
        return None


def statements(text):
    """The instructions of a text and the scopes that they are in."""
    text = LINES.sub("", re.sub(r"//[^\n]*", "", re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL)))
    for entry in ENTRY.finditer(text):
        at, scopes = entry.end(), Scopes()
        while len(scopes.stack) > 0 and at < len(text):
            if text[at].isspace() or text[at] == ";":
                at += 1
            elif text[at] == "{":
                scopes.stack.append(({}, {}))
                at += 1
            elif text[at] == "}":
                scopes.stack.pop()
                at += 1
            elif label := LABEL.match(text, at):
                at = label.end()
            else:
                end = text.index(";", at)
                statement, at = text[at:end].strip(), end + 1
                if statement.startswith("."):
                    scopes.declare(statement)
                else:
                    yield re.sub(r"^@!?\S+\s+", "", statement), scopes


def form_of(example):
    opcode, _, operands = example.partition(" ")
    return f"{opcode} {NUMBER.sub('#', operands)}"


def forms(ptx):
    """{form: an example} of a text."""
    found = {}
    for statement, scopes in statements(ptx):
        opcode, _, operands = statement.partition(" ") if " " in statement else statement.partition("\t")
        opcode = opcode.split()[0]
        operands = statement[len(opcode):]

        def canonical(match, opcode=opcode, scopes=scopes):
            word = match.group()
            if name := scopes.find(word):
                return name
            if word == "_" or word.startswith("%"):
                return word
            if opcode.startswith("bra"):
                return "done"
            return "k_param_0" if "_param_" in word else "memory"

        parts = re.split(r"(?<![\w%.$])(0[fFdDxX][0-9a-fA-F]+)", operands)
        operands = "".join(part if i % 2 else WORD.sub(canonical, part) for i, part in enumerate(parts))
        example = f"{opcode} {' '.join(operands.split())}".strip()
        found.setdefault(form_of(example), example)
    return found


def read_list():
    lines = LIST.read_text().splitlines() if LIST.exists() else []
    return {form_of(line): line for line in lines if not line.startswith("#")}


def write_list(found):
    said = "# An example of each form of an instruction. test/emulator/decode_all.py --bin=build/bin --work=build/decoded --update adds to it.\n"
    LIST.write_text(said + "".join(f"{line}\n" for line in sorted(found.values())))
