// RUN: moec-opt '--moe-pipeline=archs=sm_90a max-tokens=64 emit=stages' %s | FileCheck %s
// RUN: moec-opt '--moe-pipeline=archs=sm_80 max-tokens=64 emit=stages' %s | FileCheck %s

// Up to 8 tokens of weights in the order of fragments: two kernels.
// CHECK-LABEL: moe.program @fragments
// CHECK-NOT: engine = gemv
// CHECK: moe.variant @up_to_8 tokens[1, 8] engine "gemv"
moe.layer @fragments {num_experts = 8, top_k = 2, hidden_size = 384, intermediate_size = 256,
  in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<int4_w4a16>,
  routing = #moe.routing<renormalize_naive>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// Groups of 16 take long to convert: up to 2 tokens.
// CHECK-LABEL: moe.program @sixteens
// CHECK: moe.variant @up_to_2 tokens[1, 2] engine "gemv"
moe.layer @sixteens {num_experts = 8, top_k = 2, hidden_size = 384, intermediate_size = 256,
  in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<nvfp4_w4a16>,
  routing = #moe.routing<renormalize_naive>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// Up to 8 tokens of large experts: 64 Mi elements in the first weight.
// CHECK-LABEL: moe.program @large
// CHECK: moe.variant @up_to_8 tokens[1, 8] engine "gemv"
moe.layer @large {num_experts = 8, top_k = 2, hidden_size = 4096, intermediate_size = 8192,
  in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<nvfp4_w4a16>,
  routing = #moe.routing<renormalize_naive>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// CHECK-LABEL: moe.program @nearly_large
// CHECK: moe.variant @up_to_2 tokens[1, 2] engine "gemv"
moe.layer @nearly_large {num_experts = 8, top_k = 2, hidden_size = 4096, intermediate_size = 8128,
  in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<nvfp4_w4a16>,
  routing = #moe.routing<renormalize_naive>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// Sizes that are no multiples of 64 leave weights in rows.
// CHECK-LABEL: moe.program @rows
// CHECK-SAME: <backend = grouped, engine = gemv, realization = dequantized, computed = w4a16, code = "layout_not_supported", reason = "engine 'gemv' converts weights in the order of fragments, and engine 'mma_sync' reads rows">
// CHECK-NOT: engine "gemv"
moe.layer @rows {num_experts = 8, top_k = 2, hidden_size = 384, intermediate_size = 288,
  in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<mxfp4_w4a16>,
  routing = #moe.routing<renormalize_naive>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}
