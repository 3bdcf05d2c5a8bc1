#!/usr/bin/env python3
# ===- edit-manifest.py - a package whose manifest says something else ------===#
#
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""Copies a package and sets what a path of keys names: edit-manifest.py FROM TO KEY... JSON. TO may stand already."""

import json
import pathlib
import shutil
import sys

source, target, *keys, value = sys.argv[1:]
shutil.rmtree(target, ignore_errors=True)
shutil.copytree(source, target)
path = pathlib.Path(target) / "manifest.json"
manifest = json.loads(path.read_text(encoding="utf-8"))
place = manifest
for key in keys[:-1]:
    place = place[int(key) if isinstance(place, list) else key]
place[keys[-1]] = json.loads(value)
path.write_text(json.dumps(manifest), encoding="utf-8")
