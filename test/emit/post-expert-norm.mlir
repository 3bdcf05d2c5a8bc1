// RUN: moec compile %s --arch=sm_90a --max-tokens=64 --emit=cuda | FileCheck %s
// RUN: rm -rf %t && moec compile %s --arch=sm_90a --max-tokens=64 --no-cubin -o %t && FileCheck %s --check-prefix=MANIFEST < %t/manifest.json
// RUN: moec-check %t --device=host --check --tokens=1,40
// RUN: moec explain %s --arch=sm_90a | FileCheck %s --check-prefix=EXPLAIN
// RUN: moec compile %s --arch=sm_90a --max-tokens=64 --emit=stages | FileCheck %s --check-prefix=STAGES

// The logit has its factor before its cap, and a norm stands before the sum.
// CHECK: ---- sm_90a/up_to_16_combine_normed.cu
// CHECK: #include "moe/kernel/combine_normed.cuh"
// CHECK: struct Args {
// CHECK-NEXT: const float *partials;
// CHECK-NEXT: const int *positions;
// CHECK-NEXT: const float *topk_weights;
// CHECK-NEXT: const float *norm_weight;
// CHECK-NEXT: int tokens;
// CHECK-NEXT: moe::bf16 *out;
// CHECK-NEXT: const moe::bf16 *residual;
// CHECK: static constexpr float kEpsilon = 0x1p-3f;
// CHECK: ---- sm_90a/up_to_16_route_permute.cu
// CHECK: #include "moe/math/softcap.cuh"
// CHECK-NEXT: #include "moe/math/logit_scale.cuh"
// CHECK-NEXT: #include "moe/math/sum_epsilon.cuh"
// CHECK: static constexpr float kSoftcap = 0x1p+1f;
// CHECK: static constexpr float kLogitScale = 0x1p-1f;
// CHECK: using Score = moe::routing::ScaledLogit<moe::routing::Softcapped<moe::routing::Sigmoid, Cap>, LogitScale>;
// CHECK: static constexpr float kEpsilon = 0x1p-2f;
// CHECK: using Normalize = moe::routing::SumWith<Epsilon>;
// MANIFEST: "post_expert_norm_eps": 0.125
// MANIFEST: "epsilon": 0.25
// MANIFEST: "logit_scale": 0.5
// EXPLAIN: grouped with gemv: refused [stage_not_supported]: engine 'gemv' has no kernel that does stage 'combine_normed'
// STAGES: moe.combine_normed epsilon = 1.250000e-01 {{.*}} norm %post_expert_norm residual %residual
moe.layer @spark {num_experts = 16, top_k = 6, hidden_size = 64, intermediate_size = 32, post_expert_norm_eps = 0.125, residual,
  in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>,
  routing = #moe.routing<deepseek_v3, scale = 2.5, bias, softcap = 2.0, logit_scale = 0.5, epsilon = 0.25>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}
