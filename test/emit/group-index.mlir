// RUN: moec compile %s --arch=sm_80 --max-tokens=64 --emit=cuda | FileCheck %s
// RUN: rm -rf %t && moec compile %s --arch=sm_80 --max-tokens=64 --no-cubin -o %t && FileCheck %s --check-prefix=MANIFEST < %t/manifest.json
// RUN: moec explain %s --arch=sm_80 --max-tokens=64 | FileCheck %s --check-prefix=EXPLAIN

// An order is made of the groups of columns, weights are packed by it, rows of
// codes as words of 32 bits, and rows are brought into it.
// CHECK-LABEL: sm_80/up_to_32_order_x.cu
// CHECK: struct Args {
// CHECK-NEXT: const moe::bf16 *input;
// CHECK: moe::permuteColumns<Config>(args)
// CHECK-LABEL: w13_group_index_pack_order.cu
// CHECK: struct Args {
// CHECK-NEXT: const int *source;
// CHECK-NEXT: int *destination;
// CHECK-NEXT: int first_expert;
// CHECK-NEXT: };
// CHECK: static constexpr int kColumns = 336;
// CHECK-NEXT: static constexpr int kGroup = 32;
// CHECK: moe::packOrder<Config>(args)
// CHECK-LABEL: w13_pack_stored.cu
// CHECK: unsigned char *destination;
// CHECK-NEXT: const int *order;
// CHECK: static constexpr int kColumnsPerWord = 8;
// CHECK-NEXT: static constexpr int kSlots = 1985229328;

// Engines of few tokens say what they do not do.
// EXPLAIN: engine 'gemv' does not do option 'group_index'

// MANIFEST-DAG: "group_index": true
// MANIFEST-DAG: "from": [{{[[:space:]]*}}"w13",{{[[:space:]]*}}"w13_group_index_packed"{{[[:space:]]*}}],{{[[:space:]]*}}"in_place": true
// MANIFEST-DAG: "from": [{{[[:space:]]*}}"w2_group_index"{{[[:space:]]*}}],{{[[:space:]]*}}"in_place": false

moe.layer @order {num_experts = 8, top_k = 2, hidden_size = 336, intermediate_size = 208,
  in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<mxfp4_w4a16>, group_index,
  routing = #moe.routing<renormalize_naive>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}
