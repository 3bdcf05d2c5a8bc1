"""Mistakes of a command line and of its files: each ends in a message that names the option or the value, and a remedy.

    mistakes.py SOURCE WORK

A row has the words, and texts that one line of standard error must have all. The exit status is not 0, nothing is printed to
standard output, and WORK stays as it is after prepare(). Programs that were not built beside `moec` are left out and named.
"""

import concurrent.futures
import json
import os
import pathlib
import shlex
import shutil
import struct
import subprocess
import sys

MODEL, LAYER = "examples/models/mixtral-8x7b.json", "{work}/layer.json"
LAYER_TEXT = """{"moec_layer": 1, "name": "small", "num_experts": 4, "top_k": 2, "hidden_size": 64,
"intermediate_size": 32, "in_dtype": "bf16", "routing_method": "renormalize", "activation": "silu"}"""
# One change of the layer JSON each: what is wrong, and texts of the message.
FIELDS = (
    ({"num_experts": None, "num_expert": 4}, "$.num_experts", "got nothing", 'did you mean it by "num_expert"?'),
    ({"top_k": None, "topk": 2}, "$.top_k", 'did you mean it by "topk"?'),
    ({"activation": "silo"}, "$.activation", 'did you mean "silu"?'),
    ({"activation": "swiglu"}, "$.activation", 'did you mean "silu"?'),
    ({"routing_method": "renormalise"}, "$.routing_method", 'did you mean "renormalize"?'),
    ({"in_dtype": "fp16"}, "$.in_dtype", "bf16, f16 or f32", '"fp16"'),
    ({"quant_config": "fp8"}, "$.quant_config", '"fp8_block"', "moec list schemes", 'got the string "fp8"'),
    ({"top_k": 32}, "$.top_k", "from 1 to 4", "got the number 32", "num_experts is 4"),
    ({"hidden_size": 250}, "hidden_size is 250", "multiples of 8"),
    ({"hidden_size": "64"}, "$.hidden_size", "an integer", 'got the string "64"'),
    ({"hidden_size": 64.5}, "$.hidden_size", "an integer", "64.5"),
    ({"num_experts": True}, "$.num_experts", "an integer", "got true"),
    ({"intermediate_size": -32}, "$.intermediate_size", "from 1", "-32"),
    ({"num_experts_per_tok": 2}, "$.num_experts_per_tok", "unknown field", 'did you mean "top_k"?'),
    ({"hidden_sise": 64}, "$.hidden_sise", 'did you mean "hidden_size"?'),
    ({"has_bais": True}, "$.has_bais", 'did you mean "has_bias"?'),
    ({"has_bias": "yes"}, "$.has_bias", "true or false", '"yes"'),
    ({"swiglu_limit": "7"}, "$.swiglu_limit", "a number", '"7"'),
    ({"moe_parallel_config": {"tp": 2}}, "$.moe_parallel_config.tp", "unknown field", 'did you mean "tp_rank" or "tp_size"?'),
    ({"quant_config": "w4a16"}, "$.quant_config", '"int4_w4a16"', "moec list schemes"),
    ({"quant_config": "fp8_blocks"}, "$.quant_config", 'did you mean "fp8_block"?'),
    ({"routing_method": "softmax"}, "$.routing_method", '"renormalize"', 'got the string "softmax"'),
    ({"moec_layer": None, "moe_layer": 1}, 'did you mean "moec_layer" by "moe_layer"?'),
    ({"intermediate_size": 30}, "is 30", "multiples of 8"),
    ({"in_dtype": "BF16"}, "$.in_dtype", "bf16, f16 or f32", '"BF16"'),
    ({"quant_config": {"quant_method": "fp8"}}, "$.quant_config.quant_method", "accepted here", "scheme"),
    ({"moec_layer": 2}, "$.moec_layer", "1", "2"),
)
# The same of a model's config.json.
CONFIG = {"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "hidden_size": 64, "moe_intermediate_size": 32,
          "num_experts": 4, "num_experts_per_tok": 2, "num_hidden_layers": 2, "norm_topk_prob": True, "hidden_act": "silu",
          "torch_dtype": "bfloat16", "decoder_sparse_step": 1, "mlp_only_layers": []}
