// RUN: moec-opt --moe-choose-backend %s | FileCheck %s

// An arch without tensor-core instructions for the type takes the next engine,
// and the report says from what and why.

// CHECK: moe.program @tiny_sm_75
// CHECK-SAME: report #moe.report<backend = grouped, engine = simt,
// CHECK-SAME: backend = grouped, engine = wgmma, realization = native, computed = w16a16, code = "feature_missing", reason = "engine 'wgmma' needs wgmma, which sm_75 lacks"
// CHECK-SAME: backend = grouped, engine = mma_sync, realization = native, computed = w16a16, code = "feature_missing", reason = "engine 'mma_sync' needs mma_sync, which sm_75 lacks"
// CHECK-SAME: degraded = "grouped with wgmma, since engine 'wgmma' needs wgmma, which sm_75 lacks"

moe.layer @tiny {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32,
  in_dtype = f16, out_dtype = f16, router_logits_dtype = f16, quant = #moe.quant<f16>,
  routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>,
  intermediate_size_per_partition = 32, local_begin = 0, local_experts = 8, w2_bias = true}
moe.program @tiny_sm_75 of @tiny for #moe.target<sm_75> max_tokens 64 inputs ["x", "logits", "given_ids", "given_weights", "valid_tokens", "w13", "w2"] {
^bb0(%x: tensor<?x64xf16>, %logits: tensor<?x8xf16>, %given_ids: tensor<?x2xi32>, %given_weights: tensor<?x2xf32>, %valid: tensor<1xi32>,
     %w13: tensor<8x64x64xf16>, %w2: tensor<8x64x32xf16>):
  %w13p = moe.pack %w13 : tensor<8x64x64xf16> -> tensor<8x64x64xf16, #moe.layout<interleave = 8>>
  moe.variant @all tokens [1, 64] {
    %ids, %weights = moe.route <renormalize> top_k = 2 %logits given (%given_ids, %given_weights) valid %valid
        : (tensor<?x8xf16>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<1xi32>) -> (tensor<?x2xi32>, tensor<?x2xf32>)
    %counts = moe.count experts = 8 block_tokens = 0 %ids : (tensor<?x2xi32>) -> tensor<?x8xi32>
    %rows, %positions, %offsets, %tiles, %tile_count, %expert_counts = moe.permute experts = 8 tile_rows = 16 block_tokens = 0 %ids, %counts
        : (tensor<?x2xi32>, tensor<?x8xi32>) -> (tensor<?xi32>, tensor<?x2xi32>, tensor<9xi32>, tensor<?x4xi32>, tensor<3xi32>, tensor<8xi32>)
    %h = moe.grouped_matmul pairs = 2 %x gather %rows tiles (%tiles, %tile_count), %w13p
        : (tensor<?x64xf16>, tensor<?xi32>, tensor<?x4xi32>, tensor<3xi32>, tensor<8x64x64xf16, #moe.layout<interleave = 8>>) -> tensor<?x64xf32>
    %t = moe.activate <silu> interleave = 8 %h : (tensor<?x64xf32>) -> tensor<?x32xf16>
    %y = moe.grouped_matmul %t tiles (%tiles, %tile_count), %w2
        : (tensor<?x32xf16>, tensor<?x4xi32>, tensor<3xi32>, tensor<8x64x32xf16>) -> tensor<?x64xf32>
    %out = moe.combine %y, %positions, %weights : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>) -> tensor<?x64xf16>
    moe.return %out outputs ["out"] optional %ids, %weights, %expert_counts as ["ids", "weights", "counts"]
        : (tensor<?x64xf16>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<8xi32>) -> ()
  }
}
