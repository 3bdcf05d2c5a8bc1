// RUN: moec compile %s --arch=sm_90a --max-tokens=64 --emit=cuda | FileCheck %s --check-prefixes=CHECK,INTEGERS
// RUN: sed s/aint8/afp8/ %s | moec compile - --arch=sm_90a --max-tokens=64 --emit=cuda | FileCheck %s --check-prefixes=CHECK,FLOATS
// RUN: rm -rf %t && moec compile %s --arch=sm_80 --max-tokens=64 --no-cubin -o %t && FileCheck %s --check-prefix=MANIFEST < %t/manifest.json
// RUN: sed 's/<int4_w4aint8>/<a1 = <i8, group = [1, -1], scale = f32, dynamic>, a2 = <i8, group = [1, -1], scale = f32, dynamic>, w1 = <i4, group = [1, 64], scale = bf16>, w2 = <i4, group = [1, -1], scale = f16>>/' %s | moec compile - --arch=sm_90a --max-tokens=64 --emit=cuda | FileCheck %s --check-prefix=OTHER

// Other groups are other numbers; a scale a row multiplies finished sums, of
// integers over all of k.
// OTHER: ---- sm_90a/up_to_32_down.cu
// OTHER: const moe::f16 *rhs_scale;
// OTHER: using Quant = moe::quant::CodeChannel<0>;
// OTHER: static constexpr int kScaleColumns = -1;
// OTHER: using Mma = moe::mma::MmaSync<moe::i8>;
// OTHER: ---- sm_90a/up_to_32_gate_up.cu
// OTHER: using Quant = moe::quant::CodeGroups<64>;
// OTHER: static constexpr int kScaleColumns = 64;
// OTHER: using Mma = moe::mma::MmaSync<moe::i8, true>;
// OTHER: static constexpr int kTileK = 64;

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
moe.layer @codes {num_experts = 8, top_k = 2, hidden_size = 336, intermediate_size = 208,
  in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<int4_w4aint8>,
  routing = #moe.routing<renormalize_naive>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}
