// RUN: moec compile %s --arch=sm_90a --max-tokens=64 --emit=cuda | FileCheck %s
// RUN: rm -rf %t && moec compile %s --arch=sm_90a --max-tokens=64 --no-cubin -o %t
// RUN: moec-check %t --device=host --check --tokens=1,40

// An activation of one value may have numbers, too.
// CHECK: ---- sm_90a/up_to_4_route_gate_up.cu
// CHECK: #include "moe/math/clamped_relu2.cuh"
// CHECK: static constexpr float kLimit = 0x1.8p+0f;
// CHECK: using Activation = moe::activation::ClampedRelu2<moe::activation::OfLayer<Numbers>>;
moe.layer @clamped {num_experts = 8, top_k = 2, hidden_size = 96, intermediate_size = 176,
  in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>,
  routing = #moe.routing<renormalize>, activation = #moe.activation<clamped_relu2_no_mul, limit = 1.5>, parallel = #moe.parallel<>}
