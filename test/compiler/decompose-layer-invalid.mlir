// RUN: moec-opt --moe-decompose-layer=arch=sm_90a %s -split-input-file -verify-diagnostics
// RUN: not moec-opt "--moe-decompose-layer=arch=sm_90a max-tokens=0" %s 2>&1 | FileCheck %s

// CHECK: error: max-tokens must be at least 1, got 0

// expected-error@+1 {{what this rank holds of layer @l is not resolved; run moe-resolve-parallel first}}
moe.layer @l {experts = 128, top_k = 8, hidden = 2048, intermediate = 768, input_type = bf16, output_type = bf16, logits_type = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}
