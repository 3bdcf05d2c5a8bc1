// RUN: moec-opt "--moe-decompose-layer=arch=sm_80,sm_90a gpu=h200_sxm max-tokens=4096" %s | FileCheck %s
// What has its program is left alone.
// RUN: moec-opt "--moe-decompose-layer=arch=sm_80,sm_90a gpu=h200_sxm max-tokens=4096" "--moe-decompose-layer=arch=sm_90a" %s | FileCheck %s

// CHECK-LABEL: moe.layer @gated
// CHECK-LABEL: moe.layer @second_rank
// The named GPU is assumed where its code runs, the arch's usual one elsewhere.
// CHECK: moe.program @gated_sm_80 of @gated for #moe.target<sm_80, gpu = a100_sxm> max_tokens 4096
// CHECK-LABEL: moe.program @gated_sm_90a of @gated for #moe.target<sm_90a, gpu = h200_sxm> max_tokens 4096
// CHECK-SAME: inputs ["x", "logits", "given_ids", "given_weights", "valid_tokens", "w13", "w2"] {
// CHECK-NEXT: ^bb0(%[[X:.*]]: tensor<?x2048xbf16>, %[[LOGITS:.*]]: tensor<?x128xbf16>, %[[IDS:.*]]: tensor<?x8xi32>, %[[WEIGHTS:.*]]: tensor<?x8xf32>, %[[VALID:.*]]: tensor<1xi32>, %[[W13:.*]]: tensor<128x1536x2048xbf16>, %[[W2:.*]]: tensor<128x2048x768xbf16>):
// CHECK-NEXT: moe.variant @all tokens[1, 4096] {
// CHECK-NEXT: %[[I:.*]], %[[W:.*]] = moe.route <renormalize> top_k = 8 %[[LOGITS]] given(%[[IDS]], %[[WEIGHTS]]) valid %[[VALID]] :
// CHECK-NEXT: %[[C:.*]] = moe.count experts = 128 block_tokens = 0 %[[I]] : (tensor<?x8xi32>) -> tensor<?x128xi32>
// CHECK-NEXT: %[[ROWS:.*]], %[[POS:.*]], %[[OFF:.*]], %[[TILES:.*]], %[[TC:.*]], %[[COUNTS:.*]] = moe.permute experts = 128 tile_rows = 0 block_tokens = 0 capacity = "tokens * 8" %[[I]], %[[C]] :
// CHECK-SAME: -> (tensor<?xi32>, tensor<?x8xi32>, tensor<129xi32>, tensor<?x4xi32>, tensor<3xi32>, tensor<128xi32>)
// CHECK-NEXT: %[[H:.*]] = moe.grouped_matmul pairs = 8 gate_up = "gate_first" %[[X]] gather %[[ROWS]] tiles(%[[TILES]], %[[TC]]), %[[W13]] :
// CHECK-SAME: -> tensor<?x1536xf32>
// CHECK-NEXT: %[[T:.*]] = moe.activate <silu> %[[H]] offsets %[[OFF]] : (tensor<?x1536xf32>, tensor<129xi32>) -> tensor<?x768xbf16>
// CHECK-NEXT: %[[Y:.*]] = moe.grouped_matmul %[[T]] tiles(%[[TILES]], %[[TC]]), %[[W2]] :
// CHECK-SAME: -> tensor<?x2048xf32>
// CHECK-NEXT: %[[OUT:.*]] = moe.combine %[[Y]], %[[POS]], %[[W]] : (tensor<?x2048xf32>, tensor<?x8xi32>, tensor<?x8xf32>) -> tensor<?x2048xf16>
// CHECK-NEXT: moe.return %[[OUT]] outputs ["out"] optional %[[I]], %[[W]], %[[COUNTS]] as ["ids", "weights", "counts"]
moe.layer @gated {
  num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = f16, router_logits_dtype = bf16,
  quant = #moe.quant<bf16>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, intermediate_size_per_partition = 768, local_begin = 0, local_experts = 128, w2_bias = true}

// Half of the rows without a gate; b2 is added by rank 0 alone, which is known
// when it runs.
// CHECK-LABEL: moe.program @second_rank_sm_90a
// CHECK-SAME: inputs ["x", "logits", "given_ids", "given_weights", "valid_tokens", "w13", "w2", "b13", "b2"] {
// CHECK: tensor<8x32x64xf32>, %[[W2:.*]]: tensor<8x64x32xf32>, %[[B13:.*]]: tensor<8x32xf32>, %[[B2:.*]]: tensor<8x64xf32>):
// CHECK: moe.grouped_matmul pairs = 2 {{.*}} bias %[[B13]] :
// CHECK: moe.activate <gelu_no_mul>
// CHECK: moe.grouped_matmul {{.*}} %[[W2]] bias %[[B2]] bias_of_rank : (tensor<?x32xf32>, tensor<?x4xi32>, tensor<3xi32>, tensor<8x64x32xf32>, tensor<8x64xf32>)
moe.layer @second_rank {
  num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 64, in_dtype = f32, out_dtype = f32, router_logits_dtype = f32, has_bias,
  quant = #moe.quant<f32>, routing = #moe.routing<default>, activation = #moe.activation<gelu_no_mul>, parallel = #moe.parallel<tp = 2, tp_rank = 1>,
  intermediate_size_per_partition = 32, local_begin = 0, local_experts = 8, w2_bias = false}

// Experts of other ranks: their ids stay global, their weights are not here.
// CHECK-LABEL: moe.program @third_of_experts_sm_90a
// CHECK-NEXT: %logits: tensor<?x8xbf16>, {{.*}}, %w13: tensor<2x128x64xbf16>, %w2: tensor<2x64x64xbf16>):
// CHECK: moe.count experts = 8
// CHECK-NEXT: moe.permute experts = 8 {{.*}} local = 2 capacity = "tokens * 2" {{.*}} -> (tensor<?xi32>, tensor<?x2xi32>, tensor<3xi32>, tensor<?x4xi32>, tensor<3xi32>, tensor<2xi32>)
moe.layer @third_of_experts {
  num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 64, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16,
  quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<dp = 3, dp_rank = 2, ep>,
  intermediate_size_per_partition = 64, local_begin = 6, local_experts = 2, w2_bias = true}

// Activations are quantized on their own rows: x by token, t by sorted row, and
// t stays f32 until then. Gate and up rows have blocks of their own.
// CHECK-LABEL: moe.program @blocks_sm_90a
// CHECK-SAME: inputs ["x", "logits", "given_ids", "given_weights", "valid_tokens", "w13", "w2", "w13_scale", "w2_scale"] {
// CHECK: %[[W13:[a-z0-9_]+]]: tensor<8x400x336xf8E4M3FN>, %[[W2:[a-z0-9_]+]]: tensor<8x336x200xf8E4M3FN>, %[[S13:[a-z0-9_]+]]: tensor<8x4x3xf32>, %[[S2:[a-z0-9_]+]]: tensor<8x3x2xf32>):
// CHECK: moe.permute
// CHECK-NEXT: %[[Q:[a-z0-9_]+]], %[[QS:[a-z0-9_]+]] = moe.quantize <f8E4M3FN, group = [1, 128], scale = f32, dynamic> %{{[a-z0-9_]*}} : (tensor<?x336xbf16>) -> (tensor<?x336xf8E4M3FN>, tensor<?x3xf32>)
// CHECK-NEXT: %[[H:[a-z0-9_]+]] = moe.grouped_matmul pairs = 2 gate_up = "gate_first" lhs_descriptor = <f8E4M3FN, group = [1, 128], scale = f32, dynamic> rhs_descriptor = <f8E4M3FN, group = [128, 128], scale = f32> %[[Q]] gather {{.*}}, %[[W13]] lhs_scale %[[QS]] rhs_scale %[[S13]] :
// CHECK-NEXT: %[[T:[a-z0-9_]+]] = moe.activate <silu> %[[H]] offsets %[[OFF:[a-z0-9_]+]] : (tensor<?x400xf32>, tensor<9xi32>) -> tensor<?x200xf32>
// CHECK-NEXT: %[[TQ:[a-z0-9_]+]], %[[TS:[a-z0-9_]+]] = moe.quantize <f8E4M3FN, group = [1, 128], scale = f32, dynamic> %[[T]] offsets %[[OFF]] : (tensor<?x200xf32>, tensor<9xi32>) -> (tensor<?x200xf8E4M3FN>, tensor<?x2xf32>)
// CHECK-NEXT: moe.grouped_matmul lhs_descriptor = <f8E4M3FN, group = [1, 128], scale = f32, dynamic> rhs_descriptor = <f8E4M3FN, group = [128, 128], scale = f32> %[[TQ]] tiles{{.*}}, %[[W2]] lhs_scale %[[TS]] rhs_scale %[[S2]] :
moe.layer @blocks {
  num_experts = 8, top_k = 2, hidden_size = 336, intermediate_size = 200, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16,
  quant = #moe.quant<fp8_block>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>,
  intermediate_size_per_partition = 200, local_begin = 0, local_experts = 8, w2_bias = true}

// One scale a weight row, one a token.
// CHECK-LABEL: moe.program @channels_sm_90a
// CHECK: %[[S13:[a-z0-9_]+]]: tensor<8x200xf32>, %[[S2:[a-z0-9_]+]]: tensor<8x336xf32>):
// CHECK: moe.quantize <f8E4M3FN, group = [1, -1], scale = f32, dynamic> {{.*}} -> (tensor<?x336xf8E4M3FN>, tensor<?x1xf32>)
moe.layer @channels {
  num_experts = 8, top_k = 2, hidden_size = 336, intermediate_size = 200, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16,
  quant = #moe.quant<fp8_channel>, routing = #moe.routing<default>, activation = #moe.activation<silu_no_mul>, parallel = #moe.parallel<>,
  intermediate_size_per_partition = 200, local_begin = 0, local_experts = 8, w2_bias = true}

// Static scales of all experts, of which the largest is used.
// CHECK-LABEL: moe.program @tensors_sm_90a
// CHECK: %[[S13:[a-z0-9_]+]]: tensor<8x2xf32>, %[[S2:[a-z0-9_]+]]: tensor<8x1xf32>, %[[A1:[a-z0-9_]+]]: tensor<8xf32>, %[[A2:[a-z0-9_]+]]: tensor<8xf32>):
// CHECK: %{{.*}}, %[[QS:[a-z0-9_]+]] = moe.quantize <f8E4M3FN, group = [-1, -1], scale = f32> %{{.*}} scale %[[A1]] : (tensor<?x336xbf16>, tensor<8xf32>) -> (tensor<?x336xf8E4M3FN>, tensor<1xf32>)
// CHECK: lhs_scale %[[QS]] rhs_scale %[[S13]]
// CHECK: moe.quantize {{.*}} scale %[[A2]] offsets
moe.layer @tensors {
  num_experts = 8, top_k = 2, hidden_size = 336, intermediate_size = 200, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16,
  quant = #moe.quant<fp8_tensor>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>,
  intermediate_size_per_partition = 200, local_begin = 0, local_experts = 8, w2_bias = true}

// A dynamic scale of all values in two steps. Only rows that exist count.
// CHECK-LABEL: moe.program @dynamic_sm_90a
// CHECK-SAME: "w13", "w2", "w13_scale", "w2_scale"] {
// CHECK: %[[AX:[a-z0-9_]+]] = moe.amax block_rows = 32 %[[X:[a-z0-9_]+]] valid %[[VALID:[a-z0-9_]+]] : (tensor<?x336xbf16>, tensor<1xi32>) -> tensor<?xf32>
// CHECK-NEXT: moe.quantize <f8E4M3FN, group = [-1, -1], scale = f32, dynamic> %[[X]] block_rows = 32 amax %[[AX]] valid %[[VALID]] :
// CHECK: %[[AT:[a-z0-9_]+]] = moe.amax block_rows = 32 %[[T:[a-z0-9_]+]] offsets %[[OFF:[a-z0-9_]+]] :
// CHECK-NEXT: moe.quantize <f8E4M3FN, group = [-1, -1], scale = f32, dynamic> %[[T]] block_rows = 32 amax %[[AT]] offsets %[[OFF]] :
moe.layer @dynamic {
  num_experts = 8, top_k = 2, hidden_size = 336, intermediate_size = 200, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16,
  quant = #moe.quant<fp8_tensor_dynamic>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>,
  intermediate_size_per_partition = 200, local_begin = 0, local_experts = 8, w2_bias = true}

// A residual is added by the sum over experts; x and out of a latent layer are
// as wide as its experts.
// CHECK-LABEL: moe.program @residual_sm_90a
// CHECK-SAME: inputs ["x", "logits", "given_ids", "given_weights", "valid_tokens", "residual", "w13", "w2"] {
// CHECK: %x: tensor<?x48xbf16>, {{.*}}, %residual: tensor<?x48xf32>, %w13: tensor<8x128x48xbf16>, %w2: tensor<8x48x64xbf16>):
// CHECK: moe.combine {{.*}} residual %residual : (tensor<?x48xf32>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<?x48xf32>) -> tensor<?x48xf32>
moe.layer @residual {
  num_experts = 8, top_k = 2, hidden_size = 96, latent_hidden_size = 48, intermediate_size = 64, in_dtype = bf16, out_dtype = f32, router_logits_dtype = bf16,
  quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, residual,
  intermediate_size_per_partition = 64, local_begin = 0, local_experts = 8, w2_bias = true}

// Rows of pairs and their places are what the caller gets.
// CHECK-LABEL: moe.program @deferred_sm_90a
// CHECK: %{{.*}}, %[[POS:positions]], {{.*}} = moe.permute
// CHECK: %[[Y:.*]] = moe.grouped_matmul {{.*}} -> tensor<?x48xbf16>
// CHECK-NEXT: moe.return %[[Y]], %[[POS]] outputs ["partials", "positions"] optional %{{.*}} as ["ids", "weights", "counts"]
moe.layer @deferred {
  num_experts = 8, top_k = 2, hidden_size = 48, intermediate_size = 64, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16,
  quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, defer_moe_finalize,
  intermediate_size_per_partition = 64, local_begin = 0, local_experts = 8, w2_bias = true}

// Places of weights: of 8 experts and 2 replicas, as the maps say, and of one
// more that every token takes.
// CHECK-LABEL: moe.program @placed_sm_90a
// CHECK-SAME: inputs ["x", "logits", "given_ids", "given_weights", "valid_tokens", "logical_to_physical", "replica_count", "expert_map", "shared_gate", "w13", "w2"] {
// CHECK: %logical_to_physical: tensor<8x3xi32>, %replica_count: tensor<8xi32>, %expert_map: tensor<10xi32>, %shared_gate: tensor<?x1xbf16>, %w13: tensor<11x128x48xbf16>
// CHECK: moe.route <default> top_k = 2 %logits given(%given_ids, %given_weights) valid %valid_tokens replicas(%logical_to_physical, %replica_count) map %expert_map physical = 10 shared = 1 gate %shared_gate :
// CHECK-SAME: -> (tensor<?x3xi32>, tensor<?x3xf32>)
// CHECK-NEXT: moe.count experts = 11
// CHECK-NEXT: moe.permute experts = 11 {{.*}} capacity = "tokens * 3"
moe.layer @placed {
  num_experts = 8, top_k = 2, hidden_size = 48, intermediate_size = 64, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16,
  quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, enable_eplb, expert_map,
  num_redundant_experts = 2, n_shared_experts = 1, shared_expert_gate, intermediate_size_per_partition = 64, local_begin = 0, local_experts = 11, w2_bias = true}

// What x is quantized to, and its scales, come from the caller.
// CHECK-LABEL: moe.program @quantized_x_sm_90a
// CHECK-SAME: inputs ["x", "x_scale", "logits",
// CHECK: %x: tensor<?x336xf8E4M3FN>, %x_scale: tensor<?x3xf32>,
// CHECK: moe.permute
// CHECK-NEXT: moe.grouped_matmul pairs = 2 {{.*}} %x gather {{.*}} lhs_scale %x_scale rhs_scale %w13_scale :
moe.layer @quantized_x {
  num_experts = 8, top_k = 2, hidden_size = 336, intermediate_size = 208, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16,
  quant = #moe.quant<fp8_block>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, input_quantized,
  intermediate_size_per_partition = 208, local_begin = 0, local_experts = 8, w2_bias = true}

// What adapters give joins the rows of its pairs.
// CHECK-LABEL: moe.program @adapters_sm_90a
// CHECK: %gate_up_addend: tensor<?x128xbf16>, %down_addend: tensor<?x48xbf16>,
// CHECK: %[[ROWS:[a-z0-9_]+]], {{.*}} = moe.permute
// CHECK: moe.activate <silu> %{{[a-z0-9_]+}} offsets %{{[a-z0-9_]+}} addend(%gate_up_addend, %[[ROWS]]) :
// CHECK: moe.combine {{.*}} addend %down_addend :
moe.layer @adapters {
  num_experts = 8, top_k = 2, hidden_size = 48, intermediate_size = 64, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16,
  quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, is_lora_enabled,
  intermediate_size_per_partition = 64, local_begin = 0, local_experts = 8, w2_bias = true}

// Weights multiply x before it is rounded, row by row of the pairs, and nothing
// after; a shared expert's row is x itself.
// CHECK-LABEL: moe.program @weight_on_input_sm_90a
// CHECK: %[[I:[a-z0-9_]+]], %[[W:[a-z0-9_]+]] = moe.route <llama4> top_k = 1 {{.*}} shared = 1 :
// CHECK: moe.permute
// CHECK-NEXT: %[[Q:[a-z0-9_]+]] = moe.quantize <bf16> %{{.*}} weights %[[W]] : (tensor<?x64xbf16>, tensor<?x2xf32>) -> tensor<?x64xbf16>
// CHECK-NEXT: moe.grouped_matmul pairs = 1 {{.*}} %[[Q]] gather
// CHECK: %[[OUT:[a-z0-9_]+]] = moe.combine %{{.*}}, %{{[a-z0-9_]+}} : (tensor<?x64xf32>, tensor<?x2xi32>) -> tensor<?x64xbf16>
// CHECK-NEXT: moe.return %[[OUT]] outputs ["out"] optional %[[I]], %[[W]],
moe.layer @weight_on_input {
  num_experts = 8, top_k = 1, hidden_size = 64, intermediate_size = 64, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16,
  quant = #moe.quant<bf16>, routing = #moe.routing<llama4>, activation = #moe.activation<silu>, parallel = #moe.parallel<>,
  apply_router_weight_on_input, n_shared_experts = 1,
  intermediate_size_per_partition = 64, local_begin = 0, local_experts = 9, w2_bias = true}

// One scale of all: its maximum is of the same products.
// CHECK-LABEL: moe.program @weight_on_quantized_sm_90a
// CHECK: %[[I:[a-z0-9_]+]], %[[W:[a-z0-9_]+]] = moe.route <llama4>
// CHECK: %[[A:[a-z0-9_]+]] = moe.amax block_rows = 32 %[[X:[a-z0-9_]+]] weights %[[W]] valid %[[V:[a-z0-9_]+]] :
// CHECK-NEXT: moe.quantize <f8E4M3FN, group = [-1, -1], scale = f32, dynamic> %[[X]] weights %[[W]] block_rows = 32 amax %[[A]] valid %[[V]] :
moe.layer @weight_on_quantized {
  num_experts = 8, top_k = 1, hidden_size = 64, intermediate_size = 64, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16,
  quant = #moe.quant<fp8_tensor_dynamic>, routing = #moe.routing<llama4>, activation = #moe.activation<silu>, parallel = #moe.parallel<>,
  apply_router_weight_on_input, intermediate_size_per_partition = 64, local_begin = 0, local_experts = 8, w2_bias = true}

// Of zero experts there are logits and no weights; the first rank adds them,
// which is known when it runs.
// CHECK-LABEL: moe.program @zero_sm_90a
// CHECK: %w13: tensor<4x128x64xbf16>
// CHECK: %[[I:[a-z0-9_]+]], %[[W:[a-z0-9_]+]] = moe.route <default> top_k = 2 {{.*}} zero = 4 : (tensor<?x12xbf16>,
// CHECK-NEXT: moe.count experts = 8
// CHECK: moe.combine %{{.*}}, %{{[a-z0-9_]+}}, %[[W]] identity(%{{[a-z0-9_]+}}, %[[I]]) identity_of_rank : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<?x64xbf16>, tensor<?x2xi32>) -> tensor<?x64xbf16>
// CHECK-LABEL: moe.program @zero_of_another_rank_sm_90a
// CHECK: moe.route {{.*}} zero = 4 :
// CHECK: moe.combine {{.*}} identity_of_rank : (tensor
moe.layer @zero {
  num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 64, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16,
  quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 2, ep>,
  num_zero_experts = 4, intermediate_size_per_partition = 64, local_begin = 0, local_experts = 4, w2_bias = true}
moe.layer @zero_of_another_rank {
  num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 64, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16,
  quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 2, tp_rank = 1, ep>,
  num_zero_experts = 4, intermediate_size_per_partition = 64, local_begin = 4, local_experts = 4, w2_bias = true}

// Rows that come by expert: nothing is routed, gathered or summed, and the
// second matmul writes the output. What is quantized has a count of rows.
// CHECK-LABEL: moe.program @batched_sm_90a
// CHECK-SAME: inputs ["x", "expert_num_tokens", "w13", "w2", "w13_scale", "w2_scale"] {
// CHECK-NEXT: ^bb0(%[[X:[a-z0-9_]+]]: tensor<?x256xbf16>, %[[C:[a-z0-9_]+]]: tensor<2xi32>, %[[W13:[a-z0-9_]+]]: tensor<2x256x256xf8E4M3FN>, %[[W2:[a-z0-9_]+]]: tensor<2x256x128xf8E4M3FN>, {{.*}}):
// CHECK-NEXT: moe.variant
// CHECK-NEXT: %[[T:[a-z0-9_]+]], %[[TC:[a-z0-9_]+]] = moe.batch tile_rows = 0 %[[C]] : (tensor<2xi32>) -> (tensor<?x4xi32>, tensor<3xi32>)
// CHECK-NEXT: %[[Q:[a-z0-9_]+]], %[[QS:[a-z0-9_]+]] = moe.quantize <f8E4M3FN, group = [1, 128], scale = f32, dynamic> %[[X]] counts %[[C]] :
// CHECK-NEXT: %[[H:[a-z0-9_]+]] = moe.grouped_matmul {{.*}} %[[Q]] tiles(%[[T]], %[[TC]]), %[[W13]] lhs_scale %[[QS]] {{.*}} -> tensor<?x256xf32>
// CHECK-NEXT: %[[A:[a-z0-9_]+]] = moe.activate <silu> %[[H]] : (tensor<?x256xf32>) -> tensor<?x128xf32>
// CHECK-NEXT: %[[AQ:[a-z0-9_]+]], %[[AS:[a-z0-9_]+]] = moe.quantize <f8E4M3FN, group = [1, 128], scale = f32, dynamic> %[[A]] counts %[[C]] :
// CHECK-NEXT: %[[Y:[a-z0-9_]+]] = moe.grouped_matmul {{.*}} %[[AQ]] tiles(%[[T]], %[[TC]]), %[[W2]] lhs_scale %[[AS]] {{.*}} -> tensor<?x256xbf16>
// CHECK-NEXT: moe.return %[[Y]] outputs ["out"] : (tensor<?x256xbf16>) -> ()
moe.layer @batched {
  num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 128, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16,
  quant = #moe.quant<fp8_block>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<dp = 4, dp_rank = 2, ep>,
  activation_format = "batched", intermediate_size_per_partition = 128, local_begin = 4, local_experts = 2, w2_bias = true}