KEYS = (
    ({"architectures": ["MineForCausalLM"], "model_type": "mine"}, 'unknown architecture "MineForCausalLM"; --as=FAMILY', "moec list families", "layer JSON"),
    ({"architectures": ["Qwen3MoeForCasualLM"]}, "did you mean Qwen3MoeForCausalLM?"),
    ({"quantization_config": {"quant_method": "bitsandbytes"}}, "bitsandbytes", "known: awq", "--scheme=", "moec list schemes"),
    ({"router_temperature": 0.5}, "$.router_temperature", "--ignore-field=router_temperature"),
    ({"num_experts_per_tok": 8}, "$.num_experts_per_tok", "8"),
    ({"num_experts": "4"}, "$.num_experts", "an integer", '"4"'),
)
COMPILE, EXPLAIN, TUNE = (f"moec {word} {MODEL} --arch=sm_90a" for word in ("compile", "explain", "tune"))

# (words, texts of the message)
MISTAKES = (
    # Commands.
    ("moec complie x.json", "'complie'", "did you mean compile?"),
    ("moec expalin x.json", "'expalin'", "did you mean explain?"),
    ("moec lst", "'lst'", "did you mean list?"),
    ("moec --arch=sm_90a compile x.json", "--arch", "moec compile"),
    ("moec compile", "INPUT", "config.json"),
    (f"moec compile {MODEL} other.json --arch=sm_90a", "other.json", "one INPUT", "moec compile --help"),
    ("moec version", "version", "did you mean --version?"),
    ("moec -v", "-v", "did you mean --version?"),
    ("moec doctor foo", "'foo'", "only options", "moec doctor --help"),
    # Options that do not exist.
    (f"{COMPILE} --output=out", "--output;", "did you mean -o?"),
    (f"{COMPILE} -arch=sm_90a", "-arch;", "did you mean --arch?"),
    (f"{COMPILE} --max-token=64", "--max-token;", "did you mean --max-tokens?"),
    (f"moec compile {MODEL} --arhc=sm_90a", "--arhc", "did you mean --arch?"),
    (f"{COMPILE} --no-cubins", "--no-cubins", "did you mean --no-cubin?"),
    (f"{COMPILE} --backends=grouped", "--backends", "did you mean --backend?"),
    (f"{COMPILE} --colour=red", "--colour", "moec compile --help"),
    (f"{COMPILE} --tokens=3", "--tokens", "moec explain"),
    (f"{EXPLAIN} --histogramm=uniform", "--histogramm", "did you mean --histogram?"),
    (f"{TUNE} --token=1", "--token;", "did you mean --tokens?"),
    ("moec-run x --token=3 --device=host", "--token;", "did you mean --tokens?"),
    ("moec-run x --weigths=y --device=host", "--weigths", "did you mean --weights?"),
    ("moec-check x --twise --device=host", "--twise", "did you mean --twice?"),
    ("moec-bench x --repeat=3", "--repeat;", "did you mean --repeats?"),
    ("load-time x --round=3", "--round;", "did you mean --rounds?"),
    ("moec-opt --moe-check-targets x", "moe-check-targets", "--moe-check-target"),
    # Flags with a value.
    (f"{COMPILE} --ep=8", "--ep", "'8'", "whole experts"),
    (f"{COMPILE} --ep=0", "--ep", "'0'", "no value"),
    (f"{COMPILE} --ep=false", "--ep", "'false'", "no value"),
    (f"{COMPILE} --ep 8", "--ep", "'8'", "no value"),
    (f"{COMPILE} --all-ranks=2", "--all-ranks", "'2'", "no value"),
    (f"{COMPILE} --no-cubin=yes", "--no-cubin", "'yes'", "no value"),
    (f"{COMPILE} --no-tuned-store=1", "--no-tuned-store", "'1'", "no value"),
    (f"{EXPLAIN} --json=out.json", "--json", "'out.json'", "no value"),
    (f"{TUNE} --tokens=1 --exhaustive=3", "--exhaustive", "'3'", "no value"),
    ("moec-run x --device=host --check=8", "--check", "'8'", "no value"),
    ("moec-run x --device=host --strict=off", "--strict", "'off'", "no value"),
    ("moec-check x --device=host --chain=2", "--chain", "'2'", "no value"),
    ("moec-bench x --dealt=2", "--dealt", "'2'", "no value"),
    ("load-time x --json=2", "--json", "'2'", "no value"),
    # Options without a value, or with another option for one.
    (f"moec compile {MODEL} --arch", "--arch", "expected a value", "such as sm_80,sm_90a"),
    (f"{COMPILE} --gpu=", "--gpu", "expected a value", "moec list gpus"),
    (f"{COMPILE} -o --no-cubin", "-o", "--no-cubin"),
    (f"{COMPILE} -o=out", "-o", "expected -o out"),
    (f"{COMPILE} --tp=2 --tp=4", "--tp", "expected it once", "2 times"),
    # Values.
    (f"{COMPILE} --tp=two", "--tp", "two", "an integer"),
    (f"{COMPILE} --rank=3", "--rank=3", "--tp, --pcp or --dp"),
    (f"{COMPILE} --weights-dtype=bf16", "--weights-dtype=bf16", "--scheme=NAME"),
    (f"{COMPILE} --rank=one", "--rank", "'one'", "an integer"),
    (f"{COMPILE} --tp=2 --rank=2", "--rank=2", "from 0 to 1"),
    (f"{COMPILE} --max-tokens=0", "--max-tokens", "from 1"),
    (f"{COMPILE} --emit=ptxx", "--emit", "did you mean ptx?"),
    (f"{COMPILE} --scheme=nvfp5", "--scheme=nvfp5", "did you mean nvfp4?"),
    (f"{COMPILE} --scheme=fp8", "--scheme=fp8", "fp8_block"),
    (f"{COMPILE} --dtype=fp16", "--dtype=fp16", "bf16, f16 or f32"),
    (f"{COMPILE} --ignore-field=expert_sise", "--ignore-field", "expert_sise", "one of its keys"),
    (f"{COMPILE} --no-shared-experts", "--no-shared-experts", "no shared experts", "leave the option out"),
    (f"{COMPILE} --layer=99", "--layer=99", "from 0 to 31"),
    (f"{COMPILE} --placement=liner", "--placement=liner", "linear"),
    (f"moec compile {MODEL} --arch=sm90a", "'sm90a'", "did you mean sm_90a?"),
    (f"moec compile {MODEL} --arch=90", "'90'", "did you mean sm_90 or sm_90a?"),
    (f"moec compile {MODEL} --arch=sm_70", "'sm_70'", "too old", "sm_75"),
    (f"moec compile {MODEL} --arch=hopper", "'hopper'", "did you mean sm_90a?", "moec list gpus"),
    (f"moec compile {MODEL} --arch=native", "native", "got none", "such as sm_90a or h100"),
    (f"moec compile {MODEL} --arch=h200,a100", "h200_sxm", "a100_sxm", "sm_80", "--gpu"),
    (f"moec compile {MODEL} --emit=stages", "--arch", "moec list archs"),
    (f"{COMPILE} --gpu=h100_sxn", "'h100_sxn'", "did you mean h100_sxm?"),
    (f"{COMPILE} --gpu=a100", "a100_sxm", "sm_80", "sm_90a"),
    (f"{COMPILE} --engine=wgma", "engine 'wgma'", "did you mean wgmma"),
    (f"{COMPILE} --backend=groupd", "backend 'groupd'", "did you mean grouped?"),
    (f"{COMPILE} --exclude=wgmmma", "'wgmmma'", "did you mean wgmma?"),
    (f"{COMPILE} --allow=weightonly", "'weightonly'", "did you mean weight_only?"),
    (f"{EXPLAIN} --bench=x.json", "--bench", "--html"),
    (f"{EXPLAIN} --histogram=zip:2", "zip:2", "zipf"),
    (f"{TUNE} --tokens=1 --device=gpu", "--device", "'gpu'", "cuda or host"),
    (f"{TUNE} --tokens=1 --budget=soon", "--budget", "'soon'", "seconds above 0"),
    ("moec list scheme", "'scheme'", "did you mean schemes?"),
    (f"moec compile {LAYER} --arch=sm_80 --layer=3", "--layer", "describes one layer"),
    ("moec-run x --device=gpu", "--device", "'gpu'", "host, cuda or emulated"),
    ("moec-run x", "--device=host", "--device=cuda"),
    ("moec-run --device=host", "folder of a package"),
    ("moec-run x --device=host --tokens=many", "--tokens", "many", "an integer"),
    ("moec-run x --device=host --seed=abc", "--seed", "abc", "an integer"),
    ("moec-run x --device=host --seed=-1", "--seed", "-1", "from 0"),
    ("moec-run x --device=host --seed=99999999999999999999", "--seed", "99999999999999999999", "an integer from 0"),
    (f"{TUNE} --tokens=1 --seed=-1", "--seed", "-1", "from 0"),
    ("moec-bench x --seed=-1", "--seed", "-1", "from 0"),
    ("moec-run x --device=host --routing=zipff", "--routing", "zipff", "uniform"),
    ("moec-run x --device=host --layer=3", "--layer", "--weights"),
    ("moec-run x --device=host --no-shared-experts", "--no-shared-experts", "--weights"),
    ("moec-run x --device=host --ignore-tensor=scale", "--ignore-tensor", "--weights"),
    ("moec-run x --prebuild --tokens=3", "--tokens", "--prebuild"),
    ("moec-run x --device=host --input=x", "--input", "NAME=FILE"),
    ("moec-bench x --device=gpu", "--device", "'gpu'", "cuda or host"),
    # GPUs and archs.
    (f"moec compile {MODEL} --arch=h100x", "'h100x'", "did you mean h100?", "moec list archs"),
    (f"{COMPILE} --gpu=a100", "GPU 'a100_sxm' is sm_80", "expected arch sm_80"),
    ("moec cache list --arch=hopper", "'hopper'", "did you mean sm_90a?"),
    ("moec cache list --arch=sm_90b", "'sm_90b'", "did you mean sm_90"),
    ("moec run {work}/small --device=host --arch=sm_80", "no target sm_80", "it has sm_90a"),
    ("moec run {work}/small --device=cuda --tokens=1", "CUDA driver", "--device=host needs no GPU"),
    (f"{TUNE} --tokens=1 --budget=1s", "moec tune measures on a GPU", "schedules that are built in"),
    (f"{TUNE} --tokens=1 --budget=1s --device=host", "say nothing of a GPU", "--out and --log"),
    (f"moec tune {MODEL} --arch=sm_90a,sm_80 --tokens=1 --budget=1s", "one --arch", "got 2"),
    (f"{TUNE} --tokens=1 --budget=1s --device=host --out=/proc/t.json --log={{work}}/none/t.log", "/proc/t.json", "--out"),
    (f"moec compile {MODEL} --arch=Blackwell", "'Blackwell'", "did you mean sm_100a, sm_103a or sm_120a?"),
    (f"moec compile {MODEL} --arch=4090", "'4090'", "did you mean rtx_4090?"),
    (f"moec compile {MODEL} --arch=compute_90a", "'compute_90a'", "did you mean sm_90a?"),
    (f"moec compile {MODEL} --arch=mi300x", "'mi300x'", "an NVIDIA GPU (`moec list gpus`)"),
    ("moec run {work}/small --device=cuda:0", "--device", "host, cuda or emulated", "'cuda:0'"),
    (f"{EXPLAIN} --histogram=hot:0", "--histogram", "a whole number of experts from 1", "'0'"),
    (f"{EXPLAIN} --histogram=hot:9", "at most 8 hot experts", "9"),
    (f"{EXPLAIN} --tokens=1e3", "--tokens", "an integer from 1", "'1e3'"),
    # Inputs that are none.
    ("moec compile {work}/comma.json --arch=sm_90a", "comma.json: line 1", "JSON has no comma after the last element"),
    ("moec compile {work}/comment.json --arch=sm_90a", "comment.json: line 1", "JSON has no comments"),
    ("moec compile {work}/quotes.json --arch=sm_90a", "quotes.json: line 1", "double quotes"),
    ("moec compile {work}/utf16.json --arch=sm_90a", "utf16.json", "UTF-16; save it as UTF-8"),
    ("moec compile {work}/twice.json --arch=sm_90a", "line 1", 'each key once in an object, got "name" twice'),
    ("moec compile {work}/weights.gguf --arch=sm_90a", "a binary file", "moec run --weights"),
    ("moec compile {work}/list.json --arch=sm_90a", "a JSON object, got an array"),
    ("MOEC_CACHE_DIR={work}/layer.json moec cache", "Not a directory", "MOEC_CACHE_DIR"),
    ("moec compile {work}/none.json --arch=sm_90a", "none.json", "No such file"),
    ("moec compile Qwen/Qwen3-30B-A3B --arch=sm_90a", "hf download Qwen/Qwen3-30B-A3B config.json"),
    ("moec compile {work}/empty --arch=sm_90a", "empty", "config.json", "a folder without one"),
    ("moec compile {work}/small --arch=sm_90a", "small", "a package of moec, which is compiled already"),
    ("moec compile {work}/small/manifest.json --arch=sm_90a", "manifest.json", "moec_layer", "architectures"),
    ("moec compile {work}/model/model.safetensors --arch=sm_90a", "JSON", "moec run --weights"),
    ("moec compile {work}/cut.json --arch=sm_90a", "cut.json: line 1, column 100", "expected JSON"),
    # Outputs.
    (f"{COMPILE} --no-cubin -o {{work}}/layer.json", "layer.json", "found a file", "choose another path"),
    (f"{COMPILE} --no-cubin -o {{work}}/model", "without a moec manifest.json", "choose another path"),
    (f"{COMPILE} --no-cubin -o /proc/x", "/proc/x", "a folder in which this user may write"),
    (f"{EXPLAIN} --html={{work}}/empty --bench={{work}}/layer.json", "layer.json", "moec-bench --json"),
    (f"{EXPLAIN} -o {{work}}/none/x.txt", "x.txt", "expected a folder at", "none"),
    (f"{EXPLAIN} -o {{work}}/empty", "empty", "expected the path of a file"),
    (f"{EXPLAIN} --tuned={{work}}/layer.json", "a file that moec tune has written"),
    (f"{EXPLAIN} --tuned={{work}}/none.json", "none.json", "No such file"),
    (f"{EXPLAIN} --histogram={{work}}/layer.json", '{"rows": [...]}'),
    (f"{EXPLAIN} --histogram=zipf:-1", "from 0 to 10", "-1"),
    (f"{EXPLAIN} --tokens=99999999", "from 1 to 65536", "99999999"),
    # Packages and weights.
    ("moec run {work}/none --device=host", "none", "a folder that moec compile has written", "a path where nothing is"),
    ("moec run {work}/layer.json --device=host", "a folder that moec compile has written", "a file"),
    ("moec run {work}/model --device=host", "manifest.json", "has a config.json, which moec compile takes"),
    ("moec run {work}/empty --device=host", "manifest.json", "a folder that moec compile has written"),
    ("moec run {work}/changed --device=host", "SHA-256", ".cu", "compile the package again"),
    ("moec run {work}/older --device=host", "format version 8, got 7", "compile the package"),
    ("moec run {work}/small --device=host --tokens=65", "at most 64 tokens, got 65", "max_tokens of 65 or more"),
    ("moec run {work}/small --device=host '--tokens=1;2'", "--tokens", "an integer", "'1;2'"),
    ("moec run {work}/small --device=host --variant=up_to_9", "'up_to_9'", "it has up_to_"),
    ("moec run {work}/small --device=host --rank=1", "rank 0", "got 1", "all_ranks"),
    ("moec run {work}/ranks --device=host", "ranks 0 and 1", "`rank`", "got none"),
    ("moec run {work}/small --device=host --input=y={work}/layer.json", "'y'", "accepted: x, logits"),
    ("moec run {work}/small --device=host --input=x={work}/layer.json", "layer.json", ".npy file"),
    ("moec run {work}/small --device=host --weights={work}/none", "none", "a model's folder"),
    ("moec run {work}/small --device=host --weights={work}/empty", "*.safetensors", "got neither"),
    ("moec run {work}/small --device=host --weights={work}/layer.json", "a safetensors file"),
    ("moec run {work}/small --device=host --weights={work}/cut", "data_offsets", "bytes"),
    ("moec run {work}/small --device=host --weights={work}/model --layer=7", "layer 7", "expected a layer from 0 to 1"),
    ("moec run {work}/small --device=host --weights={work}/missing", "expert 3, up_proj", "got "),
    ("moec run {work}/wide --device=host --weights={work}/model", "[64, 64]", "got BF16 [32, 64]"),
    ("moec run {work}/codes --device=host --weights={work}/model", "f8E4M3FN", "got BF16", "--quantize"),
    ("moec help compil", "'compil'", "did you mean compile?"),
    ("moec opt {work}/none.mlir", "moec opt: ", "none.mlir", "No such file"),
    ("moec doctor --compile=3", "--compile", "'3'", "no value"),
    ("moec completion", "SHELL", "bash or zsh"),
    ("python -m moec bench", "LAYER", "moec bench --help"),
    ("python -m moec bench {work}/layer.json --tokens=0", "--tokens", "at least 1", "'0'"),
    ("python -m moec bench {work}/layer.json --tokens=1,x", "--tokens", "at least 1", "x"),
    ("python -m moec bench {work}/layer.json --token=1", "--token;", "did you mean --tokens?"),
    ("python -m moec bench {work}/layer.json --systems=vlm", "'vlm'", "did you mean vllm?", "known: torch"),
    ("python -m moec bench {work}/layer.json --scheme=fp8", "fp8", "did you mean fp8_tensor"),
    ("python -m moec bench {work}/layer.json --tp=0", "tp", "from 1", "0"),
    ("python -m moec bench {work}/layer.json --skew=-1", "skew", "0 or more", "-1"),
    ("python -m moec bench {work}/layer.json --csv={work}/none/x.csv", "x.csv", "expected a folder at"),
    ("python -m moec bench {work}/layer.json --tokens", "--tokens", "expected a value, got none"),
    ("python -m moec warmup {work}/layer.json --arch=sm_90a --layer=0", "--layer", "describes one layer"),
    ("python -m moec warmup {work}/none.json --arch=sm_90a", "none.json", "config.json"),
    ("python -m moec warmup {work}/model --arch=sm_90a --layer=9", "layer 9", "from 0 to 1"),
    ("python -m moec warmup {work}/layer.json --arch=sm_90a --max-tokens=0", "max_tokens", "at least 1", "0"),
    *((f"moec compile {{work}}/field-{index}.json --arch=sm_90a", *texts) for index, (_, *texts) in enumerate(FIELDS)),
    *((f"moec explain {{work}}/key-{index}.json --arch=sm_90a", *texts) for index, (_, *texts) in enumerate(KEYS)),
    # Environment variables.
    *((f"MOEC_{name}={word} {command}", f"MOEC_{name}", f"did you mean {right}?")
      for command in (EXPLAIN, COMPILE, f"{TUNE} --tokens=1 --device=host")
      for name, word, right in (("ENGINE", "wgma", "wgmma"), ("BACKEND", "groupd", "grouped"), ("EXCLUDE", "wgmmma", "wgmma"))),
    (f"MOEC_JOBS=x moec compile {LAYER} --arch=sm_80 --max-tokens=1 -o {{work}}/p", "MOEC_JOBS", "'x'", "integer"),
    (f"MOEC_STRICT=maybe moec compile {LAYER} --arch=sm_80 --max-tokens=1 -o {{work}}/p", "MOEC_STRICT", "'maybe'", "1, on"),
    (f"MOEC_NVRTC_PATH=/nowhere MOEC_CACHE_DIR={{work}}/c moec compile {LAYER} --arch=sm_80 --max-tokens=1 -o {{work}}/p",
     "MOEC_NVRTC_PATH", "/nowhere", "libnvrtc.so.N"),
    # The command line of the Python package.
    ("python -m moec warmup x --max-token=64", "--max-token;", "did you mean --max-tokens?"),
    ("python -m moec warmup x --ep=8", "--ep", "'8'", "no value"),
    ("python -m moec warmup x --tp=two", "--tp", "two", "integer"),
    ("python -m moec warmup x --rank=1 --all-ranks", "--all-ranks", "--rank"),
    (f"python -m moec warmup {MODEL} --arch=sm_90a --no-shared-experts", "no_shared_experts", "leave the option out"),
    ("python -m moec warmup", "MODEL", "moec warmup --help"),
    (f"python -m moec warmup {MODEL} --arch=sm_90a --jobs=-1", "jobs is -1", "0 or more"),
    ("python -m moec doctor --jsn", "--jsn", "--json"),
    # Commands that other programs serve.
    ("moec run x --token=3 --device=host", "moec run:", "--token;", "did you mean --tokens?"),
    ("moec check x --device=gpu", "moec check:", "--device", "'gpu'", "host, cuda or emulated"),
    ("moec chek x", "'chek'", "did you mean check?"),
    ("moec bnech x", "'bnech'", "did you mean bench?"),
    ("moec opt --no-such-pass /dev/null", "no-such-pass"),
    ("moec cache lst", "lst", "did you mean list?"),
    ("moec cache trim", "--max-size=SIZE", "--older-than=TIME"),
    ("moec cache trim --max-size=2X", "--max-size", "500M, 2G or 1GiB", "'2X'"),
    ("moec cache clear --max-size=2G", "clear removes all", "moec cache trim"),
    ("moec cache --dry-run", "--dry-run", "moec cache trim"),
    ("moec cache trim --older-than=soon", "--older-than", "such as 30d or 12h", "soon"),
    ("MOEC_CACHE_SIZE=big moec cache", "MOEC_CACHE_SIZE", "'big'"),
    ("moec completion fish", "fish", "bash or zsh"),
    (f"moec compile {LAYER} --arch=sm_80 --emit=cuda --json", "--json", "--emit=cuda"),
    (f"{EXPLAIN} --brief --json", "--brief", "--json"),
    ("python -m moec warmpu x", "'warmpu'", "did you mean warmup?"),
    ("python -m moec complie x", "'complie'", "did you mean compile?"),
    ("python -m moec warmup {work}/layer.json --arch=sm90a", "sm90a", "did you mean sm_90a?"),
)


