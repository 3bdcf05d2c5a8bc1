// RUN: moec compile %s --arch=sm_90a --max-tokens=64 --emit=cuda | FileCheck %s
// RUN: sed 's/<mxfp4>/<nvfp4>/' %s | moec compile - --arch=sm_90a --max-tokens=64 --emit=cuda | FileCheck %s --check-prefix=STORED
// RUN: sed 's/<mxfp4>/<nvfp4_per_token>/' %s | moec compile - --arch=sm_90a --max-tokens=64 --emit=cuda | FileCheck %s --check-prefix=ROW
// RUN: sed 's/<mxfp4>/<mxfp8>/' %s | moec compile - --arch=sm_90a --max-tokens=64 --emit=cuda | FileCheck %s --check-prefix=BLOCK
// RUN: sed 's/<mxfp4>/<mxfp4_fp8>/' %s | moec compile - --arch=sm_90a --max-tokens=64 --emit=cuda | FileCheck %s --check-prefix=TENSOR
// RUN: sed 's/<mxfp4>/<mxfp6_e3m2>/' %s | moec compile - --arch=sm_90a --max-tokens=64 --emit=cuda | FileCheck %s --check-prefix=SIX
// RUN: rm -rf %t && moec compile %s --arch=sm_90a --max-tokens=64 --no-cubin -o %t && FileCheck %s --check-prefix=MANIFEST < %t/manifest.json
// RUN: moec explain %s --arch=sm_90a | FileCheck %s --check-prefix=EXPLAIN
// RUN: sed 's/<mxfp4>/<nvfp4_per_token>/' %s | moec explain - --arch=sm_90a | FileCheck %s --check-prefix=APART

// Quantized x is what its codes stand for: 16 bits, no scale, made beside
// routing; the matmul dequantizes its weights as if they alone were quantized,
// and its epilogue does to t what routing does to x, from f32. What needs a
// whole row of t has a launch of its own.
// CHECK-LABEL: gate_up.cu
// CHECK: const moe::bf16 *lhs;
// CHECK-NOT: lhs_scale
// CHECK: moe::bf16 *data;
// CHECK-NEXT: };
// CHECK: using Input = moe::bf16;
// CHECK-NEXT: using Weight = moe::e2m1;
// CHECK-NEXT: using Result = float;
// CHECK: using Quant = moe::quant::WeightOnly;
// CHECK: using Scaling = moe::quant::PowerGroups<moe::e2m1, moe::quant::Even, 32>;
// CHECK-NOT: quantize_t.cu
// CHECK-LABEL: route_permute.cu
// CHECK: using Scaling = moe::quant::PowerGroups<moe::e2m1, moe::quant::Even, 32>;

// STORED-LABEL: quantize_t.cu
// STORED: const float *static_second_scale;
// STORED: using Scaling = moe::quant::TwoLevels<moe::e2m1, 16, false>;
// STORED: static constexpr int kScales = 8;

// ROW-LABEL: gate_up.cu
// ROW: float *result;
// ROW-LABEL: quantize_t.cu
// ROW: const float *input;
// ROW: const int *offsets;
// ROW-NEXT: moe::bf16 *data;
// ROW-NEXT: };
// ROW: using Scaling = moe::quant::TwoLevels<moe::e2m1, 16, true>;

// SIX: using Scaling = moe::quant::PowerGroups<moe::e3m2, moe::quant::Even, 32>;

// BLOCK: using Scaling = moe::quant::PowerGroups<moe::e4m3, moe::quant::Ceil, 32>;

// TENSOR-LABEL: gate_up.cu
// TENSOR: const float *static_scale;
// TENSOR: using Scaling = moe::quant::FloatTensor<moe::e4m3, false>;

// MANIFEST-DAG: "compute_type": "bf16"
// MANIFEST-DAG: "scale_rule": "even"
// MANIFEST-DAG: "emulates": "f4E2M1FN"
// MANIFEST-DAG: "realization": "emulated"

// EXPLAIN: activations are emulated: quantized and dequantized at once, then multiplied as 16 bits
// EXPLAIN: gate_up grouped_matmul, activate, quantize
// EXPLAIN-NOT: a launch of its own

// APART: gate_up grouped_matmul, activate{{$}}
// APART: quantize_t quantize
// APART-NEXT: threads
// APART-NEXT: quantize: ceildiv(rows, {{[0-9]+}}) CTAs{{$}}
// APART-NEXT: a launch of its own: a scale follows from more values than a CTA has

moe.layer @codes {num_experts = 8, top_k = 2, hidden_size = 336, intermediate_size = 208,
  in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<mxfp4>,
  routing = #moe.routing<renormalize_naive>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}
