// RUN: moec compile %s --arch=sm_80 --max-tokens=64 --emit=cuda | FileCheck %s
// RUN: rm -rf %t && moec compile %s --arch=sm_80 --max-tokens=64 --no-cubin -o %t && FileCheck %s --check-prefix=MANIFEST < %t/manifest.json

// Padding is numbers of the kernels that pack, of biases too, and of no other. Gates and ups have theirs apart; scales of groups have
// that of their groups, which atoms fill up.
// CHECK-LABEL: b13_pack_stored.cu
// CHECK: static constexpr int kRows = 416;
// CHECK-NEXT: static constexpr int kColumns = 1;
// CHECK: static constexpr int kParts = 2;
// CHECK-NEXT: static constexpr int kStoredRows = 512;
// CHECK-NEXT: static constexpr int kStoredColumns = 1;
// CHECK-LABEL: w13_pack_stored.cu
// CHECK: static constexpr int kRows = 416;
// CHECK-NEXT: static constexpr int kColumns = 336;
// CHECK: static constexpr int kParts = 2;
// CHECK-NEXT: static constexpr int kStoredRows = 512;
// CHECK-NEXT: static constexpr int kStoredColumns = 384;
// CHECK-NEXT: static constexpr int kInterleave = 8;
// CHECK-LABEL: w2_scale_pack_stored.cu
// CHECK: static constexpr int kRows = 336;
// CHECK-NEXT: static constexpr int kColumns = 13;
// CHECK: static constexpr int kStoredRows = 384;
// CHECK-NEXT: static constexpr int kStoredColumns = 16;
// CHECK-NEXT: static constexpr bool kAtoms = true;

// MANIFEST: "stored_hidden_size": 384,
// MANIFEST: "stored_intermediate_size_per_partition": 256,
// MANIFEST: {"name": "w13", "role": "stored_weight", "element_types": ["f4E2M1FN"], "shape": [8, 512, 384],
// MANIFEST: "name": "w13_scale",
// MANIFEST: "shape": [8, 512, 24],
// MANIFEST: {"name": "b13", "role": "stored_weight", "element_types": ["bf16"], "shape": [8, 512],

moe.layer @padded {num_experts = 8, top_k = 2, hidden_size = 336, intermediate_size = 208,
  in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<nvfp4_w4a16>, stored_layout = "scales_128x4",
  stored_hidden_size = 384, stored_intermediate_size_per_partition = 256, has_bias,
  routing = #moe.routing<renormalize_naive>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}