def safetensors(tensors):
    """The bytes of a file of bf16 zeros: shapes by names."""
    header, end = {}, 0
    for name, shape in tensors.items():
        begin, end = end, end + 2 * shape[0] * shape[1]
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(end)


def changed(described, changes):
    return json.dumps({name: value for name, value in (described | changes).items() if value is not None})


def prepare(work, build):
    """The files that rows name: right ones, and each with one mistake."""
    layer = json.loads(LAYER_TEXT)
    (work / "layer.json").write_text(LAYER_TEXT)
    (work / "cut.json").write_text(LAYER_TEXT.replace("\n", " ")[:99])
    one_line = LAYER_TEXT.replace("\n", " ")
    for name, text in (
        ("comma.json", one_line.replace("}", ",}")),
        ("comment.json", one_line.replace("1,", "1, // one", 1)),
        ("quotes.json", one_line.replace('"', "'")),
        ("twice.json", one_line.replace("{", '{"name": "a", ', 1)),
        ("list.json", "[]"),
    ):
        (work / name).write_text(text)
    (work / "utf16.json").write_text(LAYER_TEXT, encoding="utf-16")
    (work / "weights.gguf").write_bytes(b"GGUF\x03\0\0\0")
    (work / "empty").mkdir()
    for kind, described, rows in (("field", layer, FIELDS), ("key", CONFIG, KEYS)):
        for index, (changes, *_) in enumerate(rows):
            (work / f"{kind}-{index}.json").write_text(changed(described, changes))
    weights = {f"model.layers.{number}.mlp.experts.{expert}.{name}.weight": shape
               for number in range(2) for expert in range(4)
               for name, shape in (("gate_proj", (32, 64)), ("up_proj", (32, 64)), ("down_proj", (64, 32)))}
    whole = safetensors(weights)
    lacking = safetensors({name: shape for name, shape in weights.items() if "layers.0.mlp.experts.3.up_proj" not in name})
    for name, data in (("model", whole), ("cut", whole[:20000]), ("missing", lacking)):
        (work / name).mkdir()
        (work / name / "model.safetensors").write_bytes(data)
    (work / "model" / "config.json").write_text(json.dumps(CONFIG))
    for name, changes, words in (("small", {}, ()), ("wide", {"intermediate_size": 64}, ()), ("codes", {"quant_config": "fp8_channel"}, ()),
                                 ("ranks", {}, ("--tp=2", "--all-ranks"))):
        (work / "input.json").write_text(changed(layer, changes))
        subprocess.run([build / "bin/moec", "compile", work / "input.json", "--arch=sm_90a", "--no-cubin", "--max-tokens=64", *words,
                        "-o", work / name], check=True, stdout=subprocess.DEVNULL)
    for name in ("changed", "older"):
        shutil.copytree(work / "small", work / name)
    with next((work / "changed").rglob("*.cu")).open("a") as file:
        file.write("//\n")
    manifest = json.loads((work / "older/manifest.json").read_text())
    (work / "older/manifest.json").write_text(json.dumps(manifest | {"moec_manifest": 7}))


