# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The part of plan.py for layers of a few tokens in two launches."""

import texts

SCHEMES = ("none", "fp8_block", "fp8_channel", "fp8_tensor", "fp8_tensor_dynamic")

# experts, local experts, top k, hidden, intermediate, most tokens (bf16, fp8)
MODELS = {"qwen3-30b": (128, 128, 8, 2048, 768, 4, 4),
          "qwen3-235b-tp4": (128, 128, 8, 4096, 384, 4, 4),
          "dsv3-tp8": (256, 256, 8, 7168, 256, 4, 4),
          "dsv3-ep8": (256, 32, 8, 7168, 2048, 2, 4),
          "mixtral-8x7b": (8, 8, 2, 4096, 14336, 1, 2)}

# For each kernel: warps, stages, outputs of a lane, CTAs per SM; routed early.
VARIANTS = [((8, 8, 1, 1), (8, 16, 1, 1), True), ((8, 8, 1, 1), (8, 16, 1, 1), False),
            ((8, 12, 1, 1), (8, 24, 1, 1), True), ((8, 8, 1, 1), (8, 8, 2, 1), True),
            ((8, 4, 2, 1), (8, 8, 2, 1), True), ((16, 4, 1, 1), (16, 8, 1, 1), True),
            ((16, 6, 1, 1), (16, 12, 1, 1), True), ((12, 6, 1, 1), (12, 12, 1, 1), True),
            ((8, 5, 1, 2), (8, 10, 1, 2), True)]


def pair(plan, name, up, down, early, check, **o):
    """Both kernels and the line that names them."""
    shape = {key: o[key] for key in ("experts", "topk", "hidden", "inter")}
    o = dict(tokens=4, scheme="none", element="bf16", logits=None, begin=0, local=None,
             gated=True, bias=False, activation="silu", grid=0) | o
    rest = {key: o[key] for key in ("tokens", "scheme", "element", "begin", "local", "gated", "bias",
                                    "activation")}
    ids = []
    for kind, (warps, stages, outputs, ctas) in (("route_gate_up", up), ("down_combine", down)):
        first = kind == "route_gate_up"
        k = o["hidden"] if first else o["inter"]
        rows = o["tokens"] * (1 if first else o["topk"])
        parts = 2 if first and o["gated"] else 1
        shared = texts.gemvShared(rows, k, parts * outputs, o["scheme"], o["element"], stages,
                                  warps)
        if shared * ctas > 227 * 1024:
            return False
        own = f"{name}_{kind}_{warps}_{stages}_{outputs}_{ctas}_{int(early)}"
        own = own.replace("-", "_")
        ids.append(plan.kernel(
            "few", own, texts.gemv(kind, own, early=early, warps=warps, stages=stages,
                                   outputs=outputs, **shape, **rest),
            threads=32 * warps, shared=shared, ctas=ctas))
    local = o["experts"] if o["local"] is None else o["local"]
    variant = "/".join(",".join(map(str, v)) for v in (up, down)) + ("" if early else "/late")
    plan.lines.append(
        f"few name={name} model={o.get('model', name)} variant={variant} check={int(check)} "
        f"E={o['experts']} K={o['topk']} H={o['hidden']} I={o['inter']} begin={o['begin']} "
        f"local={local} capacity={o['tokens']} dtype={o['element']} "
        f"logits={o['logits'] or o['element']} gated={int(o['gated'])} bias={int(o['bias'])} "
        f"act={o['activation']} scheme={o['scheme']} grid={o['grid']} up={ids[0]} "
        f"down={ids[1]} tokens={o['counts']} patterns={o.get('patterns', 'uniform')}")
    return True


def addChecks(plan):
    def check(name, up=(4, 3, 1, 1), down=(4, 4, 1, 1), early=True, **o):
        o = dict(counts="1,2,3,4", grid=3, patterns="uniform,one,edge,given32,given64,valid,uniform@f32,edge@f16,"
                 "edge@bf16,given32@bf16,given64@f16") | o
        if not pair(plan, name, up, down, early, True, **o):
            raise ValueError(f"{name} does not fit")
    for scheme in SCHEMES:
        tag = scheme
        check(f"{tag}_odd", experts=6, topk=3, hidden=400, inter=208, scheme=scheme, bias=True)
        check(f"{tag}_share", experts=12, topk=8, hidden=256, inter=128, scheme=scheme, begin=4,
              local=5, up=(2, 2, 2, 1), down=(8, 9, 2, 1), early=False, grid=2)
        check(f"{tag}_plain", experts=5, topk=2, hidden=320, inter=80, scheme=scheme,
              gated=False, activation="gelu", up=(4, 5, 2, 1), down=(1, 3, 4, 1), grid=5)
    check("f16", experts=9, topk=4, hidden=200, inter=136, element="f16", logits="f32",
          activation="gelu_tanh", bias=True)
    check("f32", experts=7, topk=2, hidden=104, inter=40, element="f32", bias=True)
    check("many", experts=320, topk=8, hidden=128, inter=32, grid=40)
    check("single", experts=1, topk=1, hidden=2048, inter=768, grid=7)


def addTimings(plan):
    for scheme in ("none", "fp8_block", "fp8_channel"):
        for model, (experts, local, topk, hidden, inter, most, mostScaled) in MODELS.items():
            tokens = most if scheme == "none" else mostScaled
            counts = ",".join(str(m) for m in (1, 2, 4) if m <= tokens)
            variants = VARIANTS if model != "mixtral-8x7b" else VARIANTS[:6]
            for up, down, early in variants:
                pair(plan, f"{model}_{scheme}", up, down, early, False, model=model,
                     experts=experts, topk=topk, hidden=hidden, inter=inter, local=local,
                     tokens=tokens, scheme=scheme, counts=counts)
