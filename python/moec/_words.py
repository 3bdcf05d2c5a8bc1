# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Helps with names in messages: suggests what a misspelled name may mean, and spells options as Python does."""

import difflib
import re
from collections.abc import Iterable, Mapping

# moec's names of weights, with the names in checkpoints and other libraries.
_WEIGHTS = {
    "w13": ("gate_up_proj", "gate_proj", "up_proj", "gate", "up", "w1", "w3", "w13_weight", "gate_up", "fc1"),
    "w2": ("down_proj", "down", "w2_weight", "fc2"),
    "routing_bias": ("e_score_correction_bias",),
}
_SYNONYMS = {word: name for name, words in _WEIGHTS.items() for word in words} | {
    "router_logits": "logits",
    "gating_output": "logits",
    "hidden_states": "x",
    "input": "x",
    "output": "out",
    "topk_ids": "given_ids",
    "topk_weights": "given_weights",
}
# Options as the C library and the command line spell them.
_OPTION = re.compile(r"(?<![\w-])--([a-z][a-z-]*[a-z])\b(?=[=:;, ]|$)|\bmoec_[a-z]+_options\.([a-z_]+)")


def did_you_mean(word: str, known: Iterable[str], synonyms: Mapping[str, str] = _SYNONYMS) -> str:
    """Returns "did you mean ...? " with the nearest known word, or "" if no word is near."""
    names = list(known)
    if (meant := synonyms.get(word)) in names:
        return f"did you mean {meant}? "
    near = difflib.get_close_matches(word, names, 1, 0.7)
    return f"did you mean {near[0]}? " if near else ""


def as_python(message: str) -> str:
    """Converts options in a message to keyword arguments: --max-tokens=64 becomes max_tokens=64."""

    def named(found: re.Match[str]) -> str:
        name = (found[1] or found[2]).replace("-", "_")
        return "as_" if name == "as" else name  # `as` is a Python keyword

    return _OPTION.sub(named, message)
