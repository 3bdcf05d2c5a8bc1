# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Layers drawn from the whole language.

What can be drawn is read from the catalog's tables and from docs/reference/layer.schema.json: a new row or a new field is drawn
as soon as it is there. A layer that the compiler refuses with a reason loses one field after the other until it is taken, so
that what is legal is found and not listed here.
"""

import copy
import json
import pathlib
import random
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent / "conformance"))
import moec_testing as testing  # noqa: E402

SCHEMA = ROOT / "docs" / "reference" / "layer.schema.json"
# The required fields of a layer, in the order of drawing; all other fields of the schema are options.
REQUIRED = ("moec_layer", "name", "num_experts", "top_k", "hidden_size", "intermediate_size", "in_dtype", "quant_config",
            "activation", "routing_method")
TOKENS = (0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 127, 128, 129, 160)
PATTERNS = ("uniform", "skewed", "one_expert", "empty_expert", "ties", "negative", "nan_inf")
EXPERTS = (1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 60, 64, 72, 96)
MANY_EXPERTS = (160, 256, 384, 512, 896, 1024)
# Multiplications of one layer on the host device: above, token counts are left out.
MOST_WORK = 40e6
GPU_WORK = 2e9
# Rows of layers whose second matmul goes in slices, and the GPU that needs fewest: their sums' way to memory takes longer than
# slices do. The package serves larger ones.
SLICED_ROWS, SLICED_GPU = (16384, 18432), "h100_pcie"
# How often what few layers would have by chance is drawn.
SLICED, ZERO_EXPERTS, WEIGHT_ON_INPUT, TABLE, OTHER_INPUT, OTHER_GROUPS, ORDERED = 0.02, 0.08, 0.06, 0.5, 0.2, 0.4, 0.4
PADDED, ATOMS = 0.1, 0.3
NORM, CONSTANTS, OF_SCORE = 0.06, 0.05, 0.35
# Fields that say how a layer pads its weights.
PADDING = ("stored_hidden_size", "stored_intermediate_size_per_partition")
# Numbers worth drawing for a field of which the schema says only that it is one.
NUMBERS = (0.5, 1.0, 1.702, 2.5, 7.0)
# A refusal's words: a code, what it got and what it takes, or what does not go together.
REFUSED = re.compile(r"\[\w+\]|expected|accepted|\bgot\b|do not|must|needs")
# The least width: the error of a tensor of fewer numbers is not that of many.
LEAST_HIDDEN = 64


# Elements between rows of x: a number once the layer is settled.
ROW_STRIDE = "--row-stride"


class Drawn:
    """One layer, how to compile it, and how to run it."""

    def __init__(self, layer, options, max_tokens, runs):
        self.layer, self.options, self.max_tokens, self.runs = layer, options, max_tokens, runs

    def copy(self):
        return Drawn(copy.deepcopy(self.layer), list(self.options), self.max_tokens, [list(run) for run in self.runs])

    def align_rows(self):
        """Gives ROW_STRIDE the number that makes rows of whole 16 bytes, of elements of 4, 6 and 8 bits too."""
        width = self.layer.get("latent_hidden_size", self.layer["hidden_size"])
        stride = f"--row-stride={64 + -width % 64}"
        self.runs = [[stride if word == ROW_STRIDE else word for word in run] for run in self.runs]


class Language:
    """The tables to draw from."""

    def __init__(self, rows, schema=SCHEMA, sliced=SLICED):
        self.rows, self.sliced_share = rows, sliced
        properties = json.loads(pathlib.Path(schema).read_text(encoding="utf-8"))["properties"]
        self.fields = {name: field for name, field in properties.items() if not field.get("deprecated")}

    def size(self, draw, step, most):
        """Mostly a multiple of `step`, small ones more often; now and then what no row of 16 bytes allows."""
        value = step * draw.randint(1, max(1, draw.choice((most // 8, most // 2, most)) // step))
        return max(1, value + draw.choice((-1, 1, 2))) if draw.random() < 0.05 else value

    def value(self, draw, schema, layer):
        """Something that this field's schema takes."""
        if "enum" in schema:
            return draw.choice([item for item in schema["enum"] if item is not None])
        kinds = schema.get("type", [])
        kinds = [kinds] if isinstance(kinds, str) else kinds
        if "boolean" in kinds:
            return True
        if "integer" in kinds:
            # Divisors first: most integers count parts of the experts.
            divisors = [n for n in range(1, layer["num_experts"] + 1) if layer["num_experts"] % n == 0]
            return draw.choice([*divisors[:4], 1, 2, 3, 8 * draw.randint(1, 20)])
        if "number" in kinds:
            return draw.choice(NUMBERS)
        return None

    def parallel(self, draw, layer):
        ranks = draw.randint(2, 6)
        if draw.random() < 0.6:
            config = {"tp_size": ranks, "tp_rank": draw.randrange(ranks), "use_ep": True}
            if draw.random() < 0.3:
                config |= {"dp_size": 2, "dp_rank": draw.randrange(2)}
            return config
        layer["intermediate_size"] *= ranks
        return {"tp_size": ranks, "tp_rank": draw.randrange(ranks)}

    def sliced(self, draw, index):
        """A layer of 8-bit operands, scaled by row, with as many rows of as many slices of H as it takes; few options, each of which
        may forbid it."""
        copies = [row["name"] for row in self.rows["engines"] if "tma" in row["features"]]
        scheme = draw.choice([row for row in self.rows["schemes"] if row["a1"] == row["w1"] and not testing.is_plain(row)
                              and row["a2_rows"] > 0 and any(engine in copies for _, engine in testing.ways(self.rows, row))])
        activation = draw.choice(self.rows["activations"])
        routing = draw.choice([row for row in self.rows["routing"] if "weight_on_input" not in row["needs"]])
        topk = draw.choice((8, 16, 32))
        shape = {"num_experts": draw.choice((topk, topk + 2, 2 * topk)), "top_k": topk,
                 "hidden_size": 128 * draw.randint(16, 18), "intermediate_size": 16}
        layer = testing.layer_json(f"random_{index}", shape, scheme, activation, routing, draw.random() < 0.5)
        layer["in_dtype"] = draw.choice(("bf16", "f16"))
        tokens = draw.randint(SLICED_ROWS[0] // topk + 1, SLICED_ROWS[1] // topk)
        run = [f"--tokens={tokens}", f"--routing={draw.choice(PATTERNS)}", "--sample=16", f"--seed={draw.randrange(1000)}"]
        return Drawn(layer, [f"--gpu={SLICED_GPU}"], SLICED_ROWS[1] // topk, [run])

    def layer(self, draw, name):
        scheme, activation, routing = (draw.choice(self.rows[table]) for table in ("schemes", "activations", "routing"))
        plain = testing.is_plain(scheme)
        step = 8 if plain else 16
        experts = draw.choice(MANY_EXPERTS if draw.random() < 0.1 else EXPERTS)
        shape = {"num_experts": experts, "top_k": draw.randint(1, min(experts, draw.choice((1, 2, 4, 8, 8, 32)))),
                 "hidden_size": max(LEAST_HIDDEN, self.size(draw, step, 320)), "intermediate_size": self.size(draw, step, 280)}
        if experts >= MANY_EXPERTS[0]:  # their weights would be most of the work
            shape |= {"hidden_size": draw.choice((64, 80)), "intermediate_size": draw.choice((16, 32))}
        weight_on_input = "weight_on_input" not in routing["needs"] and draw.random() < WEIGHT_ON_INPUT
        if weight_on_input or "weight_on_input" in routing["needs"]:
            shape["top_k"] = 1
        layer = testing.layer_json(name, shape, scheme, activation, routing, draw.random() < 0.3)
        if not plain or testing.is_emulated(scheme):
            layer["in_dtype"] = draw.choice(("bf16", "f16"))
        if draw.random() < OTHER_INPUT:
            layer["in_dtype"] = draw.choice(testing.FLOATS)
        if weight_on_input:
            layer["apply_router_weight_on_input"] = True
        if draw.random() < ZERO_EXPERTS:
            layer["num_zero_experts"] = draw.randint(1, 2 * experts)
        if draw.random() < CONSTANTS:
            layer["num_constant_experts"] = draw.randint(1, 2 * experts)
        if draw.random() < NORM:
            layer["post_expert_norm_eps"] = draw.choice((1e-6, 1e-5, 0.01))
        for field in ("router_logit_softcapping", "router_output_multiplier") if "softcap" in routing["options"] else ():
            if draw.random() < OF_SCORE:
                layer[field] = draw.choice(NUMBERS)
        if routing["normalize"] == "sum_epsilon" and draw.random() < OF_SCORE:
            layer["norm_topk_prob_eps"] = draw.choice((1e-20, 1e-6, 0.25))
        if "sinks" in routing["options"]:
            layer["num_sink_experts"] = draw.randint(1, layer["top_k"] - 1)
        if "table" in routing["options"] and draw.random() < TABLE:
            layer["hash_vocabulary"] = draw.choice((1, 50, 1000))
        # Few at a time: most pairs meet all the same, and what fails is easily seen.
        likely = draw.choice((0, 0.06, 0.15))
        for field, schema in self.fields.items():
            if field not in (*REQUIRED, *PADDING, "moe_parallel_config") and field not in layer and draw.random() < likely:
                layer[field] = self.value(draw, schema, layer)
        if activation["parameters"] and draw.random() < 0.3:
            layer = {field: value for field, value in layer.items() if not field.startswith(("swiglu_", "activation_situ_"))}
            layer["activation_per_expert"] = True
        if draw.random() < 0.2:
            layer["moe_parallel_config"] = self.parallel(draw, layer)
        if draw.random() < PADDED:
            shards = 1 if (parallel := layer.get("moe_parallel_config", {})).get("use_ep") else parallel.get("tp_size", 1)
            sizes = layer.get("latent_hidden_size") or layer["hidden_size"], layer["intermediate_size"] // shards
            layer |= {field: -(-size // 8) * 8 + 8 * draw.randint(0, 20) for field, size in zip(PADDING, sizes, strict=True)}
        if 0 < scheme["w1_columns"] <= 32 and scheme["w1"].startswith("f") and draw.random() < ATOMS:
            layer["stored_layout"] = "scales_128x4"
        if scheme["w1"] == "i4" and draw.random() < OTHER_GROUPS:
            layer["quant_config"] = {"scheme": scheme["name"], "group_size": draw.choice((-1, 32, 64))}
        if testing.may_be_ordered(scheme) and draw.random() < ORDERED:
            layer["group_index"] = True
        return layer, scheme

    def runs(self, draw, layer, max_tokens, most_work):
        work = layer["top_k"] * layer["hidden_size"] * layer["intermediate_size"] * 3
        allowed = [count for count in TOKENS if count <= max_tokens and count * work <= most_work] or [0, 1]
        counts = ",".join(map(str, sorted(draw.sample(allowed, min(len(allowed), 4)))))
        first = [f"--tokens={counts}", "--routing=" + ",".join(draw.sample(PATTERNS, 2)), f"--seed={draw.randrange(1000)}"]
        floats = draw.choice(testing.FLOATS)
        if layer.get("routing_method") != "custom" and layer.get("activation_format") != "batched":
            first.append(f"--logits-dtype={floats}")
        second = [f"--tokens={draw.choice(allowed)}", *draw.choice(
            (f"--inputs=ids32 --given-weights-dtype={floats}", f"--inputs=ids64 --given-weights-dtype={floats}",
             "--token-ids=i64" if layer.get("hash_vocabulary") else "--refresh", "--refresh",
             ROW_STRIDE, "--valid-tokens=0", "--valid-tokens=1", "--valid-tokens=20",
             f"--routing={draw.choice(PATTERNS)}")).split()]
        return [first, second]

    def draw(self, seed, index, most_work=MOST_WORK):
        """The layer of this number; the same one for the same seed and the same language."""
        draw = random.Random(f"{seed}-{index}")
        if draw.random() < self.sliced_share:
            return self.sliced(draw, index)
        layer, scheme = self.layer(draw, f"random_{index}")
        options = []
        if draw.random() < 0.7:
            backend, engine = draw.choice(list(testing.ways(self.rows, scheme, (layer.get("activation_format", "standard"),))))
            options = [f"--backend={backend}", *testing.engine_options(self.rows, engine)]
            layer = testing.sized_for(self.rows, engine, layer)
        max_tokens = draw.choice((4, 40, 160))
        return Drawn(layer, options, max_tokens, self.runs(draw, layer, max_tokens, most_work))


def settle(attempt, drawn, draw):
    """(the layer with fields and options left out until it is taken, ""); (None, why) where even the bare one is refused; (the
    layer, a sentence) where it ends as no refusal does. attempt(drawn): (exit status, what moec said)."""
    drawn = drawn.copy()
    while True:
        status, errors = attempt(drawn)
        if status == 0:
            drawn.align_rows()
            return drawn, ""
        if status != 1 or not REFUSED.search(errors):
            return drawn, f"moec exited with {status}: {errors[-400:]}"
        # Options that the message names go first.
        optional = [field for field in drawn.layer if field not in REQUIRED]
        named = [field for field in optional if field in errors]
        if named or optional and draw.random() < 0.7:
            field = draw.choice(named or optional)
            if field == "moe_parallel_config" and not drawn.layer[field].get("use_ep"):
                drawn.layer["intermediate_size"] //= drawn.layer[field]["tp_size"]
            del drawn.layer[field]
        elif drawn.options:
            drawn.options.pop()
        elif optional:
            del drawn.layer[draw.choice(optional)]
        elif any(drawn.layer[size] % 16 for size in ("hidden_size", "intermediate_size")):
            for size in ("hidden_size", "intermediate_size"):
                drawn.layer[size] = -(-drawn.layer[size] // 16) * 16
        else:
            return None, errors
