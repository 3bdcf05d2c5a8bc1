// RUN: moec-opt --moe-choose-backend --moe-form-kernels %s | FileCheck %s
// RUN: moec-opt --moe-choose-backend=backend=unfused --moe-form-kernels %s | FileCheck %s --check-prefix=UNFUSED
// RUN: moec-opt --moe-choose-backend --moe-form-kernels --moe-form-kernels %s | FileCheck %s

// Few tokens: one cluster of 8 CTAs routes and permutes. The activation is the epilogue of
// the first matmul.

// CHECK: moe.kernel @decode_route_permute kind = route_permute fields ["logits", "given_ids", "given_weights", "valid_tokens"]
// CHECK-SAME: results ["topk_ids", "topk_weights", "rows", "positions", "offsets", "tiles", "tile_count", "counts"]
// CHECK: moe.route
// CHECK: moe.count experts = 8 block_tokens = 8
// CHECK: moe.permute experts = 8 tile_rows = 16 block_tokens = 8
// CHECK: moe.yield
// CHECK: moe.kernel @decode_gate_up kind = grouped_matmul fields ["lhs", "rows", "tiles", "tile_count", "rhs"] results ["result"]
// CHECK: %[[H:.*]] = moe.grouped_matmul
// CHECK: %[[T:.*]] = moe.activate <silu> interleave = 8 %[[H]]
// CHECK: moe.yield %[[T]]
// CHECK: moe.kernel @decode_down kind = grouped_matmul fields ["lhs", "tiles", "tile_count", "rhs"] results ["result"]
// CHECK: moe.kernel @decode_combine kind = combine fields ["partials", "positions", "topk_weights"] results ["out"]
// CHECK: moe.variant @decode tokens{{ ?}}[1, 64]
// CHECK: moe.launch @decode_route_permute(%logits, %given_ids, %given_weights, %valid_tokens) results ["topk_ids", "topk_weights", "rows", "positions", "offsets", "tiles", "tile_count", "counts"]
// CHECK: moe.launch @decode_gate_up(%x, %rows, %tiles, %tile_count, %{{.*}}) results ["t"]
// CHECK: moe.launch @decode_down(%t, %tiles, %tile_count, %w2) results ["y_f32"]
// CHECK: moe.launch @decode_combine(%y_f32, %positions, %topk_weights) results ["out"]
// CHECK: moe.return %out outputs ["out"] optional %topk_ids, %topk_weights, %counts as ["ids", "weights", "counts"]

// Many tokens: routing counts per block; partial sums beyond L2 are rounded.

// CHECK: moe.kernel @prefill_route kind = route {{.*}} results ["topk_ids", "topk_weights", "block_counts"]
// CHECK: moe.count experts = 8 block_tokens = 64
// CHECK: moe.kernel @prefill_permute kind = permute fields ["topk_ids", "block_counts"] results ["rows", "positions", "offsets", "tiles", "tile_count", "counts"]
// CHECK: moe.permute experts = 8 tile_rows = 128 block_tokens = 64
// CHECK: moe.kernel @prefill_down kind = grouped_matmul
// CHECK: -> tensor<?x512xbf16>
// CHECK: moe.variant @prefill tokens{{ ?}}[65, 65536]
// CHECK: moe.launch @prefill_down({{.*}}) results ["y_bf16"]

// The slow truth: one kernel a stage, but for counting.

// UNFUSED: moe.kernel @decode_route kind = route fields
// UNFUSED: moe.kernel @decode_permute kind = permute fields
// UNFUSED: moe.kernel @decode_gate_up kind = grouped_matmul fields ["lhs", "rows", "tiles", "tile_count", "rhs"]
// UNFUSED: moe.kernel @decode_activate kind = activate fields ["input", "offsets"]
// UNFUSED: moe.kernel @decode_down kind = grouped_matmul
// UNFUSED: moe.kernel @decode_combine kind = combine
// UNFUSED: moe.launch @decode_gate_up({{.*}}) results ["h"]
// UNFUSED: moe.launch @decode_activate(%h, %offsets) results ["t"]

moe.layer @tiny {num_experts = 8, top_k = 2, hidden_size = 512, intermediate_size = 32,
  in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>,
  routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>,
  intermediate_size_per_partition = 32, local_begin = 0, local_experts = 8, w2_bias = true}
