// RUN: moec-opt %s --pass-pipeline='builtin.module(moe-resolve-parallel,moe-check-target{arch=sm_90a},moe-decompose-layer{arch=sm_90a max-tokens=200},moe.program(moe-choose-backend,moe-choose-weight-layout))' | FileCheck %s
// RUN: moec compile %s --arch=sm_90a --max-tokens=200 --emit=kernels | FileCheck %s --check-prefix=KERNELS

// Columns are in groups that an index says: the order that follows from it is
// made first, both weights are packed by it, gated or not, and what is
// multiplied with them is brought into the order of each row's expert, x as rows
// of pairs.

// CHECK-LABEL: moe.program @act_sm_90a
// CHECK: ^bb0(
// CHECK-SAME: %[[W13:w13]]: tensor<8x192x128xi4, #moe.layout<stored = gptq>>
// CHECK-SAME: %[[I13:w13_group_index]]: tensor<8x128xi32>
// CHECK-SAME: %[[I2:w2_group_index]]: tensor<8x96xi32>
// CHECK-NEXT: %[[O13:.*]] = moe.pack_order group = 32 %[[I13]] : tensor<8x128xi32>
// CHECK-NEXT: %[[O2:.*]] = moe.pack_order group = 32 %[[I2]] : tensor<8x96xi32>
// CHECK-NEXT: %[[P13:.*]] = moe.pack %[[W13]] order(%[[O13]] : tensor<8x128xi32>) : tensor<8x192x128xi4, #moe.layout<stored = gptq>> -> tensor<8x192x128xi4, #moe.layout<interleave = 8>>
// CHECK-NEXT: %[[P2:.*]] = moe.pack %{{.*}} order(%[[O2]] : tensor<8x96xi32>)
// CHECK: %{{.*}}, %{{.*}}, %{{.*}} = moe.permute {{.*}}
// CHECK: %[[X:.*]] = moe.permute_columns pairs = 2 %x gather %[[ROWS:.*]] offsets %[[OFF:.*]], %[[O13]] : (tensor<?x128xbf16>, tensor<?xi32>, tensor<9xi32>, tensor<8x128xi32>) -> tensor<?x128xbf16>
// CHECK-NEXT: moe.grouped_matmul realization = dequantized pairs = 1 {{.*}} %[[X]] gather %[[ROWS]] {{.*}}, %[[P13]]
// CHECK-NEXT: %[[T:.*]] = moe.activate
// CHECK-NEXT: %[[U:.*]] = moe.permute_columns %[[T]] offsets %[[OFF]], %[[O2]] :
// CHECK-NEXT: moe.grouped_matmul realization = dequantized {{.*}} %[[U]] tiles({{.*}}), %[[P2]]

// A launch of its own each.
// KERNELS: moe.kernel @up_to_128_order_x kind = permute_columns fields ["input", "rows", "offsets", "order"] results ["result"]
// KERNELS: moe.kernel @up_to_128_gate_up kind = grouped_matmul
// KERNELS: moe.kernel @up_to_128_order_t kind = permute_columns fields ["input", "offsets", "order"] results ["result"]
// KERNELS: moe.launch @up_to_128_order_x(
// KERNELS-SAME: results ["x_ordered"]
// KERNELS: moe.launch @up_to_128_order_t(
// KERNELS-SAME: results ["t_ordered"]

moe.layer @act {num_experts = 8, top_k = 2, hidden_size = 128, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<a1 = <bf16>, a2 = <bf16>, w1 = <i4, group = [1, 32], scale = bf16>, w2 = <i4, group = [1, 32], scale = bf16>>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, stored_layout = "gptq", group_index}

// What stands as kernels read it is packed for its order's sake; weighed rows
// are of pairs already.

// CHECK-LABEL: moe.program @rows_sm_90a
// CHECK: moe.pack %w13 order({{.*}}) : tensor<8x96x128xf4E2M1FN> -> tensor<8x96x128xf4E2M1FN, #moe.layout<>>
// CHECK: moe.pack %w2 order({{.*}}) : tensor<8x128x96xf4E2M1FN> -> tensor<8x128x96xf4E2M1FN, #moe.layout<>>
// CHECK: %[[Q:.*]] = moe.quantize
// CHECK: moe.permute_columns pairs = 1 %[[Q]] gather
moe.layer @rows {num_experts = 8, top_k = 1, hidden_size = 128, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<mxfp4_w4a16>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu_no_mul>, parallel = #moe.parallel<>, apply_router_weight_on_input, group_index}
