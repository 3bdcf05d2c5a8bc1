#!/usr/bin/env python3
"""Writes docs/generated/dialect.md and passes.md from the .td files.

Usage: generate_docs.py MLIR_TBLGEN [--check]

With --check nothing is written; the exit status is nonzero if a file differs from the text that would be written.
"""

import difflib
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGES = {
    "dialect.md": ["-gen-dialect-doc", "-dialect=moe", "dialect/MoeOps.td"],
    "passes.md": ["-gen-pass-doc", "compiler/passes/Passes.td"],
}


def main():
    tblgen, check = shutil.which(sys.argv[1]), "--check" in sys.argv[2:]
    # MLIR's own .td files are installed beside its tools.
    include = pathlib.Path(tblgen).resolve().parent.parent / "include"
    differs = False
    for page, arguments in PAGES.items():
        text = subprocess.run(
            [tblgen, f"-I{include}", f"-I{ROOT}", *arguments],
            cwd=ROOT,
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        text = "\n".join(line.rstrip() for line in text.splitlines()).rstrip() + "\n"
        path = ROOT / "docs" / "generated" / page
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            continue
        old = path.read_text(encoding="utf-8") if path.exists() else ""
        diff = list(difflib.unified_diff(old.splitlines(), text.splitlines(), str(path), "generated", lineterm=""))
        if diff:
            differs = True
            print("\n".join(diff))
            print(f"{path} is not what the .td files say; run: ninja -C build moec-docs")
    return differs


if __name__ == "__main__":
    sys.exit(main())
