"""Runs a command and checks its exit status, and that a folder stays as it was.

    expect.py STATUS [--untouched=FOLDER] COMMAND...

What the command prints goes through.
"""

import os
import subprocess
import sys


def listing(folder):
    return sorted(
        os.path.join(root, name) for root, folders, files in os.walk(folder) for name in folders + files
    )


def main():
    status, command = int(sys.argv[1]), sys.argv[2:]
    folder = None
    if command[0].startswith("--untouched="):
        folder = command.pop(0).split("=", 1)[1]
        os.makedirs(folder, exist_ok=True)
    before = listing(folder) if folder else []
    got = subprocess.run(command).returncode
    if got != status:
        sys.exit(f"expected exit status {status}, got {got}: {' '.join(command)}")
    after = listing(folder) if folder else []
    if before != after:
        sys.exit(f"expected {folder} as before, got new or missing: {set(before) ^ set(after)}")


main()
