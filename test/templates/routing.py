# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The plan of templates-routing: checks of what a routing writes, and its times."""

# How tokens are shared: CTAs, tokens of a CTA at most, threads.
SHARES = {"c8": (8, 16, 512), "c4": (4, 32, 512), "c1": (1, 128, 1024),
          "wide": (8, 128, 1024)}


def addChecks(plan):
    few, many = "1,2,3,4,5,7,8,9,31,32,33,64,100,127,128", "129,200,513,1000,1024"
    patterns = ("uniform,skewed,ties,one,edge,given32,given64,distinct,valid,ties@f32,edge@f16,edge@bf16,"
                "given32@bf16,given64@f16")

    def add(share, experts, topk, begin=0, local=None, logits="bf16", rows=16, step=None,
            tokens=few, **o):
        local = experts if local is None else local
        step = step or rows
        name = f"{share}_{experts}_{topk}_{begin}_{local}_{logits}_{rows}_{step}"
        cluster, block, threads = SHARES[share]
        route = plan.route(name, experts=experts, topk=topk, begin=begin, local=local, tileRows=rows,
                           rowStep=step, cluster=cluster, block=block, threads=threads, fused=True, **o)
        plan.lines.append(
            f"order name={name} E={experts} K={topk} H=64 I=64 dtype={logits} begin={begin} "
            f"local={local} tilerows={rows} rowstep={step} route={route} tokens={tokens} "
            f"patterns={patterns}")
    for experts in (8, 60, 128, 256):
        for topk in (1, 2, 8):
            add("c8", experts, topk)
            if topk != 2:
                add("wide", experts, topk, rows=64, tokens=few + "," + many)
    add("c1", 128, 8)
    add("c1", 60, 4, logits="f16")
    add("c4", 256, 8)
    add("c8", 8, 8, rows=128)
    add("c8", 8, 8, rows=64, step=16)
    add("c8", 256, 8, begin=64, local=32)
    add("c8", 128, 8, begin=96, local=32, logits="f16")
    add("wide", 128, 8, begin=0, local=16, rows=16, tokens=few + "," + many)
    add("c8", 128, 8, logits="f32", score="Identity", normalize="SoftmaxSelected")
    add("c8", 512, 10, logits="f32")
    add("c8", 1024, 16, score="Identity", normalize="None", logits="f16")
    add("c8", 33, 32)
    for experts, topk, block, local in ((128, 8, 64, 128), (256, 8, 16, 256), (60, 4, 32, 15)):
        name = f"split_{experts}_{topk}_{block}_{local}"
        o = dict(experts=experts, topk=topk, block=block, begin=0, local=local, tileRows=64)
        route = plan.route(name, **o)
        permute = plan.permute(name, **o)
        plan.lines.append(
            f"order name={name} E={experts} K={topk} H=64 I=64 dtype=bf16 begin=0 local={local} "
            f"tilerows=64 route={route} permute={permute} tokens=1,65,129,1000,2500 "
            f"patterns={patterns}")


# Experts and how many of them a token takes.
MODELS = {"qwen3-30b": (128, 8), "deepseek-v3": (256, 8)}


def addTimings(plan):
    routes = {}
    for model, (experts, topk) in MODELS.items():
        key = model.replace("-", "_")
        o = dict(experts=experts, topk=topk, timing=1, tileRows=16)
        names = []
        for share, (cluster, block, threads) in {
                **SHARES, "c8x1024": (8, 16, 1024), "c8x256": (8, 16, 256),
                "c4x1024": (4, 32, 1024), "c2": (2, 64, 1024),
                "wide512": (8, 128, 512), "c8x2048": (8, 256, 1024)}.items():
            names.append(plan.route(f"t_{key}_{share}", cluster=cluster, block=block,
                                    threads=threads, fused=True, **o))
            routes[model, share] = names[-1]
        plan.lines.append(f"time model={model} E={experts} K={topk} H=64 I=64 dtype=bf16 "
                          f"tilerows=16 routes={','.join(names)} "
                          "tokens=1,4,8,16,32,64,128,256,512,1024,2048")
        for block, threads in ((16, 512), (32, 512), (64, 512), (64, 1024), (128, 1024)):
            if model != "qwen3-30b" and threads == 512:
                continue
            name = f"t_{key}_split_{block}_{threads}"
            route = plan.route(name, block=block, threads=threads, **o)
            for wide in (512, 1024):
                permute = plan.permute(f"{name}_{wide}", block=block, threads=wide, **o)
                plan.lines.append(
                    f"time model={model} E={experts} K={topk} H=64 I=64 dtype=bf16 tilerows=16 "
                    f"routes={route} permute={permute} tokens=512,2048,8192")


# A method's policies, where each of 256 experts may be one of 8 of a token.
METHODS = {
    "default": dict(normalize="None"),
    "renormalize": dict(score="Identity", normalize="SoftmaxSelected"),
    "renormalize_naive": {},
    "topk": dict(score="Identity", normalize="None"),
    "sigmoid": dict(score="Sigmoid", normalize="None"),
    "sigmoid_renorm": dict(score="Sigmoid", normalize="SumEpsilon"),
    "topk_sigmoid": dict(score="Identity", normalize="SigmoidSelected"),
    "sigmoid_bias": dict(score="Sigmoid", normalize="None", bias=True),
    "deepseek_v3": dict(score="Sigmoid", select="TopKOfGroups<8, 4>", normalize="SumEpsilon", bias=True, scale=2.5),
    "minimax2": dict(score="Sigmoid", normalize="SumEpsilon", bias=True),
    "deepseek_v4": dict(score="SqrtSoftplus", normalize="SumEpsilon", bias=True, scale=1.5),
    "sqrtsoftplus": dict(score="SqrtSoftplus", normalize="None"),
    "ernie": dict(bias=True),
    "longcat": dict(normalize="None", bias=True),
    "sparsemixer": dict(score="SparseMixer", normalize="None"),
    "intern_s1": dict(select="TopKPerGroup<8>", normalize="None"),
    "intern_s1_renorm": dict(select="TopKPerGroup<8>"),
    "simulated": dict(score="Drawn"),
}


def addMethods(plan):
    """Times of each method, as the compiler launches it: few tokens in one launch, many in two."""
    for method, policies in METHODS.items():
        for logits in ("bf16", "f32"):
            o = dict(experts=256, topk=8, timing=1, tileRows=16, **policies)
            name = f"m_{method}_{logits}"
            most = 512 if "Groups" in str(policies) or "Group<" in str(policies) or "Sparse" in str(policies) else 1024
            fused = plan.route(f"{name}_c1", block=8, threads=most, fused=True, **o)
            wide = plan.route(f"{name}_c8", cluster=8, block=16, threads=512, fused=True, **o)
            head = f"time model={method}-{logits} E=256 K=8 H=64 I=64 dtype={logits} tilerows=16 "
            plan.lines.append(head + f"routes={fused},{wide} tokens=1,8,128")
            split = plan.route(f"{name}_split", block=32, threads=min(most, 1024), **o)
            permute = plan.permute(f"m_split_{logits}", block=32, threads=1024, experts=256, topk=8, timing=1,
                                   tileRows=16)
            plan.lines.append(head + f"routes={split} permute={permute} tokens=8192")


def addRouting(plan):
    addChecks(plan)
    addTimings(plan)
    addMethods(plan)
