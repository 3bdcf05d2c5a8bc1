// RUN: moec compile %s --arch=sm_90a --max-tokens=64 --emit=cuda | FileCheck %s
// RUN: sed 's/<mxfp6_e2m3>/<nvfp4_per_token>/' %s | moec compile - --arch=sm_90a --max-tokens=64 --emit=cuda | FileCheck %s --check-prefix=TWO
// RUN: sed 's/<mxfp6_e2m3>/<mxfp4_fp8>/' %s | moec compile - --arch=sm_90a --max-tokens=64 --emit=cuda | FileCheck %s --check-prefix=TENSOR
// RUN: rm -rf %t && moec compile %s --arch=sm_90a --max-tokens=64 --no-cubin -o %t && FileCheck %s --check-prefix=MANIFEST < %t/manifest.json

// x that comes quantized, where no engine multiplies its codes: a launch makes
// 16 bits of them, which the matmul reads.
// CHECK-LABEL: dequantize_x.cu
// CHECK: #include "moe/kernel/dequantize.cuh"
// CHECK: const moe::e2m3 *input;
// CHECK-NEXT: long long input_row_stride;
// CHECK-NEXT: const moe::ue8m0 *scale;
// CHECK-NEXT: int tokens;
// CHECK-NEXT: moe::bf16 *data;
// CHECK-NEXT: };
// CHECK: static constexpr int kColumns = 336;
// CHECK-NEXT: static constexpr int kScaleRows = 1;
// CHECK-NEXT: static constexpr int kScaleColumns = 32;
// CHECK-NEXT: static constexpr bool kSecondPerRow = false;
// CHECK: moe::dequantize<Config>(args);

// TWO-LABEL: dequantize_x.cu
// TWO: const moe::e2m1 *input;
// TWO: const moe::e4m3 *scale;
// TWO-NEXT: const float *second_scale;
// TWO: static constexpr int kScaleColumns = 16;
// TWO-NEXT: static constexpr bool kSecondPerRow = true;

// TENSOR-LABEL: dequantize_x.cu
// TENSOR: const float *scale;
// TENSOR: static constexpr int kScaleRows = -1;
// TENSOR-NEXT: static constexpr int kScaleColumns = -1;

// MANIFEST: "name": "x_scale"
// MANIFEST: "op": "dequantize"

moe.layer @codes {num_experts = 8, top_k = 2, hidden_size = 336, intermediate_size = 208,
  in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<mxfp6_e2m3>, input_quantized,
  routing = #moe.routing<renormalize_naive>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}
