// RUN: moec compile %s --arch=sm_90a --max-tokens=64 --emit=cuda | FileCheck %s
// RUN: rm -rf %t && moec compile %s --arch=sm_90a --max-tokens=64 --no-cubin -o %t
// RUN: moec-check %t --device=host --check --tokens=1,40

// CHECK: ---- sm_90a/up_to_4_route_gate_up.cu
// CHECK: #include "moe/math/relu.cuh"
// CHECK: using Activation = moe::activation::Gated<moe::activation::Relu>;
moe.layer @reglu {num_experts = 8, top_k = 2, hidden_size = 96, intermediate_size = 176,
  in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>,
  routing = #moe.routing<renormalize>, activation = #moe.activation<relu>, parallel = #moe.parallel<>}
