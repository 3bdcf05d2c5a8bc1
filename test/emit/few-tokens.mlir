// RUN: moec compile %s --arch=sm_90a --max-tokens=64 --emit=cuda | FileCheck %s
// RUN: rm -rf %t && moec compile %s --arch=sm_90a --max-tokens=64 --no-cubin -o %t && FileCheck %s --check-prefix=MANIFEST < %t/manifest.json
// RUN: not moec explain %s --arch=sm_90a --engine=gemv 2>&1 | FileCheck %s --check-prefix=FORCED
// RUN: moec explain %s --arch=sm_90a --engine=mma_sync | FileCheck %s --check-prefix=ANOTHER
// RUN: moec explain %s --arch=sm_75 | FileCheck %s --check-prefix=TURING

// One token of an fp8 layer: two kernels, which quantize for themselves.
// CHECK: ---- sm_90a/up_to_1_down_combine.cu
// CHECK: #include "moe/kernel/down_combine.cuh"
// CHECK: const float *lhs;
// CHECK-NEXT: const moe::e4m3 *rhs;
// CHECK-NEXT: const float *rhs_scale;
// CHECK-NEXT: moe::bf16 *out;
// CHECK: using Scaling = moe::quant::Group128;
// CHECK-NEXT: using Input = float;
// CHECK: static constexpr int kStages = 8;
// CHECK: static constexpr bool kRouteEarly = true;
// The other kernel's CTAs find room beside this one's.
// CHECK: __launch_bounds__(512, 2)
// CHECK: ---- sm_90a/up_to_1_route_gate_up.cu
// CHECK: int *ids;
// CHECK-NEXT: float *weights;
// CHECK-NEXT: int *counts;
// CHECK-NEXT: const moe::bf16 *lhs;
// CHECK-NEXT: long long lhs_row_stride;
// CHECK: using Activation = moe::activation::Gated<moe::activation::Silu>;
// CHECK: static constexpr int kTokens = 1;
// CHECK: moe::routeGateUp<Config>(args);

// MANIFEST: "data": "%lhs"
// MANIFEST: "lhs_scale": "%lhs_scale"
// MANIFEST: "result": "%partials"

// FORCED: [few_tokens_only]: engine 'gemv' supports at most 8 tokens and needs another engine for more; it is used automatically if no engine is requested
// ANOTHER-NOT: gemv
// ANOTHER: variant up_to_32: 1 to 32 tokens
// TURING: native w8a8, grouped with gemv: refused [feature_missing]: engine 'gemv' needs mma_sync, which sm_75 lacks
// TURING: variant up_to_32: 1 to 32 tokens

moe.layer @blocks {num_experts = 8, top_k = 2, hidden_size = 336, intermediate_size = 208,
  in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<fp8_block>,
  routing = #moe.routing<renormalize_naive>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}
