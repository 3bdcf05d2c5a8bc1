// RUN: moec compile %s --arch=sm_120f --max-tokens=64 --emit=cuda | FileCheck %s
// RUN: sed 's/<nvfp4>/<mxfp4_mxfp8>/' %s | moec compile - --arch=sm_121f --max-tokens=64 --emit=cuda | FileCheck %s --check-prefix=MIXED
// RUN: rm -rf %t && moec compile %s --arch=sm_120f --max-tokens=64 --no-cubin -o %t && FileCheck %s --check-prefix=MANIFEST < %t/manifest.json

// Codes and scales are what is multiplied; two codes of 4 bits are one element,
// so sizes along k are halves. Second scales multiply the sums. Scales that are
// no powers of two follow from t in a launch of its own, others in the epilogue.
// CHECK-LABEL: down.cu
// CHECK: const moe::e2m1x2 *lhs;
// CHECK: const moe::e2m1x2 *rhs;
// CHECK-NEXT: const moe::e4m3 *lhs_scale;
// CHECK-NEXT: const moe::e4m3 *rhs_scale;
// CHECK-NEXT: const float *rhs_second_scale;
// CHECK-NEXT: const float *lhs_second_scale;
// CHECK: using Input = moe::e2m1x2;
// CHECK: using Quant = moe::quant::Blocks;
// CHECK-NEXT: static constexpr bool kSecondScale = true;
// CHECK-NEXT: static constexpr int kLhsSecondScales = 8;
// CHECK: using Mma = moe::mma::MmaSyncScaled<moe::e2m1x2, moe::e4m3, moe::e2m1x2>;
// CHECK: static constexpr int kTileK = 128;
// CHECK: static constexpr int kK = 64;
// CHECK-LABEL: quantize_t.cu
// CHECK: const float *static_second_scale;
// CHECK: moe::e2m1 *data;
// CHECK-NEXT: moe::e4m3 *scale;
// CHECK: using Scaling = moe::quant::Encoded<moe::quant::TwoLevels<moe::e2m1, 16, false>>;

// MIXED-LABEL: gate_up.cu
// MIXED: const moe::e4m3 *lhs;
// MIXED: const moe::e2m1 *rhs;
// MIXED: moe::e4m3 *data;
// MIXED-NEXT: moe::ue8m0 *scale;
// MIXED: using Mma = moe::mma::MmaSyncScaled<moe::e4m3, moe::ue8m0, moe::e2m1>;
// MIXED: static constexpr int kK = 256;
// MIXED: using Scaling = moe::quant::Encoded<moe::quant::PowerGroups<moe::e4m3, moe::quant::Ceil, 32>>;
// MIXED-NOT: quantize_t.cu

// MANIFEST: "compute_type": "f32"
// MANIFEST: "realization": "native"

moe.layer @codes {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 128,
  in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<nvfp4>,
  routing = #moe.routing<renormalize_naive>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}
