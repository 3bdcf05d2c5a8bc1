// RUN: moec-opt --moe-choose-backend --moe-form-kernels --moe-plan-workspace %s | FileCheck %s
// RUN: moec-opt --moe-choose-backend --moe-form-kernels --moe-plan-workspace --moe-plan-workspace %s | FileCheck %s

// A value has its bytes from the launch that writes it to the last that reads
// it; out, ids, weights and counts are the caller's memory.

// CHECK: moe.variant @all tokens{{ ?}}[1, 4096] workspace "{{.*}}" regions [
// CHECK-SAME: #moe.region<"topk_ids", offset = "{{.*}}", bytes = "tokens * 8", first = 0, last = 1>
// CHECK-SAME: #moe.region<"topk_weights", offset = "{{.*}}", bytes = "tokens * 8", first = 0, last = 4>
// CHECK-SAME: #moe.region<"block_counts", offset = "{{.*}}", bytes = "ceildiv(tokens, 32) * 32", first = 0, last = 1>
// CHECK-SAME: #moe.region<"rows", offset = "{{.*}}", bytes = "rows * 4", first = 1, last = 2>
// CHECK-SAME: #moe.region<"positions", {{.*}} first = 1, last = 4>
// CHECK-SAME: #moe.region<"offsets", offset = "{{.*}}", bytes = "36", first = 1, last = 1>
// CHECK-SAME: #moe.region<"tiles", offset = "{{.*}}", bytes = "min(rows, ceildiv(rows, 64) + 8) * 16", first = 1, last = 3>
// CHECK-SAME: #moe.region<"t", {{.*}} first = 2, last = 3>
// CHECK-SAME: #moe.region<"y_f32", offset = "{{.*}}", bytes = "rows * 256", first = 3, last = 4>
// CHECK-NOT: "out", offset
// CHECK-NOT: "counts", offset

moe.layer @tiny {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32,
  in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>,
  routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>,
  intermediate_size_per_partition = 32, local_begin = 0, local_experts = 8, w2_bias = true}
moe.program @tiny_sm_90a of @tiny for #moe.target<sm_90a> max_tokens 4096 inputs ["x", "logits", "given_ids", "given_weights", "valid_tokens", "w13", "w2"] {
^bb0(%x: tensor<?x64xbf16>, %logits: tensor<?x8xbf16>, %given_ids: tensor<?x2xi32>, %given_weights: tensor<?x2xf32>, %valid: tensor<1xi32>,
     %w13: tensor<8x64x64xbf16>, %w2: tensor<8x64x32xbf16>):
  %w13p = moe.pack %w13 : tensor<8x64x64xbf16> -> tensor<8x64x64xbf16, #moe.layout<interleave = 8>>
  moe.variant @all tokens [1, 4096] {
    %ids, %weights = moe.route <renormalize> top_k = 2 %logits given (%given_ids, %given_weights) valid %valid
        : (tensor<?x8xbf16>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<1xi32>) -> (tensor<?x2xi32>, tensor<?x2xf32>)
    %counts = moe.count experts = 8 block_tokens = 0 %ids : (tensor<?x2xi32>) -> tensor<?x8xi32>
    %rows, %positions, %offsets, %tiles, %tile_count, %expert_counts = moe.permute experts = 8 tile_rows = 64 block_tokens = 0 %ids, %counts
        : (tensor<?x2xi32>, tensor<?x8xi32>) -> (tensor<?xi32>, tensor<?x2xi32>, tensor<9xi32>, tensor<?x4xi32>, tensor<3xi32>, tensor<8xi32>)
    %h = moe.grouped_matmul pairs = 2 %x gather %rows tiles (%tiles, %tile_count), %w13p
        : (tensor<?x64xbf16>, tensor<?xi32>, tensor<?x4xi32>, tensor<3xi32>, tensor<8x64x64xbf16, #moe.layout<interleave = 8>>) -> tensor<?x64xf32>
    %t = moe.activate <silu> interleave = 8 %h : (tensor<?x64xf32>) -> tensor<?x32xbf16>
    %y = moe.grouped_matmul %t tiles (%tiles, %tile_count), %w2
        : (tensor<?x32xbf16>, tensor<?x4xi32>, tensor<3xi32>, tensor<8x64x32xbf16>) -> tensor<?x64xf32>
    %out = moe.combine %y, %positions, %weights : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>) -> tensor<?x64xbf16>
    moe.return %out outputs ["out"] optional %ids, %weights, %expert_counts as ["ids", "weights", "counts"]
        : (tensor<?x64xbf16>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<8xi32>) -> ()
  }
}
