// RUN: moec compile %s --arch=sm_90a --max-tokens=64 --emit=cuda | FileCheck %s
// RUN: rm -rf %t && moec compile %s --arch=sm_90a --max-tokens=64 --no-cubin -o %t && FileCheck %s --check-prefix=MANIFEST < %t/manifest.json
// RUN: moec-check %t --device=host --check --tokens=1,40
// RUN: moec explain %s --arch=sm_90a | FileCheck %s --check-prefix=EXPLAIN
// RUN: moec compile %s --arch=sm_90a --max-tokens=64 --emit=stages | FileCheck %s --check-prefix=STAGES

// Constant experts are among those that are chosen, and have no rows.
// CHECK: ---- sm_90a/up_to_16_combine_constants.cu
// CHECK: #include "moe/kernel/combine_constants.cuh"
// CHECK: const int *topk_ids;
// CHECK-NEXT: const float *constants;
// CHECK: static constexpr int kExperts = 16;
// CHECK: ---- sm_90a/up_to_16_route_permute.cu
// CHECK: static constexpr int kExperts = 21;
// CHECK: static constexpr int kLocalExperts = 16;
// MANIFEST: "num_constant_experts": 5
// EXPLAIN: grouped with gemv: refused [stage_not_supported]: engine 'gemv' has no kernel that does stage 'combine_constants'
// STAGES: moe.combine_constants experts = 16 {{.*}} constants %constant_experts :
moe.layer @novices {num_experts = 16, top_k = 6, hidden_size = 64, intermediate_size = 32, num_constant_experts = 5,
  in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>,
  routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}
