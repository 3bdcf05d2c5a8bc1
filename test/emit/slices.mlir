// RUN: moec compile %s --arch=sm_90a --max-tokens=8192 --emit=cuda | FileCheck %s
// RUN: rm -rf %t && moec compile %s --arch=sm_90a --max-tokens=8192 --no-cubin -o %t && FileCheck %s --check-prefix=MANIFEST < %t/manifest.json
// RUN: moec explain %s --arch=sm_90a --max-tokens=8192 | FileCheck %s --check-prefix=EXPLAIN
// RUN: moec explain %s --arch=sm_90a --max-tokens=8192 --engine=mma_sync | FileCheck %s --check-prefix=ANOTHER

// The second matmul and combine as one kernel.
// CHECK: ---- sm_90a/slices_up_to_4096_permute.cu
// CHECK: static constexpr int kCounters = 8;
// CHECK: ---- sm_90a/slices_up_to_8192_down_slices.cu
// CHECK: #include "moe/kernel/down_slices.cuh"
// CHECK: const moe::e4m3 *lhs;
// CHECK-NEXT: const int4 *tiles;
// CHECK-NEXT: int *tile_count;
// CHECK: const float *lhs_scale;
// CHECK-NEXT: const float *rhs_scale;
// CHECK-NEXT: moe::bf16 *partials;
// CHECK-NEXT: const int *positions;
// CHECK-NEXT: const float *topk_weights;
// CHECK-NEXT: int tokens;
// CHECK-NEXT: moe::bf16 *out;
// CHECK: static constexpr int kBuffers = 2;
// CHECK: static constexpr bool kTilesEarly = true;
// CHECK-NEXT: static constexpr int kRows = 512;
// CHECK-NEXT: static constexpr int kTokens = 63;
// CHECK: moe::downSlices<Config>(args);
// The partial sums of two slices, by a cooperative launch.
// MANIFEST: "counters": 8
// MANIFEST: "cooperative": true
// MANIFEST: "result": "%partials"
// MANIFEST: "min_sms": 132
// MANIFEST: "bytes": "rows * 768"
// MANIFEST: "min_sms": 132

// EXPLAIN: variant slices_up_to_4096: 3077 to 4096 tokens, on 132 SMs or more
// EXPLAIN: variant slices_up_to_8192: 4097 to 8192 tokens, on 132 SMs or more
// EXPLAIN: down_slices {{ *}}grouped_matmul, combine
// EXPLAIN: variant up_to_8192: 257 to 8192 tokens, workspace
// ANOTHER-NOT: slices

moe.layer @deepseek {num_experts = 256, top_k = 8, hidden_size = 7168, intermediate_size = 256,
  in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<fp8_block>,
  routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}
