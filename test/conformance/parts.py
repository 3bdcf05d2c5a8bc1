# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Cases of conformance.py that are parts of layers: every routing method routes, every scheme whose codes engines multiply quantizes,
every scheme multiplies in both parts with a matmul, and sets of options finalize."""

import moec_testing as testing

# Options that stand between an expert and the place of its weights.
PLACES = [
    {"n_shared_experts": 2, "shared_expert_gate": True, "num_redundant_experts": 3, "moe_parallel_config": {"enable_eplb": True}},
    {"expert_map": True, "num_redundant_experts": 2,
     "moe_parallel_config": {"tp_size": 2, "tp_rank": 1, "use_ep": True, "enable_eplb": True}},
    {**testing.NO_METHOD, "routing_method": "longcat", "num_experts": 12, "num_zero_experts": 7, "top_k": 5,
     "routed_scaling_factor": 6.0, "apply_routed_scale_to_output": True},
]
# Sets of options of a sum: what is added beside the experts' outputs, and which of them are this rank's.
SUMS = [
    {},
    {"residual": True, "out_dtype": "float32", "latent_hidden_size": 176},
    {"residual": True, "batch_invariant": True, "out_dtype": "float16"},
    {"is_lora_enabled": True, "n_shared_experts": 1, "residual": True},
    {"moe_parallel_config": {"tp_size": 3, "tp_rank": 1, "use_ep": True}, "residual": True},
    {"moe_parallel_config": {"tp_size": 2, "tp_rank": 1}},
    {**testing.NO_METHOD, "routing_method": "llama4", "top_k": 1},
    *PLACES,
    {**PLACES[2], "moe_parallel_config": {"tp_size": 2, "tp_rank": 1, "use_ep": True}, "residual": True},
]
PATTERNS = "uniform,skewed,one_expert,empty_expert,ties,negative,nan_inf"


def quantizes(scheme):
    """Whether a part of a layer of the scheme quantizes, on an arch with every engine."""
    return testing.quantizes_x(scheme) and (not testing.is_emulated(scheme) or testing.may_multiply_codes(scheme))


def cases(rows):
    """Dictionaries as those of conformance.cases, with the part as `part`."""
    plain = next(scheme for scheme in rows["schemes"] if scheme["name"] == "bf16")
    usual = next(row for row in rows["routing"] if row["name"] == "renormalize")
    on_input = next(row for row in rows["routing"] if "weight_on_input" in row["needs"])

    def case(part, scheme, shape, routing=usual, bias=False, logits=None, options=None):
        made = {"part": part, "scheme": scheme, "backend": "part", "engine": part, "activation": rows["activations"][0],
                "routing": routing, "shape": shape, "bias": bias, "logits": logits, "extras": False, "few_tokens": False}
        return {**made, "options": options} if options else made

    for number, method in enumerate(rows["routing"]):
        for bias in (False, True):
            shape = testing.SHAPES[(number + bias) % 4]
            yield case("route", plain, shape, method, bias, "f32" if number % 3 == 0 else None)
    for options in PLACES:
        yield case("route", plain, testing.SHAPES[2], options=options)
    for number, scheme in enumerate(filter(quantizes, rows["schemes"])):
        shape = testing.shapes(scheme)[number % 4]
        if testing.may_multiply_codes(scheme):
            shape = testing.in_blocks(testing.SHAPES_OF_BYTES[number % 4], scheme)
        yield case("quantize", scheme, shape)
        more = {} if scheme["name"].endswith("_tensor_dynamic") else {"batch_invariant": True}
        yield case("quantize", scheme, shape, options={"input_quantized": True, "in_dtype": "f16", **more})
        yield case("quantize", scheme, shape, on_input)
    for number, options in enumerate(SUMS):
        yield case("finalize", plain, testing.SHAPES[2 * number % 4], options=options)


def cases_of_experts(rows):
    """Parts with one of both matmuls: every scheme with adapters, and sets of options. Their kernels are those of layers."""
    plain = next(scheme for scheme in rows["schemes"] if scheme["name"] == "bf16")
    usual = next(row for row in rows["routing"] if row["name"] == "renormalize")

    def case(part, scheme, shape, activation, options, bias=False):
        return {"part": part, "scheme": scheme, "backend": "part", "engine": part, "activation": activation, "routing": usual,
                "shape": shape, "bias": bias, "logits": None, "extras": False, "few_tokens": False, "options": options}

    for number, scheme in enumerate(rows["schemes"]):
        shape = testing.shapes(scheme)[number % 4]
        if testing.may_multiply_codes(scheme):
            shape = testing.in_blocks(testing.SHAPES_OF_BYTES[number % 4], scheme)
        for part in ("gate_up", "down"):
            activation = rows["activations"][number % len(rows["activations"])]
            yield case(part, scheme, shape, activation, {"is_lora_enabled": True, **({"in_dtype": "f32"} if number % 3 == 0 else {})},
                       bias=number % 2 == 0)
    for number, options in enumerate(SUMS):
        for part in ("gate_up", "down"):
            yield case(part, plain, testing.SHAPES[2 * number % 4], rows["activations"][0], options)


def runs(case, manifest):
    """Argument lists of moec-check, which must not lack any."""
    part, given = case["part"], ["--inputs=ids64", "--given-weights-dtype=bf16"]
    for variant in manifest["targets"][0]["variants"]:
        ends = sorted({variant["min_tokens"], variant["max_tokens"]})
        yield [f"--variant={variant['name']}", "--tokens=" + ",".join(map(str, ends))]
    yield ["--tokens=0,1,2,7,8,33,65"]
    if part == "route":
        yield ["--tokens=1,33,65", f"--routing={PATTERNS}", *testing.logits_of(case["routing"], "f16"), "--token-ids=i64"]
        yield ["--tokens=33", "--valid-tokens=20", *testing.logits_of(case["routing"], "bf16")]
    if part in ("quantize", "gate_up"):
        yield ["--tokens=2,33", "--row-stride=24"]
    if part == "quantize":
        if case["scheme"]["name"].endswith("_tensor_dynamic"):  # the maximum is that of valid tokens
            yield ["--tokens=33", "--valid-tokens=20"]
    else:
        yield ["--tokens=1,33", *given]
        yield ["--tokens=33", "--valid-tokens=0", "--inputs=ids32", "--given-weights-dtype=f16"]
        yield ["--tokens=33", "--valid-tokens=20", "--seed=77", "--inputs=ids32"]
