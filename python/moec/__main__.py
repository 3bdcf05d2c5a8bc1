# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Entry point of `python -m moec`."""

import sys

from moec.cli import main

if __name__ == "__main__":
    sys.exit(main())
