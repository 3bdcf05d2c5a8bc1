// RUN: moec compile %s --arch=sm_90a --max-tokens=4096 --emit=cuda | FileCheck %s
// RUN: rm -rf %t && moec compile %s --arch=sm_90a --max-tokens=4096 --no-cubin -o %t
// RUN: FileCheck %s --check-prefix=MANIFEST < %t/manifest.json
// RUN: FileCheck %s --check-prefix=REPORT < %t/manifest.json
// RUN: sed 's/<fp8_block>/<fp8_block_ue8m0>/' %s | moec compile - --arch=sm_90a --max-tokens=64 --emit=cuda | FileCheck %s --check-prefix=POWERS
// RUN: moec compile %s --arch=sm_90 --max-tokens=64 --emit=cuda | FileCheck %s --check-prefix=PLAIN

// Operands of 8 bits: engine wgmma for every tile, rows of 128 elements, and at
// most 128 rows a tile, where tokens are the rows of an instruction.
// Tensor maps count bytes. Without wgmma there is another. Rows of the second
// matmul come by a map, too, where tiles have 128.

// CHECK: ---- sm_90a/up_to_128_down.cu
// CHECK: moe::TensorMap lhs;
// CHECK-NEXT: const int4 *tiles;
// CHECK: ---- sm_90a/up_to_128_gate_up.cu
// CHECK: using Mma = moe::mma::Wgmma<moe::e4m3, false, 1, 256>;
// CHECK-NEXT: struct Schedule {
// CHECK-NEXT: static constexpr int kTileM = 128;
// CHECK-NEXT: static constexpr int kTileN = 256;
// CHECK: using Scaling = moe::quant::Group128;
// CHECK: ---- sm_90a/up_to_32_gate_up.cu
// CHECK: const float *lhs_scale;
// CHECK-NEXT: const float *rhs_scale;
// CHECK: using Quant = moe::quant::Fp8Block;
// CHECK: using Mma = moe::mma::Wgmma<moe::e4m3>;
// CHECK-NEXT: struct Schedule {
// CHECK-NEXT: static constexpr int kTileM = 32;
// CHECK-NEXT: static constexpr int kTileN = 256;
// CHECK-NEXT: static constexpr int kTileK = 128;
// PLAIN: moe::mma::MmaSync<moe::e4m3>

// Powers of two: weight scales become f32 when they are packed, scales of
// groups are raised to them; all else is the same.
// POWERS: ---- sm_90a/up_to_1_down_combine.cu
// POWERS: const float *rhs_scale;
// POWERS: using Scaling = moe::quant::PowerGroup128;
// POWERS: ---- sm_90a/up_to_32_gate_up.cu
// POWERS: const float *lhs_scale;
// POWERS-NEXT: const float *rhs_scale;
// POWERS: using Quant = moe::quant::Fp8Block;
// POWERS: using Mma = moe::mma::Wgmma<moe::e4m3>;
// POWERS: using Scaling = moe::quant::PowerGroup128;
// POWERS: ---- sm_90a/up_to_32_route_permute.cu
// POWERS: using Scaling = moe::quant::PowerGroup128;
// POWERS: ---- sm_90a/w13_scale_pack_stored.cu
// POWERS: static constexpr int kRows = 4;
// POWERS-NEXT: static constexpr int kColumns = 3;
// POWERS-NEXT: static constexpr int kBits = 32;
// POWERS-NEXT: static constexpr int kStoredBits = 8;
// POWERS: static constexpr bool kPowers = true;

// MANIFEST: "name": "w13_packed_256x128",
// MANIFEST-NEXT: "value": "w13_packed",
// MANIFEST-NEXT: "element_type": "f8E4M3FN",
// MANIFEST-NEXT: "extents": [336, 416, 8],
// MANIFEST-NEXT: "strides": [336, 139776],
// MANIFEST-NEXT: "box": [128, 256, 1],
// MANIFEST: "name": "t_q_64x128",
// MANIFEST-NEXT: "value": "t_q",
// MANIFEST-NEXT: "element_type": "f8E4M3FN",
// MANIFEST-NEXT: "extents": [208, "rows"],
// MANIFEST-NEXT: "strides": [208],
// MANIFEST-NEXT: "box": [128, 64],
// REPORT-DAG: "engine": "wgmma"
// REPORT-DAG: "realization": "native"

moe.layer @blocks {num_experts = 8, top_k = 2, hidden_size = 336, intermediate_size = 208,
  in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<fp8_block>,
  routing = #moe.routing<renormalize_naive>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}
