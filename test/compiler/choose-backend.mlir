// RUN: moec-opt --moe-choose-backend %s | FileCheck %s
// RUN: moec-opt --moe-choose-backend=backend=unfused %s | FileCheck %s --check-prefix=UNFUSED
// RUN: moec-opt --moe-choose-backend=engine=simt %s | FileCheck %s --check-prefix=SIMT
// RUN: moec-opt --moe-choose-backend --moe-choose-backend %s | FileCheck %s

// RUN: moec-opt --moe-choose-backend="exclude=wgmma,mma_sync variables=exclude" %s | FileCheck %s --check-prefix=EXCLUDE
// EXCLUDE: report #moe.report<backend = grouped, engine = simt, candidates = [
// EXCLUDE-SAME: engine = wgmma, realization = native, computed = w16a16, code = "excluded", reason = "'wgmma' is excluded by MOEC_EXCLUDE"
// EXCLUDE-SAME: choices = [<option = exclude, value = "wgmma,mma_sync", by = MOEC_EXCLUDE>]

// The candidate of highest priority that serves the layer is written on the
// program. What was not asked for is refused by name.

// CHECK: moe.program @tiny_sm_90a
// CHECK-SAME: report #moe.report<backend = grouped, engine = wgmma, candidates = [<backend = grouped, engine = wgmma, realization = native, computed = w16a16>, <backend = grouped, engine = mma_sync, realization = native, computed = w16a16>, <backend = grouped, engine = simt, realization = native, computed = w16a16>, <backend = unfused, engine = simt, realization = native, computed = w16a16>]> {
// UNFUSED: report #moe.report<backend = unfused, engine = simt, candidates = [
// UNFUSED-SAME: backend = grouped, engine = wgmma, realization = native, computed = w16a16, code = "not_requested", reason = "backend 'unfused' was requested"
// UNFUSED-SAME: backend = grouped, engine = mma_sync, realization = native, computed = w16a16, code = "not_requested", reason = "backend 'unfused' was requested"
// SIMT: report #moe.report<backend = grouped, engine = simt, candidates = [
// SIMT-SAME: backend = grouped, engine = mma_sync, realization = native, computed = w16a16, code = "not_requested", reason = "engine 'simt' was requested"

moe.layer @tiny {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32,
  in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>,
  routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>,
  intermediate_size_per_partition = 32, local_begin = 0, local_experts = 8, w2_bias = true}
moe.program @tiny_sm_90a of @tiny for #moe.target<sm_90a> max_tokens 64 inputs ["x", "logits", "given_ids", "given_weights", "valid_tokens", "w13", "w2"] {
^bb0(%x: tensor<?x64xbf16>, %logits: tensor<?x8xbf16>, %given_ids: tensor<?x2xi32>, %given_weights: tensor<?x2xf32>, %valid: tensor<1xi32>,
     %w13: tensor<8x64x64xbf16>, %w2: tensor<8x64x32xbf16>):
  %w13p = moe.pack %w13 : tensor<8x64x64xbf16> -> tensor<8x64x64xbf16, #moe.layout<interleave = 8>>
  moe.variant @all tokens [1, 64] {
    %ids, %weights = moe.route <renormalize> top_k = 2 %logits given (%given_ids, %given_weights) valid %valid
        : (tensor<?x8xbf16>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<1xi32>) -> (tensor<?x2xi32>, tensor<?x2xf32>)
    %counts = moe.count experts = 8 block_tokens = 0 %ids : (tensor<?x2xi32>) -> tensor<?x8xi32>
    %rows, %positions, %offsets, %tiles, %tile_count, %expert_counts = moe.permute experts = 8 tile_rows = 16 block_tokens = 0 %ids, %counts
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
