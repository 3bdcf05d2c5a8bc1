// RUN: moec compile %s --arch=sm_90a --engine=mma_sync --max-tokens=64 --emit=cuda | FileCheck %s
// RUN: rm -rf %t && moec compile %s --arch=sm_90a --engine=mma_sync --max-tokens=64 --no-cubin -o %t && FileCheck %s --check-prefix=MANIFEST < %t/manifest.json

// RUN: sed s/fp8_block/fp8_tensor/ %s | moec compile - --arch=sm_90a --engine=mma_sync --max-tokens=64 --emit=cuda | FileCheck %s --check-prefix=GIVEN

// The row of an arch says whether its machine multiplies e4m3.
// RUN: moec compile %s --arch=sm_89 --engine=mma_sync --max-tokens=64 --emit=cuda | FileCheck %s --check-prefix=NATIVE
// RUN: moec compile %s --arch=sm_120a --engine=mma_sync --max-tokens=64 --emit=cuda | FileCheck %s --check-prefix=NATIVE
// NATIVE-COUNT-2: using Mma = moe::mma::MmaSync<moe::e4m3, true, true>;

// RUN: moec compile %s --arch=sm_90a --engine=wgmma --max-tokens=32 --emit=cuda | FileCheck %s --check-prefix=GROUPS

// A scale of each weight row is read beside one of all activations, and a scale
// of a whole weight is repeated for its rows when it is packed.
// RUN: sed s/fp8_block/fp8_channel_static/ %s | moec compile - --arch=sm_90a --max-tokens=64 --emit=cuda | FileCheck %s --check-prefix=ROWS
// RUN: sed s/fp8_block/fp8_tensor_token/ %s | moec compile - --arch=sm_90a --max-tokens=64 --emit=cuda | FileCheck %s --check-prefix=REPEATED
// RUN: sed s/fp8_block/fp8_tensor_token/ %s | moec explain - --arch=sm_90a | FileCheck %s --check-prefix=SAID
// Blocks of 64 along K are no multiple of what kernels read.
// RUN: sed 's/<fp8_block>/<a1 = <f8E4M3FN, group = [1, 128], scale = f32, dynamic>, a2 = <f8E4M3FN, group = [1, 128], scale = f32, dynamic>, w1 = <f8E4M3FN, group = [128, 64], scale = f32>, w2 = <f8E4M3FN, group = [128, 64], scale = f32>>/' %s | moec explain - --arch=sm_90a | FileCheck %s --check-prefix=FINER
// FINER: activations are emulated
// FINER-NEXT: emulated since no engine multiplies f8E4M3FN as it is with scales of [1, 128] and, of weights, of [128, 64]
// ROWS-NOT: kRepeatRows
// ROWS: using Quant = moe::quant::Fp8TensorChannel;
// REPEATED-DAG: using Quant = moe::quant::Fp8Channel;
// REPEATED-DAG: static constexpr int kParts = 2;
// REPEATED-DAG: static constexpr int kRepeatRows = 208;
// REPEATED-DAG: static constexpr int kRepeatColumns = 1;
// REPEATED-DAG: static constexpr int kAlternate = 0;
// SAID: chosen: backend grouped, engine wgmma
// SAID-NOT: emulated

// Wgmma: a CTA of gate_up takes both column tiles of a group of 128, and leaves
// e4m3 and scales. Their f32 pass through 16 * 128 * 4 bytes of shared memory.
// GROUPS: ---- sm_90a/{{.*}}gate_up.cu
// GROUPS-NOT: float *result;
// GROUPS: moe::e4m3 *data;
// GROUPS-NEXT: float *scale;
// GROUPS: using Result = float;
// GROUPS: using Scaling = moe::quant::Group128;
// GROUPS: static_assert(moe::sharedBytes<Config>() == {{[0-9]+}}
// GROUPS-NOT: quantize<Config>

// A scale of t that is given is applied by gate_up, and x is quantized by CTAs
// behind the one that routes.
// GIVEN: ---- sm_90a/{{.*}}gate_up.cu
// GIVEN: const float *static_scale;
// GIVEN-NEXT: moe::e4m3 *data;
// GIVEN-NEXT: float *scale;
// GIVEN: using Result = float;
// GIVEN: using Scaling = moe::quant::StaticTensor;
// GIVEN-NEXT: static constexpr int kScales = 8;
// GIVEN: ---- sm_90a/{{.*}}route_permute.cu
// GIVEN: const moe::bf16 *input;
// GIVEN-NEXT: long long input_row_stride;
// GIVEN-NEXT: const float *static_scale;
// GIVEN-NEXT: moe::e4m3 *data;
// GIVEN-NEXT: float *scale;
// GIVEN: using Input = moe::bf16;
// GIVEN: using Scaling = moe::quant::StaticTensor;
// GIVEN-NEXT: static constexpr int kColumns = 336;
// GIVEN-NOT: quantize<Config>
// CHECK-DAG: using Scaling = moe::quant::Group128;
// CHECK-DAG: moe::quantize<Config>(args);
// CHECK-DAG: using Input = moe::e4m3;
// CHECK-DAG: using Quant = moe::quant::Fp8Block;
// CHECK-DAG: using Mma = moe::mma::MmaSync<moe::e4m3>;
// CHECK-DAG: const float *lhs_scale;
// CHECK-DAG: const float *rhs_scale;
// CHECK-DAG: float *result;

// MANIFEST-DAG: "name": "w13_scale"
// MANIFEST-DAG: "name": "w2_scale"
// MANIFEST-DAG: "name": "x_q"
// MANIFEST-DAG: "name": "t_scale"
// MANIFEST-DAG: "rhs_group_columns": 128
// MANIFEST-DAG: "gate_up": true
// MANIFEST-DAG: "realization": "dequantized"

moe.layer @blocks {num_experts = 8, top_k = 2, hidden_size = 336, intermediate_size = 208,
  in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<fp8_block>,
  routing = #moe.routing<renormalize_naive>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}
