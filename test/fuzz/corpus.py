# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The first inputs of each fuzzer: the examples, the tests' inputs and what the compiler makes of small layers."""

import itertools
import json
import pathlib
import re
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Small, so that a manifest is some ten kilobytes and runs in a moment.
LAYER = {"moec_layer": 1, "name": "seed", "num_experts": 2, "top_k": 1, "hidden_size": 64, "intermediate_size": 32,
         "in_dtype": "bf16", "routing_method": "renormalize", "activation": "silu", "quant_config": "bf16"}
WIDE = {"hidden_size": 128, "intermediate_size": 128}
LAYERS = {
    "bf16": {},
    "f32-bias": {"in_dtype": "float32", "quant_config": "f32", "has_bias": True},
    "fp8-block": {"quant_config": "fp8_block", **WIDE},
    "fp8-channel": {"quant_config": "fp8_channel"},
    "int8": {"quant_config": "int8_w8a16"},
    "int4": {"quant_config": "int4_w4a16", "stored_layout": "gptq", **WIDE},
    "mxfp4": {"quant_config": "mxfp4_w4a16"},
    "held": {"quant_config": "nvfp4_w4a16", "stored_layout": "scales_128x4", "gate_up_order": "interleaved_8", **WIDE, "stored_hidden_size": 192,
             "stored_intermediate_size_per_partition": 136},
    "float-weights": {"quant_config": "fp8_channel", "weights_dtype": "bf16"},
    "groups": {"num_experts": 8, "top_k": 2, "routing_method": "deepseek_v3", "num_expert_group": 2, "topk_group": 1},
    "ungated": {"activation": "relu2_no_mul"},
}
PROJECTIONS = ("gate_proj", "up_proj", "down_proj")


def texts_of(*patterns):
    paths = sorted(path for pattern in patterns for path in ROOT.glob(pattern))
    return [path.read_text(encoding="utf-8") for path in paths]


def json_blocks(path):
    return re.findall(r"```json[^\n]*\n(.*?)```", (ROOT / path).read_text(encoding="utf-8"), re.DOTALL)


class Compiled:
    """The compiler's output for the layers above; nothing if it is not built."""

    def __init__(self, moec):
        self.moec = moec if moec and pathlib.Path(moec).exists() else None
        self.cache = {}

    def call(self, name, *options):
        """Standard output of a compilation, "" where it is refused; packages go to `folder`."""
        if not self.moec:
            return ""
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "layer.json"
            path.write_text(json.dumps({**LAYER, **LAYERS[name]}), encoding="utf-8")
            made = subprocess.run([self.moec, "compile", path, "--arch=sm_80", *options], capture_output=True, text=True)
            return made.stdout if made.returncode == 0 else ""

    def package(self, name):
        """The files of a package, {} where there is none."""
        if name in self.cache or not self.moec:
            return self.cache.get(name, {})
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / "package"
            self.call(name, "--max-tokens=8", "--no-cubin", "-o", out)
            files = {str(path.relative_to(out)): path.read_text(encoding="utf-8") for path in out.rglob("*") if path.is_file()}
        self.cache[name] = files
        return files

    def manifests(self):
        return [files["manifest.json"] for files in map(self.package, LAYERS) if files]


def tensor(kind, shape, offset):
    bits = {"BF16": 16, "F16": 16, "F32": 32, "F8_E4M3": 8, "I8": 8, "I32": 32, "U8": 8}[kind]
    size = bits // 8
    for extent in shape:
        size *= extent
    return {"dtype": kind, "shape": shape, "data_offsets": [offset, offset + size]}, offset + size


def header(tensors):
    made, offset = {}, 0
    for name, kind, shape in tensors:
        made[name], offset = tensor(kind, shape, offset)
    return made


