#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs every row of the catalog on the host device against the reference.

For each scheme and each (backend, engine) that admits it, a way: some layers, in which activations, routing methods, shapes,
bias and type of the logits take turns, as many as it takes for all ways together to have each activation with each method, so
that a new scheme adds few (--product: every way has each pair; --all: with every combination of the others too); one variant
forced at both ends of its range; and once per way each variant and everything a caller may do differently (given ids, strides,
valid tokens, every routing pattern), and in turn one rank of a layout and one of several sets of the layer's options.
"""

import itertools
import json
import math
import re
import shutil
import time
import zlib

import moec_testing as testing
import parts

# The least number of layers for each way.
LEAST_LAYERS = 2
TOKENS = "0,1,2,7,8,33,65"
# Token counts of layers without extras, but in ./bootstrap test-all.
SOME_TOKENS = "0,7,33"
MAX_TOKENS = 160
# Cases that one process compiles and another one runs.
CHUNK = 25
# One rank of a layout.
SHARES = [
    {"tp_size": 7, "tp_rank": 6},
    {"tp_size": 7, "tp_rank": 3, "use_ep": True},  # 60 experts: 9 on each of the first four ranks, then 8
    {"tp_size": 7, "tp_rank": 6, "use_ep": True},
    {"tp_size": 2, "dp_size": 30, "tp_rank": 1, "dp_rank": 29, "use_ep": True},  # one expert
]
NO_METHOD = testing.NO_METHOD
# Options of layers beside sizes, several at once; each way has one of these sets.
OPTIONS = [
    {"residual": True, "out_dtype": "float32", "latent_hidden_size": 176},
    {"batch_invariant": True, "residual": True},
    {"defer_moe_finalize": True, "batch_invariant": True},
    {"n_shared_experts": 2, "shared_expert_gate": True, "num_redundant_experts": 3,
     "moe_parallel_config": {"enable_eplb": True}},
    {"defer_moe_finalize": True, "n_shared_experts": 1},
    {"is_lora_enabled": True, "n_shared_experts": 1, "residual": True},
    {"expert_map": True, "num_redundant_experts": 2,
     "moe_parallel_config": {"tp_size": 2, "tp_rank": 1, "use_ep": True, "enable_eplb": True}},
    {"activation": "swigluoai", "swiglu_limit": None, "activation_per_expert": True, "gate_up_order": "interleaved"},
    {"activation": "situ", "swiglu_limit": None, "activation_per_expert": True, "gate_up_order": "up_first",
     "is_lora_enabled": True},
    {**NO_METHOD, "routing_method": "longcat", "num_experts": 12, "num_zero_experts": 7, "top_k": 5, "residual": True,
     "routed_scaling_factor": 6.0, "apply_routed_scale_to_output": True, "input_quantized": False},
    {**NO_METHOD, "routing_method": "llama4", "num_experts": 12, "top_k": 1, "n_shared_experts": 1,
     "input_quantized": False},
    {**NO_METHOD, "routing_method": "deepseek_v3", "router_logit_softcapping": 0.75},
]
# Widths of shared experts that have weights of their own: none is a layer's.
SHARED_SIZES = [176, 64, 304]
# Options that the few-token engine serves.
OPTIONS_OF_FEW = [
    {"residual": True, "out_dtype": "float32"},
    {"residual": True, "latent_hidden_size": 176, "expert_map": True},
    {"n_shared_experts": 2, "shared_expert_gate": True, "num_redundant_experts": 3,
     "moe_parallel_config": {"enable_eplb": True}},
    {"activation": "swigluoai", "swiglu_limit": None, "activation_per_expert": True, "gate_up_order": "interleaved"},
    {"is_lora_enabled": True, "n_shared_experts": 1, "residual": True},
    {**NO_METHOD, "routing_method": "sigmoid_bias", "router_logit_softcapping": 0.75},
]
# Layers with a norm after each expert, or with constant experts, of some ways of SUMMED_SCHEMES.
SUMS = [
    {**NO_METHOD, "routing_method": "minimax2", "router_output_multiplier": 0.5, "norm_topk_prob_eps": 0.25, "post_expert_norm_eps": 0.1,
     "residual": True, "latent_hidden_size": 176},
    {"post_expert_norm_eps": 0.1, "out_dtype": "float32", "num_redundant_experts": 3, "batch_invariant": True,
     "moe_parallel_config": {"tp_size": 3, "tp_rank": 2, "use_ep": True, "enable_eplb": True}},
    {**NO_METHOD, "routing_method": "sqrtsoftplus", "router_output_multiplier": 2.0, "post_expert_norm_eps": 1e-8, "router_logit_softcapping": 3.0},
    {**NO_METHOD, "routing_method": "deepseek_v3", "num_experts": 12, "num_constant_experts": 7, "top_k": 5, "residual": True,
     "routed_scaling_factor": 6.0, "apply_routed_scale_to_output": True},
    {**NO_METHOD, "routing_method": "topk_sigmoid", "num_constant_experts": 3, "out_dtype": "float32", "batch_invariant": True},
]
SUMMED_SCHEMES = ["bf16", "f32", "fp8_block", "int4_w4a16", "nvfp4"]
# Layers whose rows come by expert, of each way of the backend for them.
BATCHED = [
    {"has_bias": True, "batch_invariant": True},
    {"has_bias": True, "num_redundant_experts": 2, "out_dtype": "float32",
     "moe_parallel_config": {"tp_size": 3, "tp_rank": 2, "use_ep": True, "enable_eplb": True, "expert_placement_strategy": "round_robin"}},
]
# Emulated activations that no scheme names, beside weights that none has beside them; each emulated scheme brings one more case.
MIXES = {
    "e4m3_rows": {"dtype": "f8E4M3FN", "shape": [1, -1], "scale": "f32", "dynamic": True},
    "i8_rows": {"dtype": "i8", "shape": [1, -1], "scale": "f32", "dynamic": True},
    "e4m3_groups": {"dtype": "f8E4M3FN", "shape": [1, 128], "scale": "f32", "dynamic": True},
    "e4m3_maxima": {"dtype": "f8E4M3FN", "shape": [-1, -1], "scale": "f32", "dynamic": True},
    "e3m2_floor": {"dtype": "f6E3M2FN", "shape": [1, 64], "scale": "f8E8M0FNU", "dynamic": True, "scale_rule": "floor"},
    "e5m2_even": {"dtype": "f8E5M2", "shape": [1, 32], "scale": "f8E8M0FNU", "dynamic": True, "scale_rule": "even"},
    "e2m3_ceil": {"dtype": "f6E2M3FN", "shape": [1, 16], "scale": "f8E8M0FNU", "dynamic": True, "scale_rule": "ceil"},
    "e2m1_rows": {"dtype": "f4E2M1FN", "shape": [1, 32], "scale": "f8E4M3FN", "dynamic": True, "alpha_or_gscale": "f32",
                  "second_per_row": True},
}
MIXED_WEIGHTS = [{"dtype": "f4E2M1FN", "shape": [1, 32], "scale": "f8E8M0FNU"},
                 {"dtype": "i4", "shape": [1, 128], "scale": "bf16", "zp": "i8"}]
OF_ROWS = {"alpha_or_gscale": "f32", "second_per_row": True}
# Operands of 8 bits that no scheme names: packing repeats the weights' scales, or each weight row has a second scale.
REPEATED = {
    "e4m3_blocks_of_256": ({"dtype": "f8E4M3FN", "shape": [1, 128], "scale": "f32", "dynamic": True},
                           {"dtype": "f8E4M3FN", "shape": [256, 256], "scale": "f32"}),
    "e4m3_wide_blocks": ({"dtype": "f8E4M3FN", "shape": [1, 128], "scale": "f8E8M0FNU", "dynamic": True},
                         {"dtype": "f8E4M3FN", "shape": [128, 256], "scale": "f8E8M0FNU"}),
    "e4m3_tall_blocks": ({"dtype": "f8E4M3FN", "shape": [1, 128], "scale": "f32", "dynamic": True},
                         {"dtype": "f8E4M3FN", "shape": [256, 128], "scale": "f8E8M0FNU"}),
    "e4m3_groups_by_tensor": ({"dtype": "f8E4M3FN", "shape": [1, 128], "scale": "f32", "dynamic": True},
                              {"dtype": "f8E4M3FN", "shape": [-1, -1], "scale": "f32"}),
    "e4m3_rows_of_128": ({"dtype": "f8E4M3FN", "shape": [-1, -1], "scale": "f32"},
                         {"dtype": "f8E4M3FN", "shape": [128, -1], "scale": "f32"}),
    "i8_rows_of_64": ({"dtype": "i8", "shape": [-1, -1], "scale": "f32", "dynamic": True},
                      {"dtype": "i8", "shape": [64, -1], "scale": "f32"}),
    "i4_rows_twice_by_e4m3": ({"dtype": "f8E4M3FN", "shape": [1, -1], "scale": "f32", "dynamic": True},
                              {"dtype": "i4", "shape": [1, 128], "scale": "f8E4M3FN", **OF_ROWS}),
    "i4_rows_twice_by_i8": ({"dtype": "i8", "shape": [1, -1], "scale": "f32", "dynamic": True},
                            {"dtype": "i4", "shape": [1, 64], "scale": "bf16", **OF_ROWS}),
}
# Weights alone, with a scale of several rows, which packing repeats for engines that read fragments, or second scales of rows.
BLOCKS = {
    "e4m3_weights_in_blocks": {"dtype": "f8E4M3FN", "shape": [128, 128], "scale": "f32"},
    "e4m3_weights_by_tensor": {"dtype": "f8E4M3FN", "shape": [-1, -1], "scale": "f32"},
    "i8_weights_in_blocks": {"dtype": "i8", "shape": [48, 32], "scale": "bf16", "zp": "i8"},
    "e2m1_weights_in_blocks": {"dtype": "f4E2M1FN", "shape": [32, 32], "scale": "f8E8M0FNU"},
    "i4_weights_twice": {"dtype": "i4", "shape": [1, 32], "scale": "f8E4M3FN", **OF_ROWS},
    "e2m1_weights_twice": {"dtype": "f4E2M1FN", "shape": [1, 16], "scale": "f8E4M3FN", **OF_ROWS},
}
ORDERS = ("gate_first", "up_first", "interleaved", "interleaved_8")
PATTERNS = "uniform,skewed,one_expert,empty_expert,ties,negative,nan_inf"


def pairs(rows):
    """Every (activation, routing method) once, in an order whose neighbours share neither."""
    activations, methods = rows["activations"], rows["routing"]
    for turn in range(len(activations) * len(methods)):
        yield (activations[turn % len(activations)],
               methods[(turn + turn // math.lcm(len(activations), len(methods))) % len(methods)])


def layers_of_way(rows):
    """How many layers each way has, where neither --product nor --all is given: activation and method are in different stages."""
    ways = sum(len(list(testing.ways(rows, scheme))) for scheme in rows["schemes"])
    return max(LEAST_LAYERS, math.ceil(len(rows["activations"]) * len(rows["routing"]) / ways))


def option_of_turn(turn, activations, options):
    """Which of so many options a turn has. Each activation, whose turn comes after so many, meets all of them in as many of its
    turns; neighbours are far apart."""
    shift = next(number for number in itertools.count(1) if math.gcd(5 * activations + number, options) == 1)
    return (5 * turn + shift * (turn // activations)) % options


def as_engines_hold(scheme, number, shape):
    """Fields of a layer whose weights are stored as an engine holds them, with padding and gates and ups in one of the orders."""
    layout = {}
    if 0 < scheme["w1_columns"] <= 32 and scheme["w1"].startswith("f"):
        layout = {"stored_layout": "scales_128x4"}
    elif scheme["w1"] not in ("i4", "f4E2M1FN"):
        layout = {"stored_layout": "columns_with_scales"}
    return {"stored_hidden_size": shape["hidden_size"] + 8 * (number % 7),
            "stored_intermediate_size_per_partition": shape["intermediate_size"] + 8 * (1 + number % 23),
            "gate_up_order": ORDERS[number % 4], **layout}


class Pairs:
    """Hands out pairs one after the other, those first that the way before could not take."""

    def __init__(self, rows):
        self.endless, self.waiting = itertools.cycle(list(pairs(rows))), []

    def take(self, fits):
        pair = next((pair for pair in self.waiting if fits(pair)), None)
        if pair:
            self.waiting.remove(pair)
            return pair
        while not fits(pair := next(self.endless)):
            self.waiting.append(pair)
        return pair


class Cases:
    """Makes the cases of schemes. Activations and routing methods take turns over all of them."""

    def __init__(self, rows, product, every):
        self.rows, self.product, self.every = rows, product, every
        self.in_turn, self.turns = Pairs(rows), itertools.count()
        self.by_expert = itertools.cycle(pairs(rows))
        self.mixed = itertools.count()

    def next_pair(self, engine, fits=lambda activation: True):
        """The next activation that the engine takes, and its routing method."""
        return next(pair for pair in self.by_expert if fits(pair[0]) and testing.takes(self.rows, engine, pair[0]))

    def of_way(self, scheme, way, backend, engine):
        shapes = testing.shapes_of_way(self.rows, engine, scheme)
        options = list(itertools.product(shapes, (False, True), (None, "f32")))
        few = testing.is_of_few_tokens(self.rows, engine)

        def fits(pair):  # llama4 and the like have more launches than an engine of few tokens
            return not (few and "weight_on_input" in pair[1]["needs"]) and testing.takes(self.rows, engine, pair[0])

        # In a product each way has the same cases, whatever other rows there are.
        several = enumerate(filter(fits, pairs(self.rows)))
        if not (self.product or self.every):
            several = ((next(self.turns), self.in_turn.take(fits)) for _ in range(layers_of_way(self.rows)))
        for index, (turn, (activation, routing)) in enumerate(several):
            chosen = options if self.every else [options[option_of_turn(turn, len(self.rows["activations"]), len(options))]]
            for shape, bias, logits in chosen:
                case = {"scheme": scheme, "backend": backend, "engine": engine, "activation": activation,
                        "routing": routing, "shape": shape, "bias": bias, "logits": logits, "extras": not index,
                        "few_tokens": few}
                yield case
            if not index:
                yield from self.with_options(case, way)

    def with_options(self, case, way):
        """A rank's share, a set of options, shared experts and a group index, of one case of a way."""
        rows, scheme, engine, few = self.rows, case["scheme"], case["engine"], case["few_tokens"]
        number = rows["schemes"].index(scheme)
        shared = testing.sized_for(rows, engine, testing.shared_shape(scheme), scheme)
        yield {**case, "shape": shared, "bias": True, "extras": False, "share": SHARES[(way + number) % len(SHARES)]}
        sets = OPTIONS_OF_FEW if few else OPTIONS
        options = sets[(way + 5 * number) % len(sets)]
        if scheme["name"].endswith("_tensor_dynamic"):  # one scale of all tokens
            options = {**options, "batch_invariant": False}
        if testing.quantizes_x(scheme) and not few and way % 2:
            options = {"input_quantized": True, **options}
        # Some sets forbid weights on the input, which stand among them, sinks, and methods that draw.
        method = case["routing"]
        if {"weight_on_input", "sinks"}.intersection(method["needs"]) or method["score"].startswith("drawn"):
            method = rows["routing"][0]
        yield {**case, "routing": method, "bias": True, "extras": False, "options": testing.sized_for(rows, engine, options, scheme)}
        apart = {"n_shared_experts": 1 + way % 3, "shared_intermediate_size": SHARED_SIZES[way % len(SHARED_SIZES)],
                 "shared_expert_gate": way % 2 == 1}
        yield {**case, "routing": method, "bias": False, "extras": False, "options": testing.sized_for(rows, engine, apart, scheme)}
        if testing.may_be_ordered(scheme) and not few:
            groups = {"quant_config": {"scheme": scheme["name"], "group_size": 16}} if scheme["w1"] == "i4" else {}
            yield {**case, "bias": True, "extras": False, "options": {"group_index": True, **groups}}

    def as_engines_hold(self, scheme):
        rows, number = self.rows, self.rows["schemes"].index(scheme)
        every_way = [way for way in testing.ways(rows, scheme) if not testing.is_of_few_tokens(rows, way[1])]
        backend, engine = every_way[number % len(every_way)]
        activation, routing = self.next_pair(engine, lambda activation: activation["gated"])
        shape = testing.sized_for(rows, engine, testing.shapes(scheme)[number % 4], scheme)
        return {"scheme": scheme, "backend": backend, "engine": engine, "activation": activation, "routing": routing, "shape": shape,
                "bias": number % 3 > 0, "logits": None, "extras": False, "few_tokens": False,
                "options": as_engines_hold(scheme, number, shape)}

    def batched(self, scheme):
        for index, (backend, engine) in enumerate(testing.ways(self.rows, scheme, ("batched",))):
            options = {**BATCHED[(index + self.rows["schemes"].index(scheme)) % len(BATCHED)], "activation_format": "batched"}
            if scheme["name"].endswith("_tensor_dynamic"):
                options["batch_invariant"] = False
            if testing.quantizes_x(scheme) and index % 2:
                options["input_quantized"] = True
            activation, routing = self.next_pair(engine)
            yield {"scheme": scheme, "backend": backend, "engine": engine, "activation": activation, "routing": routing,
                   "shape": testing.shapes_of_way(self.rows, engine, scheme)[0], "bias": False, "logits": None, "extras": False,
                   "few_tokens": False, "options": options}

    def mixed_scheme(self, scheme):
        """Emulated activations that no scheme names."""
        number = next(self.mixed)
        backend, engine = list(testing.ways(self.rows, scheme))[number % 2]
        mix, activations = list(MIXES.items())[number % len(MIXES)]
        weights = MIXED_WEIGHTS[number % len(MIXED_WEIGHTS)]
        activation, routing = next(self.by_expert)
        given = {"input_quantized": True} if number % 2 and "weight_on_input" not in routing["needs"] else {}
        return {"scheme": scheme, "backend": backend, "engine": engine, "activation": activation, "routing": routing,
                "shape": testing.sized_for(self.rows, engine, testing.shapes(scheme)[number % 4], scheme), "bias": number % 2 == 0,
                "logits": None, "extras": False, "few_tokens": False, "mix": mix,
                "options": {**given, "quant_config": {"a1": activations, "a2": activations, "w1": weights, "w2": weights}}}

    def repeated(self):
        rows = self.rows
        for number, (mix, (activations, weights)) in enumerate(REPEATED.items()):
            scheme = next(row for row in rows["schemes"] if row["w1"] == weights["dtype"] and row["a1"] == activations["dtype"])
            every_way = [way for way in testing.ways(rows, scheme) if not testing.is_of_few_tokens(rows, way[1])]
            for turn, (backend, engine) in enumerate(every_way):
                activation, routing = self.next_pair(engine)
                shape = testing.sized_for(rows, engine, testing.shapes(scheme)[(number + turn) % 4], scheme)
                order = ORDERS[(number + turn) % (3 if turn % 2 else 4)] if activation["gated"] else "gate_first"
                # No rule makes second scales of rows of floats.
                is_made = turn % 2 and "second_per_row" not in weights
                floats = {"weights_dtype": "bf16", "stored_layout": "rows"} if is_made else {}
                yield {"scheme": scheme, "backend": backend, "engine": engine, "activation": activation, "routing": routing,
                       "shape": shape, "bias": number % 2 == 0, "logits": None, "extras": False, "few_tokens": False, "mix": mix,
                       "options": {"quant_config": {"a1": activations, "a2": activations, "w1": weights, "w2": weights},
                                   "gate_up_order": order, **floats}}

    def blocks(self):
        rows = self.rows
        for number, (mix, weights) in enumerate(BLOCKS.items()):
            scheme = next(row for row in rows["schemes"] if row["w1"] == weights["dtype"] and row["a1"] == "bf16")
            for turn, (backend, engine) in enumerate(way for way in testing.ways(rows, scheme) if testing.reads_fragments(rows, way[1])):
                activation, routing = self.next_pair(engine)
                order = ORDERS[(number + turn) % 4] if activation["gated"] else "gate_first"
                yield {"scheme": scheme, "backend": backend, "engine": engine, "activation": activation, "routing": routing,
                       "shape": testing.sized_for(rows, engine, testing.shapes(scheme)[number % 4], scheme), "bias": number % 2 == 0,
                       "logits": None, "extras": False, "few_tokens": False, "mix": mix,
                       "options": {"quant_config": {"w1": weights, "w2": weights}, "gate_up_order": order, "stored_layout": "rows"}}


