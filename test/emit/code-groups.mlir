// RUN: moec compile %s --arch=sm_90a --max-tokens=64 --emit=cuda | FileCheck %s --check-prefixes=CHECK,INTEGERS
// RUN: sed s/aint8/afp8/ %s | moec compile - --arch=sm_90a --max-tokens=64 --emit=cuda | FileCheck %s --check-prefixes=CHECK,FLOATS
// RUN: rm -rf %t && moec compile %s --arch=sm_80 --max-tokens=64 --no-cubin -o %t && FileCheck %s --check-prefix=MANIFEST < %t/manifest.json

// Codes of 4 bits less 8 are elements of 8 bits; their scales multiply sums of
// 128 along k, and those of tokens finished ones.
// CHECK: ---- sm_90a/{{.*}}gate_up.cu
// INTEGERS: const moe::i8 *lhs;
// FLOATS: const moe::e4m3 *lhs;
// CHECK: const moe::i4 *rhs;
// CHECK-NEXT: const float *lhs_scale;
// CHECK-NEXT: const moe::bf16 *rhs_scale;
// CHECK: using Weight = moe::i4;
// CHECK: using Quant = moe::quant::CodeGroups<128>;
// CHECK-NEXT: using Scale = moe::bf16;
// CHECK-NEXT: static constexpr int kScaleRows = 1;
// CHECK-NEXT: static constexpr int kScaleColumns = 128;
// INTEGERS: using Mma = moe::mma::MmaSync<moe::i8, true>;
// FLOATS: using Mma = moe::mma::MmaSync<moe::e4m3>;

// MANIFEST-DAG: "realization": "native"
moe.layer @codes {experts = 8, top_k = 2, hidden = 336, intermediate = 208,
  input_type = bf16, output_type = bf16, logits_type = bf16, quant = #moe.quant<int4_w4aint8>,
  routing = #moe.routing<renormalize_naive>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}