moe.program @tiny_sm_90a of @tiny for #moe.target<sm_90a> max_tokens 65536 inputs ["x", "logits", "given_ids", "given_weights", "valid_tokens", "w13", "w2"] {
^bb0(%x: tensor<?x512xbf16>, %logits: tensor<?x8xbf16>, %given_ids: tensor<?x2xi32>, %given_weights: tensor<?x2xf32>, %valid: tensor<1xi32>,
     %w13: tensor<8x64x512xbf16>, %w2: tensor<8x512x32xbf16>):
  %w13p = moe.pack %w13 : tensor<8x64x512xbf16> -> tensor<8x64x512xbf16, #moe.layout<interleave = 8>>
  moe.variant @decode tokens [1, 64] {
    %ids, %weights = moe.route <renormalize> top_k = 2 %logits given (%given_ids, %given_weights) valid %valid
        : (tensor<?x8xbf16>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<1xi32>) -> (tensor<?x2xi32>, tensor<?x2xf32>)
    %counts = moe.count experts = 8 block_tokens = 0 %ids : (tensor<?x2xi32>) -> tensor<?x8xi32>
    %rows, %positions, %offsets, %tiles, %tile_count, %expert_counts = moe.permute experts = 8 tile_rows = 16 block_tokens = 0 %ids, %counts
        : (tensor<?x2xi32>, tensor<?x8xi32>) -> (tensor<?xi32>, tensor<?x2xi32>, tensor<9xi32>, tensor<?x4xi32>, tensor<3xi32>, tensor<8xi32>)
    %h = moe.grouped_matmul pairs = 2 %x gather %rows tiles (%tiles, %tile_count), %w13p
        : (tensor<?x512xbf16>, tensor<?xi32>, tensor<?x4xi32>, tensor<3xi32>, tensor<8x64x512xbf16, #moe.layout<interleave = 8>>) -> tensor<?x64xf32>
    %t = moe.activate <silu> interleave = 8 %h : (tensor<?x64xf32>) -> tensor<?x32xbf16>
    %y = moe.grouped_matmul %t tiles (%tiles, %tile_count), %w2
        : (tensor<?x32xbf16>, tensor<?x4xi32>, tensor<3xi32>, tensor<8x512x32xbf16>) -> tensor<?x512xf32>
    %out = moe.combine %y, %positions, %weights : (tensor<?x512xf32>, tensor<?x2xi32>, tensor<?x2xf32>) -> tensor<?x512xbf16>
    moe.return %out outputs ["out"] optional %ids, %weights, %expert_counts as ["ids", "weights", "counts"]
        : (tensor<?x512xbf16>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<8xi32>) -> ()
  }
  moe.variant @prefill tokens [65, 65536] {
    %ids, %weights = moe.route <renormalize> top_k = 2 %logits given (%given_ids, %given_weights) valid %valid
        : (tensor<?x8xbf16>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<1xi32>) -> (tensor<?x2xi32>, tensor<?x2xf32>)
    %counts = moe.count experts = 8 block_tokens = 0 %ids : (tensor<?x2xi32>) -> tensor<?x8xi32>
    %rows, %positions, %offsets, %tiles, %tile_count, %expert_counts = moe.permute experts = 8 tile_rows = 128 block_tokens = 0 %ids, %counts
        : (tensor<?x2xi32>, tensor<?x8xi32>) -> (tensor<?xi32>, tensor<?x2xi32>, tensor<9xi32>, tensor<?x4xi32>, tensor<3xi32>, tensor<8xi32>)
    %h = moe.grouped_matmul pairs = 2 %x gather %rows tiles (%tiles, %tile_count), %w13p
        : (tensor<?x512xbf16>, tensor<?xi32>, tensor<?x4xi32>, tensor<3xi32>, tensor<8x64x512xbf16, #moe.layout<interleave = 8>>) -> tensor<?x64xf32>
    %t = moe.activate <silu> interleave = 8 %h : (tensor<?x64xf32>) -> tensor<?x32xbf16>
    %y = moe.grouped_matmul %t tiles (%tiles, %tile_count), %w2
        : (tensor<?x32xbf16>, tensor<?x4xi32>, tensor<3xi32>, tensor<8x512x32xbf16>) -> tensor<?x512xf32>
    %out = moe.combine %y, %positions, %weights : (tensor<?x512xf32>, tensor<?x2xi32>, tensor<?x2xf32>) -> tensor<?x512xbf16>
    moe.return %out outputs ["out"] optional %ids, %weights, %expert_counts as ["ids", "weights", "counts"]
        : (tensor<?x512xbf16>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<8xi32>) -> ()
  }
}
