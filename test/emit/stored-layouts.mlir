// RUN: moec compile %s --arch=sm_80 --max-tokens=64 --emit=cuda | FileCheck %s
// RUN: rm -rf %t && moec compile %s --arch=sm_80 --max-tokens=64 --no-cubin -o %t && FileCheck %s --check-prefix=MANIFEST < %t/manifest.json

// A checkpoint's layout is numbers of the kernels that pack, and of no other.
// CHECK-LABEL: w13_pack_stored.cu
// CHECK: static constexpr int kRows = 416;
// CHECK-NEXT: static constexpr int kColumns = 336;
// CHECK-NEXT: static constexpr int kBits = 4;
// CHECK-NEXT: static constexpr int kStoredBits = 4;
// CHECK-NEXT: static constexpr bool kRowsLast = true;
// CHECK-NEXT: static constexpr int kRowsPerWord = 8;
// CHECK-NEXT: static constexpr int kColumnsPerWord = 1;
// CHECK-NEXT: static constexpr int kSlots = 1935823168;
// CHECK-NEXT: static constexpr int kAdded = 0;
// CHECK-NEXT: static constexpr int kFlipped = 0;
// CHECK-NEXT: static constexpr int kInterleave = 8;
// CHECK-LABEL: w2_zero_point_pack_stored.cu
// CHECK: static constexpr int kRows = 336;
// CHECK-NEXT: static constexpr int kColumns = 2;
// CHECK-NEXT: static constexpr int kBits = 8;
// CHECK-NEXT: static constexpr int kStoredBits = 4;

// MANIFEST-DAG: "slots": "0 4 1 5 2 6 3 7"

moe.layer @awq {num_experts = 8, top_k = 2, hidden_size = 336, intermediate_size = 208,
  in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<int4_zp_w4a16>, stored_layout = "awq",
  routing = #moe.routing<renormalize_naive>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}
