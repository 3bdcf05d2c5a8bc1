// RUN: moec compile %s --arch=sm_90a --max-tokens=64 --emit=cuda | FileCheck %s
// RUN: rm -rf %t && moec compile %s --arch=sm_90a --max-tokens=64 --no-cubin -o %t && FileCheck %s --check-prefix=MANIFEST < %t/manifest.json
// RUN: moec-check %t --device=host --check --tokens=1,40

// A cap of the logits is a policy around the score, of layers that have one.
// CHECK: ---- sm_90a/up_to_4_route_gate_up.cu
// CHECK: #include "moe/math/softcap.cuh"
// CHECK: struct Cap {
// CHECK-NEXT: static constexpr float kSoftcap = 0x1p+1f;
// CHECK: using Score = moe::routing::Softcapped<moe::routing::Sigmoid, Cap>;
// MANIFEST: "softcap": 2.0
moe.layer @laguna {num_experts = 64, top_k = 6, hidden_size = 64, intermediate_size = 32,
  in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>,
  routing = #moe.routing<deepseek_v3, scale = 2.5, bias, softcap = 2.0>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}