def cases(rows, product=True, every=False):
    """Dictionaries of rows; `extras` marks one case of each way, `few_tokens` an engine that serves no others."""
    made = Cases(rows, product, every)
    for scheme in rows["schemes"]:
        for way, (backend, engine) in enumerate(testing.ways(rows, scheme)):
            yield from made.of_way(scheme, way, backend, engine)
        yield made.as_engines_hold(scheme)
        yield from made.batched(scheme)
        if testing.is_emulated(scheme):
            yield made.mixed_scheme(scheme)
    yield from made.repeated()
    yield from made.blocks()
    yield from summed_cases(rows)
    yield from parts.cases(rows)
    yield from parts.cases_of_experts(rows)


def summed_cases(rows):
    for number, name in enumerate(SUMMED_SCHEMES):
        scheme = next(row for row in rows["schemes"] if row["name"] == name)
        ways = [way for way in testing.ways(rows, scheme) if not testing.is_of_few_tokens(rows, way[1])]
        for turn, (backend, engine) in enumerate(ways):
            options = testing.sized_for(rows, engine, SUMS[(number + turn) % len(SUMS)], scheme)
            yield {"scheme": scheme, "backend": backend, "engine": engine, "activation": rows["activations"][turn % 2],
                   "routing": rows["routing"][0], "shape": testing.shapes_of_way(rows, engine, scheme)[turn % 4], "bias": turn % 2 == 0,
                   "logits": None, "extras": False, "few_tokens": False, "options": options}


