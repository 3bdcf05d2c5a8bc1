// RUN: moec-opt --moe-make-variants %s | FileCheck %s

// A stage that no kernel of a few tokens does: their engine is refused.
// CHECK: code = "stage_not_supported", reason = "engine 'gemv' has no kernel that does stage 'dequantize'"
// CHECK: moe.variant @up_to_64 tokens[1, 64] {
// CHECK: moe.variant @up_to_128 tokens[65, 128] {
// CHECK: moe.variant @up_to_200 tokens[129, 200] {
// CHECK-NOT: moe.variant
moe.layer @tiny {
  num_experts = 16,
  top_k = 2,
  hidden_size = 256,
  intermediate_size = 128,
  in_dtype = bf16,
  out_dtype = bf16,
  router_logits_dtype = bf16,
  quant = #moe.quant<bf16>,
  routing = #moe.routing<renormalize>,
  activation = #moe.activation<silu>,
  parallel = #moe.parallel<>,
  local_begin = 0,
  local_experts = 16,
  intermediate_size_per_partition = 128,
  w2_bias = true
}
moe.program @tiny_sm_90a of @tiny for #moe.target<sm_90a, gpu = h100_sxm> max_tokens 200 scheme "bf16" inputs ["x", "logits", "given_ids", "given_weights", "valid_tokens", "w13", "w2"] report #moe.report<backend = grouped, engine = wgmma> {
^bb0(%x: tensor<?x256xbf16>, %logits: tensor<?x16xbf16>, %given_ids: tensor<?x2xi32>, %given_weights: tensor<?x2xf32>, %valid_tokens: tensor<1xi32>, %w13: tensor<16x256x256xbf16>, %w2: tensor<16x256x128xbf16>):
  moe.variant @all tokens[1, 200] {
    %ids, %weights = moe.route <renormalize> top_k = 2 %logits given(%given_ids, %given_weights) valid %valid_tokens : (tensor<?x16xbf16>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<1xi32>) -> (tensor<?x2xi32>, tensor<?x2xf32>)
    %block_counts = moe.count experts = 16 block_tokens = 0 %ids : (tensor<?x2xi32>) -> tensor<?x16xi32>
    %rows, %positions, %offsets, %tiles, %tile_count, %counts = moe.permute experts = 16 tile_rows = 0 block_tokens = 0 capacity = "tokens * 2" %ids, %block_counts : (tensor<?x2xi32>, tensor<?x16xi32>) -> (tensor<?xi32>, tensor<?x2xi32>, tensor<17xi32>, tensor<?x4xi32>, tensor<3xi32>, tensor<16xi32>)
    %q, %scale = moe.quantize <f8E4M3FN, group = [1, 128], scale = f32, dynamic> %x : (tensor<?x256xbf16>) -> (tensor<?x256xf8E4M3FN>, tensor<?x2xf32>)
    %d = moe.dequantize <f8E4M3FN, group = [1, 128], scale = f32, dynamic> %q scale %scale : (tensor<?x256xf8E4M3FN>, tensor<?x2xf32>) -> tensor<?x256xbf16>
    %h = moe.grouped_matmul pairs = 2 gate_up = "gate_first" %d gather %rows tiles(%tiles, %tile_count), %w13 : (tensor<?x256xbf16>, tensor<?xi32>, tensor<?x4xi32>, tensor<3xi32>, tensor<16x256x256xbf16>) -> tensor<?x256xf32>
    %t = moe.activate <silu> %h offsets %offsets : (tensor<?x256xf32>, tensor<17xi32>) -> tensor<?x128xbf16>
    %y = moe.grouped_matmul %t tiles(%tiles, %tile_count), %w2 : (tensor<?x128xbf16>, tensor<?x4xi32>, tensor<3xi32>, tensor<16x256x128xbf16>) -> tensor<?x256xf32>
    %out = moe.combine %y, %positions, %weights : (tensor<?x256xf32>, tensor<?x2xi32>, tensor<?x2xf32>) -> tensor<?x256xbf16>
    moe.return %out outputs ["out"] optional %ids, %weights, %counts as ["ids", "weights", "counts"] : (tensor<?x256xbf16>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<16xi32>) -> ()
  }
}