def run(row, source, build, work):
    """None, or what is wrong with the answer to a mistake."""
    line, texts = row[0].format(work=work), row[1:]
    words = shlex.split(line)
    environment = dict(os.environ)
    while "=" in words[0]:
        name, value = words.pop(0).split("=", 1)
        environment[name] = value
    if words[0] == "python":
        words[0] = sys.executable
        environment |= {"PYTHONPATH": str(source / "python"), "MOEC_LIBRARY": str(build / "lib" / "libmoec.so")}
    else:
        words[0] = str(next(path for path in (build / "bin" / words[0], build / "bench" / words[0]) if path.exists()))
    done = subprocess.run(words, cwd=source, env=environment, capture_output=True, text=True, timeout=120)
    if done.returncode == 0:
        return f"{line}: taken"
    if done.returncode < 0 or done.returncode > 2:
        return f"{line}: exit status {done.returncode}: {done.stderr}"
    if not any(all(text in said for text in texts) for said in done.stderr.splitlines()):
        return f"{line}: no line has {', '.join(map(repr, texts))}: {done.stderr}"
    return f"{line}: printed {done.stdout!r}" if done.stdout else None


def is_built(row, build):
    words = [word for word in shlex.split(row[0]) if not word.startswith("MOEC_")]
    if words[0] == "python":
        return (build / "lib" / "libmoec.so").exists()
    return any((build / place / words[0]).exists() for place in ("bin", "bench"))


def main():
    source, work = (pathlib.Path(word).resolve() for word in sys.argv[1:])
    build = pathlib.Path(shutil.which("moec") or "").resolve().parents[1]
    prepare(work, build)
    before = sorted(work.rglob("*"))
    rows = [row for row in MISTAKES if is_built(row, build)]
    if missing := sorted({shlex.split(row[0])[0] for row in MISTAKES if row not in rows}):
        print("not built:", ", ".join(missing))
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        wrong = [reason for reason in pool.map(lambda row: run(row, source, build, work), rows) if reason]
    if new := [path for path in work.rglob("*") if path not in before and "c" not in path.relative_to(work).parts[:1]]:
        wrong.append(f"written: {', '.join(map(str, new))}")
    print(*wrong, sep="\n")
    print(f"{len(rows)} mistakes, {len(wrong)} wrong")
    sys.exit(1 if wrong or len(rows) < 190 else 0)


main()
