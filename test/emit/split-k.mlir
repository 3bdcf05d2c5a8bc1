// RUN: moec compile %s --arch=sm_90a --gpu=h100_sxm --max-tokens=2048 --emit=cuda | FileCheck %s
// RUN: moec compile %s --arch=sm_90a --gpu=h100_sxm --max-tokens=2048 --emit=cuda | FileCheck %s --check-prefix=ONCE
// RUN: rm -rf %t && moec compile %s --arch=sm_90a --gpu=h100_sxm --max-tokens=2048 --no-cubin -o %t
// RUN: FileCheck %s --check-prefix=MANIFEST < %t/manifest.json
// RUN: sed 's/top_k = 8/top_k = 8, batch_invariant/' %s > %t.invariant.mlir
// RUN: moec compile %t.invariant.mlir --arch=sm_90a --gpu=h100_sxm --max-tokens=2048 --emit=cuda | FileCheck %s --check-prefix=WHOLE
// RUN: sed 's/intermediate_size = 256/intermediate_size = 1024/' %s > %t.wide.mlir
// RUN: moec compile %t.wide.mlir --arch=sm_90a --gpu=h100_sxm --max-tokens=2048 --emit=cuda | FileCheck %s --check-prefix=WHOLE

// Where all tokens may take the same few experts, and those have at most a
// quarter as many tiles as the GPU has multiprocessors, clusters of two CTAs
// share the k of a tile of the first matmul: 8 experts of 512 weight rows are
// 16 tiles of 256, for 132.
// CHECK: ---- sm_90a/up_to_128_gate_up.cu
// CHECK: static constexpr int kSplit = 2;
// CHECK-NEXT: static constexpr int kSplitTiles = 33;
// CHECK: ---- sm_90a/up_to_128_route_permute.cu

// Not in the second matmul, nor where tiles have more than 32 rows.
// ONCE-COUNT-1: kSplit =
// ONCE-NOT: kSplit =

// MANIFEST: "name": "up_to_128_gate_up",
// MANIFEST: "cluster": [2, 1, 1],

// Sums of two halves have other last bits than those of a whole.
// WHOLE-NOT: kSplit

moe.layer @narrow {num_experts = 256, top_k = 8, hidden_size = 7168, intermediate_size = 256,
  in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<fp8_block>,
  routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}