def checkpoint(layer):
    """Names and types of a layer's tensors, as checkpoints of its scheme have them."""
    hidden, inner, scheme = layer["hidden_size"], layer["intermediate_size"], layer["quant_config"]
    for expert, projection in itertools.product(range(layer["num_experts"]), PROJECTIONS):
        base = f"model.layers.0.mlp.experts.{expert}.{projection}"
        rows, columns = (hidden, inner) if projection == "down_proj" else (inner, hidden)
        if scheme == "int4_w4a16":
            yield f"{base}.qweight", "I32", [columns // 8, rows]
            yield f"{base}.scales", "BF16", [columns // 128, rows]
            yield f"{base}.qzeros", "I32", [columns // 128, rows // 8]
        elif scheme == "mxfp4_w4a16":
            yield f"{base}.weight_packed", "U8", [rows, columns // 2]
            yield f"{base}.weight_scale", "U8", [rows, columns // 32]
        elif scheme == "fp8_block":
            yield f"{base}.weight", "F8_E4M3", [rows, columns]
            yield f"{base}.weight_scale_inv", "F32", [-(-rows // 128), -(-columns // 128)]
        elif scheme == "fp8_channel" and "weights_dtype" not in layer:
            yield f"{base}.weight", "F8_E4M3", [rows, columns]
            yield f"{base}.weight_scale", "F32", [rows, 1]
        elif scheme == "int8_w8a16":
            yield f"{base}.weight", "I8", [rows, columns]
            yield f"{base}.weight_scale", "BF16", [rows, 1]
        else:
            yield f"{base}.weight", "F32" if scheme == "f32" else "BF16", [rows, columns]
            if layer.get("has_bias"):
                yield f"{base}.bias", "F32", [rows]


def layer_of(manifest):
    """The layer as a loaded package has it, with what its only rank has of its own."""
    layer, [rank] = manifest["layer"], manifest["ranks"]
    local = {**layer["local_experts"], "begin": rank["local_begin"]}
    return {**layer, "local_experts": local, "intermediate_begin": rank["intermediate_begin"]}


def weights(compiled):
    for name, changes in LAYERS.items():
        package = compiled.package(name)
        if not package:
            continue
        manifest = json.loads(package["manifest.json"])
        one = header(checkpoint({**LAYER, **changes}))
        files = {"model.safetensors": one}
        stored = [value for value in manifest["values"] if value["role"] == "stored_weight"]
        yield json.dumps({"layer": layer_of(manifest), "values": stored, "files": files})
        index = {"model.safetensors.index.json": {"weight_map": {key: "model.safetensors" for key in one}}}
        yield json.dumps({"layer": layer_of(manifest), "values": stored, "files": {**files, **index}, "number": 0,
                          "quantize": name == "bf16"})


def packages():
    manifest = json.loads(json_blocks("docs/reference/manifest.md")[0])
    for one in (manifest, *single_kernels(json.loads(json.dumps(manifest)))):
        sources = {kernel["source"]: "// a kernel\n" for target in one["targets"] for kernel in target["kernels"]}
        yield json.dumps({"manifest.json": {**one, "files": {path: "" for path in sources}}, **sources})
    yield json.dumps({"manifest.json": "{}", "a/b.cu": "text", "hashes": False})
    # Two shares of one kernel each.
    one = next(single_kernels(json.loads(json.dumps(manifest))))
    [kernel] = one["targets"][0]["kernels"]
    one["files"] = {kernel["source"]: ""}
    index, files = index_of(["share0", "share1"]), {}
    for i, share in enumerate(index["shares"]):
        files[f"{share['folder']}/manifest.json"] = {**one, "ranks": [{**RANK, "rank": i}]}
        files[f"{share['folder']}/{kernel['source']}"] = "// a kernel\n"
    yield json.dumps({"manifest.json": {**index, "files": {path: "" for path in files}}, **files})


def single_kernels(manifest):
    """Manifests of one kernel each: a tenth of the bytes, and the same stages."""
    target, seen = manifest["targets"][0], set()
    for variant in target["variants"]:
        for launch in variant["launches"]:
            kernel = next(kernel for kernel in target["kernels"] if kernel["name"] == launch["kernel"])
            operations = " ".join(stage["op"] for stage in kernel["stages"])
            if operations in seen:
                continue
            seen.add(operations)
            text = json.dumps([kernel["arguments"], kernel["stages"], target["tensor_maps"]])
            touched = [value for value in manifest["values"] + target["values"] if f'"{value["name"]}"' in text]
            for value in touched:
                if value["role"] == "packed_weight":
                    value.update(role="stored_weight", may_alias="")
            given = [value for value in touched if value["role"] in ("input", "optional_input", "output", "optional_output",
                                                                     "stored_weight")]
            names = {value["name"] for value in touched}
            regions = [{**region, "first_launch": 0, "last_launch": 0} for region in variant["regions"] if region["value"] in names]
            one = {**variant, "min_tokens": 1, "max_tokens": manifest["max_tokens"], "min_sms": 0, "launches": [launch],
                   "regions": regions}
            yield {**manifest, "layer": {}, "files": {}, "values": given,
                   "one_of": [group for group in manifest["one_of"] if names.issuperset(group)],
                   "targets": [{**target, "values": [value for value in touched if value not in given], "report": {}, "pack": [],
                                "kernels": [{**kernel, "headers": []}], "variants": [one]}]}


RANK = {"rank": 0, "local_begin": 0, "intermediate_begin": 0, "add_w2_bias": True, "add_zero_experts": True}


def index_of(folders):
    """An index of shares, of a rank each."""
    return {"moec_manifest": 8, "name": "seed", "shares": [{"folder": name, "ranks": [i]} for i, name in enumerate(folders)],
            "files": {f"{name}/manifest.json": "0" * 64 for name in folders}}


def manifests(compiled):
    whole = [*json_blocks("docs/reference/manifest.md")[:1], *compiled.manifests()]
    yield json.dumps(index_of(["share0", "share1"]))
    for text in whole:
        yield json.dumps(json.loads(text))
        yield json.dumps({**json.loads(text), "ranks": [RANK, {**RANK, "rank": 3, "add_w2_bias": False}]})
        yield from (json.dumps(manifest) for manifest in single_kernels(json.loads(text)))


def tuned():
    whole = json.loads((ROOT / "tuned/h100_sxm-bf16.json").read_text(encoding="utf-8"))
    seen = {}
    for row in whole["rows"]:
        seen.setdefault((row["schedule"]["engine"], str(row["schedule"]["tile"])), row)
    rows = list(seen.values())[:24]
    yield json.dumps({"tuned": 1, "rows": rows[:3]})
    for row in rows:
        yield json.dumps({"tuned": 1, "rows": [row]})
    for row in rows[:6]:
        measured = {"tokens": 32, "microseconds": 2.5, "noise": 0.01, "date": "2026-11-28", "commit": "moec"}
        problem = {key: value for key, value in row["problem"].items() if key != "tokens"}
        new = {"gpu": row["gpu"], "tokens": [23, 45], "problem": problem, "schedule": row["schedule"], "measured": measured}
        down = dict(new, problem=dict(problem, gated=False, gather=False), tokens=[23, 45])
        yield json.dumps({"tuned": 2, "rows": [new, down]})


def pages():
    kernels = [{"name": "v_gate_up", "stages": ["route", "grouped_matmul", "activate"], "reads": ["x", "w"], "writes": ["t"],
                "engine": "wgmma", "tile": [64, 128, 64], "entry": "a", "warps": [4, 2], "cluster": [2, 1, 1], "threads": 384,
                "shared_bytes": 9000, "schedule_source": "tuned", "grid": "rows"},
               {"name": "v_down", "stages": ["grouped_matmul", "combine"], "reads": ["t"], "writes": ["out"], "early": True,
                "entry": "b", "apart": "why"}]
    predicted = [{"kernel": kernel["name"], "microseconds": 5.5, "bytes": 1e6, "flops": 1e8, "bound": "memory"} for kernel in kernels]
    variant = {"name": "v", "tokens": [1, 64], "workspace_bytes": 4096, "min_sms": 4, "kernels": kernels,
               "buffers": [{"name": "t", "offset": 256, "bytes": 4096, "launches": [0, 1]}],
               "predictions": [{"tokens": tokens, "microseconds": 9.5 * tokens, "kernels": predicted} for tokens in (1, 64)]}
    layer = {"num_experts": 8, "quant": {"name": "fp8", "a1": {"element_type": "f8E4M3FN"}, "w1": {"element_type": "f8E4M3FN"}}}
    target = {"arch": "sm_90a", "gpu": "h100_sxm", "backend": "grouped", "engine": "wgmma", "realization": "native",
              "hardware": {"gpu": "h100_sxm", "bandwidth_gb_s": 3350, "tensor_tflops": {"bf16": 989, "fp8": 1979}, "sms": 132},
              "refused": [{"backend": "grouped", "engine": "simt", "code": "c", "reason": "r"}],
              "weights": [{"name": "w", "role": "stored", "bytes": 4096}], "variants": [variant],
              "summary": {"scheme": "fp8", "weight_bytes": 4096, "at": [{"tokens": 1, "workspace_bytes": 256}]}}
    report = {"moec_explain": 1, "served": True, "name": "<script>", "max_tokens": 64, "layer": layer, "targets": [target]}
    cell = {"tokens": 8, "us": 10, "passes_us": [9, 11], "floor_us": 4, "bytes": 1e6, "flops": 1e8, "variant": "v",
            "kernels": [{"entry": "a"}, {"entry": "b"}]}
    bench = {"moec_bench": 3, "device": "NVIDIA H100", "routing": "uniform",
             "packages": [{"package": "p", "name": "n", "arch": "sm_90a", "layer": layer, "cells": [cell]}]}
    yield json.dumps({"report": report})
    yield json.dumps({"report": report, "bench": bench})
    yield json.dumps({"report": {"moec_explain": 1, "served": False, "message": "m", "targets": [{"arch": "a", "refused": []}]}})


def build_ids():
    """A library of 64 bits with one note, some of its parts wrong."""
    import struct
    note = struct.pack("<III", 4, 8, 3) + b"GNU\0" + bytes(range(8))
    for offset, size, kind, align in ((120, len(note), 4, 4), (120, len(note), 4, 8), (1 << 40, 16, 4, 4), (120, 1 << 20, 4, 4)):
        elf = b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, 1, 0, 0, 0)
        yield elf + struct.pack("<IIQQQQQQ", kind, 4, offset, 0, 0, size, size, align) + note


def ir(compiled):
    for text in texts_of("test/dialect/*.mlir", "test/compiler/*.mlir", "test/emit/*.mlir"):
        yield from (part for part in re.split(r"^// -----.*\n", text, flags=re.MULTILINE) if "moe." in part)
    for name in LAYERS:
        for phase in ("layer", "stages", "kernels", "scheduled"):
            yield compiled.call(name, "--max-tokens=64", f"--emit={phase}")


def layers():
    yield from (json.dumps({**LAYER, **changes}) for changes in LAYERS.values())
    yield from texts_of("test/driver/Inputs/*.json", "test/import/Inputs/*.json")
    yield from json_blocks("docs/reference/layer-json.md")


def configs():
    return texts_of("examples/models/*.json")


OPTIONS = [
    {"arch": ["sm_80", "sm_90a"], "max_tokens": 64, "cubin": False}, {"arch": "sm_90a", "gpu": "h100_sxm", "scheme": "fp8_block"},
    {"dtype": "bf16", "weights_dtype": "f16", "accumulate": "fast", "tp": 2, "pcp": 1, "dp": 4, "ep": True, "sp": 2},
    {"placement": "round_robin", "all_to_all": "deepep_low_latency", "no_shared_experts": True, "rank": 3, "layer": 5},
    {"ignore_field": ["a", "b"], "backend": "grouped", "engine": "wgmma", "tuned": "t.json", "cache_dir": "/tmp"},
]
TEXTS = ['{"a": [1, -2, 1.5e3, "\\u00e9\\n", null, true, {}]}', '{"a":{"b":[[],{"":0}]}}', '{"n":[0,-0.0,1e-310,1.7e308]}',
         '{"most":18446744073709551615,"least":-9223372036854775808}', '\ufeff{ } \r\n\t', '{"\u00e9\U0001f600":"\\ud83d\\ude00"}']
EXPRESSIONS = ["0", "tokens", "tokens * 8", "min(rows, max_tokens) - 3", "max(ceildiv(rows + 64 * 3, 64), sm_count)",
               "(tokens + 7) * (experts - 1)", "9223372036854775807", "-9223372036854775808", "ceildiv(tokens, 0)"]
ENVIRONMENT = ["0", "1", "on", "off", "true", "no", "16", "-1", "99999999999999999999", "/a/b", "~/c", " 1"]
CACHE = ['RECIPE\n{"bytes":3,"cubin":"HASH"}\n', 'RECIPE\n{}\n', 'RECIPE', '{"compiler":"x"}\n{"cubin":"HASH"}\n',
         'RECIPE\n{"cubin":1}\n', '\nRECIPE\n{"cubin":"HASH"}']


def expressions(compiled):
    yield from EXPRESSIONS
    for manifest in compiled.manifests():
        yield from sorted(set(re.findall(r'"([^"]*(?:tokens|rows|experts)[^"]*)"', manifest)) - {"tokens", "rows"})


def seeds(target, compiled):
    """The seeds of a fuzzer, as bytes, without doubles."""
    made = {
        "json": lambda: [*TEXTS, *(json.dumps(options) for options in OPTIONS)],
        "import": lambda: [*layers(), *configs()],
        "options": lambda: [json.dumps(options) for options in OPTIONS],
        "tuned": tuned,
        "page": pages,
        "expression": lambda: expressions(compiled),
        "manifest": lambda: manifests(compiled),
        "package": packages,
        "safetensors": lambda: [json.dumps(header(itertools.islice(checkpoint({**LAYER, **changes}), 3)))
                                for changes in LAYERS.values()] +
                               ['{"__metadata__":{"format":"pt"},"a":{"dtype":"F4","shape":[8],"data_offsets":[0,4]},'
                                '"b":{"dtype":"BF16","shape":[2,5],"data_offsets":[4,24]}}', "\2\0\0\0\0\0\0\0{}"],
        "weights": lambda: weights(compiled),
        "cache": lambda: CACHE,
        "build-id": build_ids,
        "environment": lambda: ENVIRONMENT,
        "compile-config": lambda: [*configs(), *layers()],
        "compile-ir": lambda: ir(compiled),
    }[target]()
    unique = {text if isinstance(text, bytes) else text.encode() for text in made if text}
    return sorted(unique)


def words(texts):
    """A dictionary for libFuzzer: the words in quotes and the names of the seeds."""
    found = set()
    for text in texts:
        found.update(re.findall(rb'"[^"\\\n]{1,32}"', text))
        found.update(re.findall(rb"\b[a-z_]{3,24}\b", text[:20000]))
    return sorted(found)[:3000]
