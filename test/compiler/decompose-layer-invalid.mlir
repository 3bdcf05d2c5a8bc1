// RUN: moec-opt --moe-decompose-layer=arch=sm_90a %s -split-input-file -verify-diagnostics
// RUN: not moec-opt "--moe-decompose-layer=arch=sm_90a max-tokens=0" %s 2>&1 | FileCheck %s
// RUN: not moec-opt --moe-resolve-parallel --moe-infer-routing --moe-decompose-layer %s 2>&1 | FileCheck %s --check-prefix=ARCH

// ARCH: error: layer @l has no program, and no arch is specified; expected arch=NAME

// CHECK: error: max-tokens must be at least 1, got 0

// expected-error@+1 {{what this rank holds of layer @l is not resolved; run moe-resolve-parallel first}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{layer @spread refused [option_not_supported]: the experts of a rank must follow each other, got a stride of 2; accepted: placement = linear}}
moe.layer @spread {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 64, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 2, ep, placement = round_robin>,
  intermediate_size_per_partition = 64, local_begin = 0, local_experts = 4, local_stride = 2, w2_bias = true}

// -----

// expected-error@+1 {{layer @emulated refused [scheme_not_supported]: part quantize: on sm_90a this layer emulates activations: x becomes numbers of 16 bits at once, and no codes; accepted: schemes that the support matrix calls native or dequantized there}}
moe.layer @emulated {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, quant = #moe.quant<mxfp8>, part = "quantize",
  intermediate_size_per_partition = 768, local_begin = 0, local_experts = 128, w2_bias = true}
