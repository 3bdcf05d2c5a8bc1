// RUN: moec compile %s --arch=sm_90a --engine=wgmma_rs --max-tokens=64 --emit=scheduled | FileCheck %s --check-prefix=IR
// RUN: moec compile %s --arch=sm_90a --engine=wgmma_rs --max-tokens=64 --emit=cuda | FileCheck %s
// RUN: rm -rf %t && moec compile %s --arch=sm_90a --engine=wgmma_rs --max-tokens=64 --no-cubin -o %t && FileCheck %s --check-prefix=MANIFEST < %t/manifest.json
// RUN: not moec compile %s --arch=sm_80 --engine=wgmma_rs --emit=scheduled 2>&1 | FileCheck %s --check-prefix=ARCH
// RUN: sed 's/hidden_size = 320/hidden_size = 336/' %s | not moec compile - --arch=sm_90a --engine=wgmma_rs --emit=scheduled 2>&1 | FileCheck %s --check-prefix=SIZE
// RUN: sed 's/int4_zp_w4a16/bf16/' %s | not moec compile - --arch=sm_90a --engine=wgmma_rs --emit=scheduled 2>&1 | FileCheck %s --check-prefix=PLAIN
// RUN: sed 's/int4_zp_w4a16/nvfp4/' %s | moec compile - --arch=sm_90a --engine=wgmma_rs --max-tokens=64 --emit=scheduled | FileCheck %s --check-prefix=EMULATED
// RUN: sed 's/int4_zp_w4a16/int4_w4afp8/; s/hidden_size = 320/hidden_size = 384/' %s | moec compile - --arch=sm_90a --max-tokens=64 --emit=scheduled | FileCheck %s --check-prefix=BYTES
// RUN: sed 's/int4_zp_w4a16/int4_w4afp8/' %s | not moec compile - --arch=sm_90a --engine=wgmma_rs --emit=scheduled 2>&1 | FileCheck %s --check-prefix=BYTESIZE
// RUN: sed 's/int4_zp_w4a16/int4_w4aint8/' %s | not moec compile - --arch=sm_90a --engine=wgmma_rs --emit=scheduled 2>&1 | FileCheck %s --check-prefix=INTEGERS
// RUN: sed 's/<int4_zp_w4a16>/<a1 = <f8E4M3FN, group = [1, -1], scale = f32, dynamic>, a2 = <f8E4M3FN, group = [1, -1], scale = f32, dynamic>, w1 = <i4, group = [1, 64], scale = bf16>, w2 = <i4, group = [1, 64], scale = bf16>>/; s/hidden_size = 320/hidden_size = 384/' %s | not moec compile - --arch=sm_90a --engine=wgmma_rs --emit=scheduled 2>&1 | FileCheck %s --check-prefix=GROUPS
// RUN: sed 's/<silu>/<gelu_no_mul>/' %s | not moec compile - --arch=sm_90a --engine=wgmma_rs --emit=scheduled 2>&1 | FileCheck %s --check-prefix=GELU
// RUN: sed 's/<int4_zp_w4a16>/<int4_zp_w4a16>, weights_dtype = bf16/' %s | not moec compile - --arch=sm_90a --engine=wgmma_rs --emit=scheduled 2>&1 | FileCheck %s --check-prefix=FLOATS
// RUN: sed 's/<int4_zp_w4a16>/<a1 = <bf16>, a2 = <bf16>, w1 = <f8E4M3FN, group = [128, 128], scale = f32>, w2 = <f8E4M3FN, group = [-1, -1], scale = f32>>/' %s | moec compile - --arch=sm_90a --engine=wgmma_rs --max-tokens=64 --emit=scheduled | FileCheck %s --check-prefix=BLOCKS

// A scale of several rows is repeated for each of them.
// BLOCKS: moe.pack %w13_scale repeat = [2, 128, 1] : tensor<8x4x3xf32> -> tensor<8x512x3xf32, #moe.layout<interleave = 8, order = fragment, tile = [64, 1]>>
// BLOCKS: moe.pack %w2_scale repeat = [1, 320, 1] : tensor<8x1xf32> -> tensor<8x320xf32, #moe.layout<order = fragment, tile = [64, 1]>>
// BLOCKS: rhs_descriptor = <f8E4M3FN,{{[[:space:]]*}}group = [1, 128], scale = f32>
// BLOCKS: rhs_descriptor = <f8E4M3FN,{{[[:space:]]*}}group = [1, -1], scale = f32>

// Emulated activations take a launch of their own.
// EMULATED: moe.apart = "engine 'wgmma_rs' does not emulate its result"
// EMULATED: moe.grouped_matmul realization = emulated lhs_descriptor

// Blocks of codes that are multiplied by 8 bits have 128 columns.
// BYTES: moe.pack %w13 : tensor<8x512x384xi4> -> tensor<8x512x384xi4, #moe.layout<interleave = 8, order = fragment, tile = [64, 128]>>
// BYTES: schedule #moe.wgmma_rs_schedule<tile = [16, 128, 128]
// BYTES: realization = codes

// Codes, scales and zero points are packed in the order of fragments, gates and
// ups by 8. The kernel reads them by pointers.
// IR: moe.pack %w13_scale : tensor<8x512x3xbf16> -> tensor<8x512x3xbf16, #moe.layout<interleave = 8, order = fragment, tile = [64, 1]>>
// IR: schedule #moe.wgmma_rs_schedule<tile = [16, 128, 64]

// CHECK-LABEL: gate_up.cu
// CHECK: #include "moe/matmul/atom/wgmma_rs.cuh"
// CHECK: const moe::i4 *rhs;
// CHECK-NEXT: const moe::bf16 *rhs_scale;
// CHECK-NEXT: const moe::i8 *rhs_zero_point;
// CHECK: using Mma = moe::mma::WgmmaRs<moe::bf16>;
// CHECK-LABEL: w13_pack_stored.cu
// CHECK: kFragmentColumns = 64;
// CHECK-LABEL: w13_scale_pack_stored.cu
// CHECK: kInterleave = 8;
// CHECK: kFragmentColumns = 1;

// MANIFEST-DAG: "fragments": true
// MANIFEST-DAG: "fragment_columns": 64
// MANIFEST-DAG: "fragment_columns": 1

// ARCH: engine 'wgmma_rs' needs wgmma, which sm_80 lacks
// SIZE: engine 'wgmma_rs' reads weights in blocks of 64 by 64: 336 is no multiple of 64
// PLAIN: engine 'wgmma_rs' multiplies weights that it converts, this layer's are multiplied as they are
// BYTESIZE: engine 'wgmma_rs' reads weights in blocks of 64 by 128: 320 is no multiple of 128
// INTEGERS: engine 'wgmma_rs' multiplies f16, bf16, f8E4M3FN, not i8
// GROUPS: engine 'wgmma_rs' takes a scale for all of k, or for a multiple of 128 of it, not for groups of [1, 64]
// GELU: engine 'wgmma_rs' does not support gelu without gates
// FLOATS: engine 'wgmma_rs' does not read weights that are quantized when the layer is loaded

moe.layer @codes {num_experts = 8, top_k = 2, hidden_size = 320, intermediate_size = 256,
  in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<int4_zp_w4a16>,
  routing = #moe.routing<renormalize_naive>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}
