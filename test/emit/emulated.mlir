// RUN: moec compile %s --arch=sm_90a --max-tokens=64 --emit=cuda | FileCheck %s
// RUN: sed 's/<mxfp4>/<nvfp4>/' %s | moec compile - --arch=sm_90a --max-tokens=64 --emit=cuda | FileCheck %s --check-prefix=STORED
// RUN: sed 's/<mxfp4>/<nvfp4_per_token>/' %s | moec compile - --arch=sm_90a --max-tokens=64 --emit=cuda | FileCheck %s --check-prefix=ROW
// RUN: sed 's/<mxfp4>/<mxfp8>/' %s | moec compile - --arch=sm_90a --max-tokens=64 --emit=cuda | FileCheck %s --check-prefix=BLOCK
// RUN: sed 's/<mxfp4>/<mxfp4_fp8>/' %s | moec compile - --arch=sm_90a --max-tokens=64 --emit=cuda | FileCheck %s --check-prefix=TENSOR
// RUN: rm -rf %t && moec compile %s --arch=sm_90a --max-tokens=64 --no-cubin -o %t && FileCheck %s --check-prefix=MANIFEST < %t/manifest.json
// RUN: moec explain %s --arch=sm_90a | FileCheck %s --check-prefix=EXPLAIN

// Quantized x is what its codes stand for: 16 bits, no scale, made beside
// routing; the matmul dequantizes its weights as if they alone were quantized.
// CHECK-LABEL: gate_up.cu
// CHECK: const moe::bf16 *lhs;
// CHECK-NOT: lhs_scale
// CHECK: float *result;
// CHECK: using Input = moe::bf16;
// CHECK-NEXT: using Weight = moe::e2m1;
// CHECK: using Quant = moe::quant::WeightOnly;
// CHECK-LABEL: quantize_t.cu
// CHECK: const float *input;
// CHECK: const int *offsets;
// CHECK-NEXT: moe::bf16 *data;
// CHECK-NEXT: };
// CHECK: using Scaling = moe::quant::PowerGroups<moe::e2m1, moe::quant::Even, 32>;
// CHECK-LABEL: route_permute.cu
// CHECK: using Scaling = moe::quant::PowerGroups<moe::e2m1, moe::quant::Even, 32>;

// STORED-LABEL: quantize_t.cu
// STORED: const float *static_second_scale;
// STORED: using Scaling = moe::quant::TwoLevels<moe::e2m1, 16, false>;
// STORED: static constexpr int kScales = 8;

// ROW-LABEL: quantize_t.cu
// ROW-NOT: static_second_scale
// ROW: using Scaling = moe::quant::TwoLevels<moe::e2m1, 16, true>;

// BLOCK: using Scaling = moe::quant::PowerGroups<moe::e4m3, moe::quant::Ceil, 32>;

// TENSOR: using Scaling = moe::quant::FloatTensor<moe::e4m3, false>;

// MANIFEST-DAG: "compute_type": "bf16"
// MANIFEST-DAG: "scale_rule": "even"
// MANIFEST-DAG: "emulates": "f4E2M1FN"
// MANIFEST-DAG: "realization": "emulated"

// EXPLAIN: activations are emulated: quantized and dequantized at once, then multiplied as 16 bits

moe.layer @codes {experts = 8, top_k = 2, hidden = 336, intermediate = 208,
  input_type = bf16, output_type = bf16, logits_type = bf16, quant = #moe.quant<mxfp4>,
  routing = #moe.routing<renormalize_naive>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}
