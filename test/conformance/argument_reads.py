# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The arguments that a kernel reads, from its PTX. A kernel has one parameter, the argument block of its manifest. A field is read
if it is loaded, or if its address is taken, as tensor maps are used."""

import re

# Arguments that a kernel takes and need not read: the name, a mark of its text, and why it takes them all the same.
UNREAD = [
    ("logits_type", "routing::Drawn", "experts are drawn; the type comes with the logits, whose pointer says that the kernel routes"),
]
ENTRY = re.compile(r"\.entry\s+(\S+?)\s*\(")
INSTRUCTION = re.compile(r"^\s*(?:@!?%p\d+\s+)?([a-z][\w.:]*)\s+([^;\n]*);", re.MULTILINE)
# Separates operands; a comma in brackets or braces does not.
COMMA = re.compile(r",\s*(?![^\[{]*[\]}])")
ADDRESS = re.compile(r"\[\s*([%\w$]+)\s*(?:\+\s*(-?\d+))?")
LOADED = re.compile(r"ld\.param(?:\.v(\d))?\.[bsuf](\d+)$")


def read_ranges(ptx):
    """[(begin, end)], bytes of the block: what is loaded, and the first byte where an address is used otherwise."""
    places = {ENTRY.search(ptx)[1] + "_param_0": 0}  # names and registers that hold an address in the block
    ranges = []
    for name, operands in INSTRUCTION.findall(ptx):
        result, *sources = (each.strip() for each in COMMA.split(operands))
        known = [places[each] for each in sources if each in places]
        if known and name.startswith("mov."):
            places[result] = known[0]
        elif known and name.startswith("add.") and re.fullmatch(r"-?\d+", sources[1]):
            places[result] = known[0] + int(sources[1])
        elif known and name.startswith("cvta."):
            places[result] = known[0]
            ranges.append((known[0], known[0] + 1))
        else:
            ranges += [(place, place + 1) for place in known]
        for base, offset in ADDRESS.findall(operands):
            if base in places:
                begin = places[base] + int(offset or 0)
                loaded = LOADED.match(name)
                ranges.append((begin, begin + (int(loaded[1] or 1) * int(loaded[2]) // 8 if loaded else 1)))
    return ranges


def unread(ptx, arguments, source=""):
    """Names of the fields of a manifest's argument block that the kernel of this text does not read, except those of UNREAD."""
    ranges, fields = read_ranges(ptx), arguments["fields"]
    ends = [*(field["offset"] for field in fields[1:]), arguments["bytes"]]
    known = [name for name, mark, _ in UNREAD if mark in source]
    return [field["name"] for field, stop in zip(fields, ends)
            if field["name"] not in known and not any(begin < stop and field["offset"] < end for begin, end in ranges)]