def name_of(case):
    shape = case["shape"]
    return "-".join([case["scheme"]["name"], case["backend"], case["engine"], case["activation"]["name"],
                     case["routing"]["name"], f"e{shape['num_experts']}k{shape['top_k']}",
                     "bias" if case["bias"] else "plain", case["logits"] or "same", *share_name(case),
                     *(["extras"] if case["extras"] else [])])


def share_name(case):
    if case.get("mix"):
        return [case["mix"]]
    if case.get("options"):
        return ["+".join(key for key, value in case["options"].items() if value)]
    share = case.get("share", {})
    return ["".join(key[0] + key[3] + str(value) for key, value in share.items())] if share else []


def runs_of(case, manifest):
    """Argument lists of moec-check."""
    if case.get("part"):
        yield from parts.runs(case, manifest)
        return
    variants = manifest["targets"][0]["variants"]
    routing = case["routing"]
    by_expert = case.get("options", {}).get("activation_format") == "batched"
    # Logits of another type than the layer's, which is that of x or f32.
    other = [] if by_expert else testing.logits_of(routing, "f16" if case["logits"] else "f32")
    if case["few_tokens"]:
        # The others are those of the engine beside it, which has cases of its own.
        few = variants[:1]
        tokens = ",".join(str(count) for count in range(1, few[0]["max_tokens"] + 1))
        yield [f"--tokens={tokens}", "--routing=uniform,skewed,nan_inf"]
        if case["extras"]:
            yield [f"--tokens={tokens}", f"--routing={PATTERNS}", *other]
            for arguments in (["--inputs=ids32", "--given-weights-dtype=bf16"], ["--inputs=ids64", "--given-weights-dtype=f16"],
                              ["--row-stride=24"], ["--valid-tokens=0"], ["--valid-tokens=1", *testing.logits_of(routing, "bf16")],
                              ["--seed=77", "--refresh", "--token-ids=i64", *testing.logits_of(routing, "f16")]):
                yield [f"--tokens={tokens}", *arguments]
        return
    yield [f"--tokens={TOKENS if case['extras'] or testing.runs_all() else SOME_TOKENS}", "--routing=uniform,nan_inf"]
    # Only the layer with extras forces every variant of its way.
    forced = variants if case["extras"] or testing.runs_all() else [variants[zlib.crc32(name_of(case).encode()) % len(variants)]]
    for variant in forced:
        ends = sorted({variant["min_tokens"], variant["max_tokens"]})
        yield [f"--variant={variant['name']}", "--tokens=" + ",".join(map(str, ends)), "--routing=skewed", *other]
    if case["extras"]:
        yield ["--tokens=1,33,65", f"--routing={PATTERNS}"]
        yield ["--tokens=1,33", "--inputs=ids32", "--given-weights-dtype=f16"]
        yield ["--tokens=1,33", "--inputs=ids64", "--given-weights-dtype=bf16"]
        yield ["--tokens=2,33", "--row-stride=24", *testing.logits_of(routing, "bf16")]
        yield ["--tokens=33", "--valid-tokens=0"]
        yield ["--tokens=33", "--valid-tokens=20", *testing.logits_of(routing, "f16")]
        yield ["--tokens=8", "--seed=77", "--refresh", "--token-ids=i64"]


