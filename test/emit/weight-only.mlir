// RUN: moec compile %s --arch=sm_90a --max-tokens=64 --emit=cuda | FileCheck %s
// RUN: sed 's/nvfp4_w4a16/int4_zp_w4a16/' %s | moec compile - --arch=sm_90a --max-tokens=64 --emit=cuda | FileCheck %s --check-prefix=ZERO
// RUN: rm -rf %t && moec compile %s --arch=sm_90a --max-tokens=64 --no-cubin -o %t && FileCheck %s --check-prefix=MANIFEST < %t/manifest.json

// Codes stay codes until they are in shared memory; what they stand for is said
// by the Config. The kernels that pack move bytes: 168 of a row of 336.
// CHECK-LABEL: gate_up.cu
// CHECK: const moe::e2m1 *rhs;
// CHECK-NEXT: const moe::e4m3 *rhs_scale;
// CHECK-NEXT: const float *rhs_second_scale;
// CHECK: using Input = moe::bf16;
// CHECK-NEXT: using Weight = moe::e2m1;
// CHECK: using Quant = moe::quant::WeightOnly;
// CHECK-NEXT: using Scale = moe::e4m3;
// CHECK-NEXT: static constexpr int kScaleRows = 1;
// CHECK-NEXT: static constexpr int kScaleColumns = 16;
// CHECK-NEXT: static constexpr bool kZeroPoint = false;
// CHECK-NEXT: static constexpr bool kSecondScale = true;
// CHECK: using Mma = moe::mma::MmaSync<moe::bf16>;
// CHECK-LABEL: pack_copy.cu
// CHECK: const unsigned char *source;
// CHECK: static constexpr int kColumns = 168;

// ZERO: const moe::i4 *rhs;
// ZERO-NEXT: const moe::bf16 *rhs_scale;
// ZERO-NEXT: const moe::i8 *rhs_zero_point;
// ZERO: static constexpr int kScaleColumns = 128;
// ZERO-NEXT: static constexpr bool kZeroPoint = true;
// ZERO-NEXT: static constexpr bool kSecondScale = false;

// MANIFEST-DAG: "name": "w13_second_scale"
// MANIFEST-DAG: "rhs_second_scale": "rhs_second_scale"
// MANIFEST-DAG: "rhs_group_columns": 16
// MANIFEST-DAG: "realization": "dequantized"

moe.layer @codes {num_experts = 8, top_k = 2, hidden_size = 336, intermediate_size = 208,
  in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<nvfp4_w4a16>,
  routing = #moe.routing<renormalize_naive>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}
