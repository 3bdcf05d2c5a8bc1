// RUN: moec compile %s --arch=sm_90a --engine=mma_sync --max-tokens=64 --emit=cuda | FileCheck %s
// RUN: rm -rf %t && moec compile %s --arch=sm_90a --engine=mma_sync --max-tokens=64 --no-cubin -o %t
// RUN: FileCheck %s --check-prefix=MANIFEST < %t/manifest.json

// All that a generated file holds: two includes, Args, Config, what both sides
// assert, one entry.

// CHECK: ---- sm_90a/{{.*}}gate_up.cu
// CHECK-NEXT: #include "moe/kernel/grouped_matmul.cuh"
// CHECK-NEXT: #include "moe/matmul/atom/mma_sync.cuh"
// CHECK: struct Args {
// CHECK-NEXT: const moe::bf16 *lhs;
// CHECK-NEXT: long long lhs_row_stride;
// CHECK-NEXT: const int *rows;
// CHECK-NEXT: const int4 *tiles;
// CHECK-NEXT: const int *tile_count;
// CHECK-NEXT: const moe::bf16 *rhs;
// CHECK-NEXT: moe::bf16 *result;
// CHECK-NEXT: };
// CHECK-NEXT: static_assert(sizeof(Args) == 56 &&
// CHECK: __INTADDR__(&((Args *)0)->rows) == 16 &&
// CHECK: "manifest and kernel disagree on the argument block");
// CHECK: struct Config {
// CHECK-NEXT: using Args = ::Args;
// CHECK-NEXT: static constexpr int kThreads = [[THREADS:[0-9]+]];
// CHECK-NEXT: static constexpr bool kProgrammatic = true;
// CHECK-NEXT: static constexpr bool kCpAsync = true;
// CHECK-NEXT: using Input = moe::bf16;
// CHECK-NEXT: using Weight = moe::bf16;
// CHECK-NEXT: using Result = moe::bf16;
// CHECK-NEXT: using Quant = moe::quant::None;
// CHECK-NEXT: using Activation = moe::activation::Gated<moe::activation::Silu>;
// CHECK-NEXT: using Mma = moe::mma::MmaSync<moe::bf16>;
// CHECK-NEXT: struct Schedule {
// CHECK-NEXT: static constexpr int kTileM = 16;
// CHECK: static constexpr int kN = 64;
// CHECK-NEXT: static constexpr int kK = 64;
// CHECK-NEXT: static constexpr int kExperts = 8;
// CHECK-NEXT: static constexpr int kPairs = 2;
// CHECK-NEXT: static constexpr bool kGather = true;
// CHECK-NEXT: static constexpr bool kBias = false;
// CHECK-NEXT: static constexpr int kInterleave = 8;
// CHECK-NEXT: static constexpr bool kTilesEarly = false;
// CHECK: static_assert(moe::sharedBytes<Config>() == {{[0-9]+}},
// CHECK-NEXT: "manifest and kernel disagree on shared memory");
// CHECK: extern "C" __global__ void __launch_bounds__([[THREADS]], {{[0-9]+}})
// CHECK-NEXT: moec_grouped_matmul_bf16_16x{{[0-9]+x[0-9]+_[0-9a-f]+}}(const __grid_constant__ Args args) {
// CHECK-NEXT: moe::groupedMatmul<Config>(args);
// CHECK-NEXT: }

// MANIFEST: "max_tokens": 64
// MANIFEST: "rows": "tokens * 2"

moe.layer @tiny {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32,
  in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>,
  routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}
