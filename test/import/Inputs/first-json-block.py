"""Prints the first ```json block of a Markdown file."""

import re
import sys

print(re.search(r"```json\n(.*?)```", open(sys.argv[1]).read(), re.S).group(1), end="")
