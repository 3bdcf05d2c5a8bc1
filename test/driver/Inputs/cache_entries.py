"""Makes a kernel cache whose entries have known sizes and times.

cache_entries.py FOLDER
"""

import calendar
import os
import sys
import time


def entry(arch, name, sizes, used):
    folder = os.path.join(sys.argv[1], arch, name)
    os.makedirs(folder)
    for file, size in sizes.items():
        with open(os.path.join(folder, file), "wb") as output:
            output.write(bytes(size))
    os.utime(folder, (used, used))


def late_on(day):
    return calendar.timegm((2020, 1, day, 23, 30, 0))


entry("sm_80", "old-0123456789abcdef", {"recipe.json": 100, "kernel.cubin": 999900}, late_on(2))
entry("sm_90a", "part-00000000000000aa", {"recipe.json": 500000}, late_on(4))
entry("sm_90a", "new-fedcba9876543210", {"recipe.json": 100, "kernel.cubin": 1999900}, late_on(5))
for hours, size in ((25, 4000000), (23, 8000000)):
    entry("sm_90a", f"hours-{hours:016d}", {"recipe.json": 100, "kernel.cubin": size - 100}, time.time() - hours * 3600)
