// RUN: moec compile %s --arch=sm_90a --engine=wgmma --max-tokens=64 --emit=cuda | FileCheck %s
// RUN: rm -rf %t && moec compile %s --arch=sm_90a --engine=wgmma --max-tokens=64 --no-cubin -o %t
// RUN: FileCheck %s --check-prefix=MANIFEST < %t/manifest.json
// RUN: moec compile %s --arch=sm_90a --max-tokens=1024 --emit=cuda | FileCheck %s --check-prefix=MIXED

// Engine wgmma reads weights by a tensor map, which is an argument by value; its
// warps have roles; and its grid is persistent: CTAs take tiles by a cursor. The
// second matmul runs beside the end of the first one, on row tiles of which that
// one has counted all column tiles.

// CHECK: ---- sm_90a/{{.*}}down.cu
// CHECK: static constexpr int kCursor = 2;
// CHECK-NEXT: static constexpr bool kCounts = false;
// CHECK-NEXT: static constexpr int kAwaited = 1;
// CHECK: ---- sm_90a/{{.*}}gate_up.cu
// CHECK: struct Args {
// CHECK-NEXT: const moe::bf16 *lhs;
// CHECK-NEXT: long long lhs_row_stride;
// CHECK-NEXT: const int *rows;
// CHECK-NEXT: int4 *tiles;
// CHECK-NEXT: int *tile_count;
// CHECK-NEXT: moe::TensorMap rhs;
// CHECK-NEXT: moe::bf16 *result;
// CHECK-NEXT: };
// CHECK-NEXT: static_assert(sizeof(Args) == 256 &&
// CHECK: __INTADDR__(&((Args *)0)->rhs) == 64 &&
// CHECK-NEXT: __INTADDR__(&((Args *)0)->result) == 192,
// CHECK: static constexpr int kThreads = 384;
// CHECK: using Mma = moe::mma::Wgmma<moe::bf16>;
// CHECK-NEXT: struct Schedule {
// CHECK-NEXT: static constexpr int kTileM = 64;
// CHECK-NEXT: static constexpr int kTileN = 128;
// CHECK-NEXT: static constexpr int kTileK = 64;
// CHECK-NEXT: static constexpr int kStages = 9;
// CHECK-NEXT: static constexpr int kGroupM = 1;
// CHECK-NEXT: static constexpr int kProducerWarps = 4;
// CHECK-NEXT: static constexpr int kConsumerWarps = 8;
// CHECK-NEXT: static constexpr int kProducerRegisters = 56;
// CHECK-NEXT: static constexpr int kConsumerRegisters = 224;
// CHECK-NEXT: static constexpr int kCtasPerSm = 1;
// CHECK-NEXT: };
// CHECK-NEXT: static constexpr int kCursor = 1;
// CHECK-NEXT: static constexpr bool kCounts = true;
// CHECK-NEXT: static constexpr int kAwaited = 0;
// CHECK: extern "C" __global__ void __launch_bounds__(384, 1)

// MANIFEST: "alignment": 64,
// MANIFEST: "kind": "tensor_map", "tensor_map": "w13_packed_128x64"
// MANIFEST: "tensor_maps": [
// MANIFEST: "name": "w13_packed_128x64",
// MANIFEST-NEXT: "value": "w13_packed",
// MANIFEST-NEXT: "element_type": "bf16",
// MANIFEST-NEXT: "extents": [64, 64, 8],
// MANIFEST-NEXT: "strides": [128, 8192],
// MANIFEST-NEXT: "box": [64, 128, 1],
// MANIFEST-NEXT: "element_strides": [1, 1, 1],
// MANIFEST-NEXT: "interleave": "none",
// MANIFEST-NEXT: "swizzle": "128b",
// MANIFEST-NEXT: "l2_promotion": "256b",
// MANIFEST-NEXT: "out_of_bounds_fill": "zeros"
// MANIFEST: "persistent": true, "tiles": "min(rows, ceildiv(rows, 64) + 8)", "ctas_per_sm": 1

// Not forced, the same; both read the same weights.
// MIXED: ---- sm_90a/up_to_1024_gate_up.cu
// MIXED: moe::mma::Wgmma<moe::bf16>
// MIXED: static constexpr int kTileM = 256;
// MIXED: ---- sm_90a/up_to_32_gate_up.cu
// MIXED: moe::mma::Wgmma<moe::bf16>
// MIXED: static constexpr int kTileM = 64;

moe.layer @tiny {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32,
  in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>,
  routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}
