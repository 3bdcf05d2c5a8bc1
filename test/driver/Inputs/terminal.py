# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""terminal.py COMMAND...: runs it with a terminal as its standard error, and prints what went there, a line a piece."""

import os
import pty
import subprocess
import sys

ours, theirs = pty.openpty()
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=theirs)
os.close(theirs)
said = b""
while True:
    try:
        piece = os.read(ours, 4096)
    except OSError:  # how Linux says that nobody has the other end
        break
    if not piece:
        break
    said += piece
for line in said.decode().split("\r"):
    print(line.replace("\x1b[K", "<clear>"))
sys.exit(process.wait())
