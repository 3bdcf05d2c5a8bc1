// RUN: moec compile %s --arch=sm_90a --max-tokens=64 --emit=cuda | FileCheck %s
// RUN: rm -rf %t && moec compile %s --arch=sm_90a --max-tokens=64 --no-cubin -o %t
// RUN: moec-check %t --device=host --check --tokens=1,40

// The header of an activation that few have stands in its kernels alone; an
// activation with numbers has them in Config.
// CHECK: ---- sm_90a/up_to_4_route_gate_up.cu
// CHECK: #include "moe/math/powlu.cuh"
// CHECK: static constexpr float kAlpha = 0x1.4p+1f;
// CHECK: static constexpr float kLimit = 0x1.cp+2f;
// CHECK: using Activation = moe::activation::PowLu<moe::activation::OfLayer<Numbers>>;
moe.layer @powlu {num_experts = 8, top_k = 2, hidden_size = 96, intermediate_size = 176,
  in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>,
  routing = #moe.routing<renormalize>, activation = #moe.activation<powlu, limit = 7.0>, parallel = #moe.parallel<>}
