// RUN: moec compile %s --arch=sm_80 --max-tokens=64 --emit=scheduled | FileCheck %s --check-prefix=IR
// RUN: moec compile %s --arch=sm_90a --engine=mma_sync --max-tokens=64 --emit=scheduled | FileCheck %s --check-prefix=IR
// RUN: moec compile %s --arch=sm_89 --max-tokens=64 --emit=cuda | FileCheck %s
// RUN: sed 's/hidden_size = 320/hidden_size = 336/' %s | moec compile - --arch=sm_80 --emit=cuda | FileCheck %s --check-prefix=ROWS
// RUN: sed 's/int4_zp_w4a16/nvfp4/' %s | moec compile - --arch=sm_80 --emit=cuda | FileCheck %s --check-prefix=ROWS
// RUN: sed 's/int4_zp_w4a16/mxfp6_e3m2/' %s | moec compile - --arch=sm_80 --emit=cuda | FileCheck %s --check-prefix=ROWS
// RUN: sed 's/int4_zp_w4a16/int4_w4aint8/' %s | moec compile - --arch=sm_80 --emit=cuda | FileCheck %s --check-prefix=ROWS
// RUN: moec compile %s --arch=sm_80 --engine=simt --emit=cuda | FileCheck %s --check-prefix=ROWS
// RUN: sed 's/hidden_size = 320/hidden_size = 1152/; s/intermediate_size = 256/intermediate_size = 768/; s/#moe.quant<int4_zp_w4a16>/#moe.quant<a1 = <bf16>, a2 = <bf16>, w1 = <i4, group = [1, 192], scale = bf16>, w2 = <i4, group = [1, 64], scale = bf16>>/' %s | moec compile - --arch=sm_80 --max-tokens=64 --emit=scheduled | FileCheck %s --check-prefix=GROUPS
// RUN: sed 's/<silu>/<gelu_no_mul>/' %s | moec compile - --arch=sm_90a --emit=cuda | FileCheck %s --check-prefix=GELU

// The engine reads the copy that wgmma_rs reads, and rows where that has none.
// IR: moe.pack %w13 : tensor<8x512x320xi4> -> tensor<8x512x320xi4, #moe.layout<interleave = 8, order = fragment, tile = [64, 64]>>
// IR: moe.pack %w13_scale : tensor<8x512x3xbf16> -> tensor<8x512x3xbf16, #moe.layout<interleave = 8, order = fragment, tile = [64, 1]>>
// IR: schedule #moe.mma_sync_schedule<tile = [16, 128, 64]

// A stage of 128 columns is no part of a group of 192.
// GROUPS: schedule #moe.mma_sync_schedule<tile = [16, 128, 64], stages = 6
// GROUPS: schedule #moe.mma_sync_schedule<tile = [16, 64, 128], stages = 4

// CHECK-LABEL: gate_up.cu
// CHECK: #include "moe/matmul/atom/mma_sync.cuh"
// CHECK: const moe::i4 *rhs;
// CHECK: using Mma = moe::mma::MmaSyncSlabs<moe::bf16>;
// CHECK-LABEL: w13_pack_stored.cu
// CHECK: kFragmentColumns = 64;

// ROWS: using Mma = moe::mma::{{MmaSync|Simt}}<
// ROWS-NOT: kFragmentColumns
// ROWS-NOT: MmaSyncSlabs

// GELU: using Mma = moe::mma::MmaSyncSlabs<moe::bf16>;

moe.layer @codes {num_experts = 8, top_k = 2, hidden_size = 320, intermediate_size = 256,
  in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<int4_zp_w4a16>,
  routing = #moe.routing<renormalize_naive>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}