def layer_of(name, case):
    """The case's layer in moec's JSON."""
    layer = testing.layer_json(name, case["shape"], case["scheme"], case["activation"], case["routing"], case["bias"], case["logits"])
    if case.get("share"):
        layer["moe_parallel_config"] = case["share"]
    return {**layer, **case.get("options", {})}


def words_of(case):
    """The compiler's options that make what the case is about."""
    if case.get("part"):
        return [f"--part={case['part']}"]
    return [f"--backend={case['backend']}", *([] if case["few_tokens"] else [f"--engine={case['engine']}"])]


def launches_of(case, manifest):
    """None, or what is wrong with the launches of an engine of few tokens."""
    if not case["few_tokens"]:
        return None
    # Shared experts with weights of their own have kernels of the engine beside it.
    launches = [launch for launch in manifest["targets"][0]["variants"][0]["launches"] if "_shared_" not in launch["kernel"]]
    return None if len(launches) == 2 else f"expected two launches for few tokens, got {[launch['kernel'] for launch in launches]}"


def check_cases(tools, scratch, cases):
    """None, or a sentence about the first thing that is wrong, of each case. One process compiles them, another one runs them."""
    names, lines = [name_of(case) for case in cases], []
    for name, case in zip(names, cases):
        folder = scratch.folder / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / "layer.json").write_text(json.dumps(layer_of(name, case)))
        lines.append([folder / "layer.json", *words_of(case), "-o", folder / "package"])
    file = scratch.folder / f"{names[0]}.cases"
    faults, runs = {}, []
    outcomes = testing.compile_lines(tools.moec, lines, file, common=["--arch=sm_90a", "--no-cubin", f"--max-tokens={MAX_TOKENS}"])
    for name, case, line, (status, said) in zip(names, cases, lines, outcomes):
        if status:
            faults[name] = f"{said} in moec compile {' '.join(map(str, line))}"
            continue
        manifest = json.loads((line[-1] / "manifest.json").read_text())
        wrong = launches_of(case, manifest)
        if wrong:
            faults[name] = wrong
        else:
            runs += [(name, (line[-1], run)) for run in runs_of(case, manifest)]
    for (name, (package, run)), fault in zip(runs, testing.run_lines(tools.moec_check, [run for _, run in runs], file)):
        if fault:
            faults.setdefault(name, f"{fault} in moec-check {package} --device=host --check {' '.join(run)}")
    for name in names:
        if name not in faults:
            shutil.rmtree(scratch.folder / name)
    return [scratch.keep(name, f"{name}: {faults[name]}") if name in faults else None for name in names]


def main():
    arguments = testing.parser(__doc__.splitlines()[0])
    arguments.add_argument("--product", action="store_true", help="every activation with every routing method on every way")
    arguments.add_argument("--all", action="store_true", help="the same, with every shape, bias and type of the logits")
    arguments.add_argument("--filter", default="", help="only cases whose name this regular expression is found in")
    options = arguments.parse_args()
    tools = testing.Tools(options.bin)
    scratch = testing.Scratch(options.work)
    started = time.time()
    chosen = [case for case in cases(tools.rows(), options.product, options.all) if re.search(options.filter, name_of(case))]
    results = testing.parallel(lambda chunk: check_cases(tools, scratch, chunk), testing.in_chunks(chosen, CHUNK), options.jobs)
    testing.finish("conformance on the host device", len(chosen), [text for chunk in results for text in chunk if text], started,
                   time.time())


if __name__ == "__main__":
    main()
