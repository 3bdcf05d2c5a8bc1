// RUN: moec-opt --moe-choose-backend --moe-form-kernels --moe-select-schedule --split-input-file --verify-diagnostics %s

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
    %rows, %positions, %offsets, %tiles, %tile_count, %expert_counts = moe.permute experts = 8 tile_rows = 24 block_tokens = 0 %ids, %counts
        : (tensor<?x2xi32>, tensor<?x8xi32>) -> (tensor<?xi32>, tensor<?x2xi32>, tensor<9xi32>, tensor<?x4xi32>, tensor<3xi32>, tensor<8xi32>)
    // expected-error @+1 {{no schedule of engine 'wgmma' is legal for tiles of 24 rows on sm_90a; multiples of 16 up to 256 are}}
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

// -----

moe.layer @tiny {
  num_experts = 8,
  top_k = 2,
  hidden_size = 64,
  intermediate_size = 32,
  in_dtype = bf16,
  out_dtype = bf16,
  router_logits_dtype = bf16,
  quant = #moe.quant<bf16>,
  routing = #moe.routing<renormalize>,
  activation = #moe.activation<silu>,
  parallel = #moe.parallel<>,
  local_begin = 0,
  local_experts = 8,
  intermediate_size_per_partition = 32,
  w2_bias = true
}
moe.program @tiny_sm_90a of @tiny for #moe.target<sm_90a> max_tokens 64 inputs ["x", "logits", "given_ids", "given_weights", "valid_tokens", "w13", "w2"] report #moe.report<backend = grouped, engine = wgmma> {
^bb0(%x: tensor<?x64xbf16>, %logits: tensor<?x8xbf16>, %given_ids: tensor<?x2xi32>, %given_weights: tensor<?x2xf32>, %valid_tokens: tensor<1xi32>, %w13: tensor<8x64x64xbf16>, %w2: tensor<8x64x32xbf16>):
  %packed = moe.pack %w13 : tensor<8x64x64xbf16> -> tensor<8x64x64xbf16, #moe.layout<interleave = 8>>
  // expected-error @+1 {{a cluster of 8 CTAs of 7 tokens routes and permutes 56, up to 64 are launched}}
  moe.kernel @all_route_permute kind = route_permute fields ["logits", "given_ids", "given_weights", "valid_tokens"] results ["topk_ids", "topk_weights", "rows", "positions", "offsets", "tiles", "tile_count", "counts"] {
  ^bb0(%logits_0: tensor<?x8xbf16>, %given_ids_1: tensor<?x2xi32>, %given_weights_2: tensor<?x2xf32>, %valid_tokens_3: tensor<1xi32>):
    %ids, %weights = moe.route <renormalize> top_k = 2 %logits_0 given(%given_ids_1, %given_weights_2) valid %valid_tokens_3 : (tensor<?x8xbf16>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<1xi32>) -> (tensor<?x2xi32>, tensor<?x2xf32>)
    %block_counts = moe.count experts = 8 block_tokens = 7 %ids : (tensor<?x2xi32>) -> tensor<?x8xi32>
    %rows, %positions, %offsets, %tiles, %tile_count, %counts = moe.permute experts = 8 tile_rows = 16 block_tokens = 7 %ids, %block_counts : (tensor<?x2xi32>, tensor<?x8xi32>) -> (tensor<?xi32>, tensor<?x2xi32>, tensor<9xi32>, tensor<?x4xi32>, tensor<3xi32>, tensor<8xi32>)
    moe.yield %ids, %weights, %rows, %positions, %offsets, %tiles, %tile_count, %counts : tensor<?x2xi32>, tensor<?x2xf32>, tensor<?xi32>, tensor<?x2xi32>, tensor<9xi32>, tensor<?x4xi32>, tensor<3xi32>, tensor<8xi32>
  }
  moe.kernel @all_gate_up kind = grouped_matmul fields ["lhs", "rows", "tiles", "tile_count", "rhs"] results ["result"] {
  ^bb0(%lhs: tensor<?x64xbf16>, %rows: tensor<?xi32>, %tiles: tensor<?x4xi32>, %tile_count: tensor<3xi32>, %rhs: tensor<8x64x64xbf16, #moe.layout<interleave = 8>>):
    %h = moe.grouped_matmul pairs = 2 %lhs gather %rows tiles(%tiles, %tile_count), %rhs : (tensor<?x64xbf16>, tensor<?xi32>, tensor<?x4xi32>, tensor<3xi32>, tensor<8x64x64xbf16, #moe.layout<interleave = 8>>) -> tensor<?x64xf32>
    %t = moe.activate <silu> interleave = 8 %h : (tensor<?x64xf32>) -> tensor<?x32xbf16>
    moe.yield %t : tensor<?x32xbf16>
  }
  moe.kernel @all_down kind = grouped_matmul fields ["lhs", "tiles", "tile_count", "rhs"] results ["result"] {
  ^bb0(%lhs: tensor<?x32xbf16>, %tiles: tensor<?x4xi32>, %tile_count: tensor<3xi32>, %rhs: tensor<8x64x32xbf16>):
    %y = moe.grouped_matmul %lhs tiles(%tiles, %tile_count), %rhs : (tensor<?x32xbf16>, tensor<?x4xi32>, tensor<3xi32>, tensor<8x64x32xbf16>) -> tensor<?x64xf32>
    moe.yield %y : tensor<?x64xf32>
  }
  moe.kernel @all_combine kind = combine fields ["partials", "positions", "topk_weights"] results ["out"] {
  ^bb0(%partials: tensor<?x64xf32>, %positions: tensor<?x2xi32>, %topk_weights: tensor<?x2xf32>):
    %out = moe.combine %partials, %positions, %topk_weights : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>) -> tensor<?x64xbf16>
    moe.yield %out : tensor<?x64xbf16>
  }
  moe.variant @all tokens[1, 64] {
    %topk_ids, %topk_weights, %rows, %positions, %offsets, %tiles, %tile_count, %counts = moe.launch @all_route_permute(%logits, %given_ids, %given_weights, %valid_tokens) results ["topk_ids", "topk_weights", "rows", "positions", "offsets", "tiles", "tile_count", "counts"] : (tensor<?x8xbf16>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<1xi32>) -> (tensor<?x2xi32>, tensor<?x2xf32>, tensor<?xi32>, tensor<?x2xi32>, tensor<9xi32>, tensor<?x4xi32>, tensor<3xi32>, tensor<8xi32>)
    %t = moe.launch @all_gate_up(%x, %rows, %tiles, %tile_count, %packed) results ["t"] : (tensor<?x64xbf16>, tensor<?xi32>, tensor<?x4xi32>, tensor<3xi32>, tensor<8x64x64xbf16, #moe.layout<interleave = 8>>) -> tensor<?x32xbf16>
    %y_f32 = moe.launch @all_down(%t, %tiles, %tile_count, %w2) results ["y_f32"] : (tensor<?x32xbf16>, tensor<?x4xi32>, tensor<3xi32>, tensor<8x64x32xbf16>) -> tensor<?x64xf32>
    %out = moe.launch @all_combine(%y_f32, %positions, %topk_weights) results ["out"] : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>) -> tensor<?x64xbf16>
    moe.return %out outputs ["out"] optional %topk_ids, %topk_weights, %counts as ["ids", "weights", "counts"] : (tensor<?x64xbf16>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<8xi32>) -> ()
  }
}

// -----

moe.layer @tiny {
  num_experts = 8,
  top_k = 2,
  hidden_size = 64,
  intermediate_size = 32,
  in_dtype = bf16,
  out_dtype = bf16,
  router_logits_dtype = bf16,
  quant = #moe.quant<bf16>,
  routing = #moe.routing<renormalize>,
  activation = #moe.activation<silu>,
  parallel = #moe.parallel<>,
  local_begin = 0,
  local_experts = 8,
  intermediate_size_per_partition = 32,
  w2_bias = true
}
moe.program @tiny_sm_80 of @tiny for #moe.target<sm_80> max_tokens 64 inputs ["x", "logits", "given_ids", "given_weights", "valid_tokens", "w13", "w2"] report #moe.report<backend = grouped, engine = mma_sync> {
^bb0(%x: tensor<?x64xbf16>, %logits: tensor<?x8xbf16>, %given_ids: tensor<?x2xi32>, %given_weights: tensor<?x2xf32>, %valid_tokens: tensor<1xi32>, %w13: tensor<8x64x64xbf16>, %w2: tensor<8x64x32xbf16>):
  %packed = moe.pack %w13 : tensor<8x64x64xbf16> -> tensor<8x64x64xbf16, #moe.layout<interleave = 8>>
  // expected-error @+1 {{one CTA routes and permutes 8 tokens, up to 64 are launched, and sm_80 has no clusters}}
  moe.kernel @all_route_permute kind = route_permute fields ["logits", "given_ids", "given_weights", "valid_tokens"] results ["topk_ids", "topk_weights", "rows", "positions", "offsets", "tiles", "tile_count", "counts"] {
  ^bb0(%logits_0: tensor<?x8xbf16>, %given_ids_1: tensor<?x2xi32>, %given_weights_2: tensor<?x2xf32>, %valid_tokens_3: tensor<1xi32>):
    %ids, %weights = moe.route <renormalize> top_k = 2 %logits_0 given(%given_ids_1, %given_weights_2) valid %valid_tokens_3 : (tensor<?x8xbf16>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<1xi32>) -> (tensor<?x2xi32>, tensor<?x2xf32>)
    %block_counts = moe.count experts = 8 block_tokens = 8 %ids : (tensor<?x2xi32>) -> tensor<?x8xi32>
    %rows, %positions, %offsets, %tiles, %tile_count, %counts = moe.permute experts = 8 tile_rows = 16 block_tokens = 8 %ids, %block_counts : (tensor<?x2xi32>, tensor<?x8xi32>) -> (tensor<?xi32>, tensor<?x2xi32>, tensor<9xi32>, tensor<?x4xi32>, tensor<3xi32>, tensor<8xi32>)
    moe.yield %ids, %weights, %rows, %positions, %offsets, %tiles, %tile_count, %counts : tensor<?x2xi32>, tensor<?x2xf32>, tensor<?xi32>, tensor<?x2xi32>, tensor<9xi32>, tensor<?x4xi32>, tensor<3xi32>, tensor<8xi32>
  }
  moe.kernel @all_gate_up kind = grouped_matmul fields ["lhs", "rows", "tiles", "tile_count", "rhs"] results ["result"] {
  ^bb0(%lhs: tensor<?x64xbf16>, %rows: tensor<?xi32>, %tiles: tensor<?x4xi32>, %tile_count: tensor<3xi32>, %rhs: tensor<8x64x64xbf16, #moe.layout<interleave = 8>>):
    %h = moe.grouped_matmul pairs = 2 %lhs gather %rows tiles(%tiles, %tile_count), %rhs : (tensor<?x64xbf16>, tensor<?xi32>, tensor<?x4xi32>, tensor<3xi32>, tensor<8x64x64xbf16, #moe.layout<interleave = 8>>) -> tensor<?x64xf32>
    %t = moe.activate <silu> interleave = 8 %h : (tensor<?x64xf32>) -> tensor<?x32xbf16>
    moe.yield %t : tensor<?x32xbf16>
  }
  moe.kernel @all_down kind = grouped_matmul fields ["lhs", "tiles", "tile_count", "rhs"] results ["result"] {
  ^bb0(%lhs: tensor<?x32xbf16>, %tiles: tensor<?x4xi32>, %tile_count: tensor<3xi32>, %rhs: tensor<8x64x32xbf16>):
    %y = moe.grouped_matmul %lhs tiles(%tiles, %tile_count), %rhs : (tensor<?x32xbf16>, tensor<?x4xi32>, tensor<3xi32>, tensor<8x64x32xbf16>) -> tensor<?x64xf32>
    moe.yield %y : tensor<?x64xf32>
  }
  moe.kernel @all_combine kind = combine fields ["partials", "positions", "topk_weights"] results ["out"] {
  ^bb0(%partials: tensor<?x64xf32>, %positions: tensor<?x2xi32>, %topk_weights: tensor<?x2xf32>):
    %out = moe.combine %partials, %positions, %topk_weights : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>) -> tensor<?x64xbf16>
    moe.yield %out : tensor<?x64xbf16>
  }
  moe.variant @all tokens[1, 64] {
    %topk_ids, %topk_weights, %rows, %positions, %offsets, %tiles, %tile_count, %counts = moe.launch @all_route_permute(%logits, %given_ids, %given_weights, %valid_tokens) results ["topk_ids", "topk_weights", "rows", "positions", "offsets", "tiles", "tile_count", "counts"] : (tensor<?x8xbf16>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<1xi32>) -> (tensor<?x2xi32>, tensor<?x2xf32>, tensor<?xi32>, tensor<?x2xi32>, tensor<9xi32>, tensor<?x4xi32>, tensor<3xi32>, tensor<8xi32>)
    %t = moe.launch @all_gate_up(%x, %rows, %tiles, %tile_count, %packed) results ["t"] : (tensor<?x64xbf16>, tensor<?xi32>, tensor<?x4xi32>, tensor<3xi32>, tensor<8x64x64xbf16, #moe.layout<interleave = 8>>) -> tensor<?x32xbf16>
    %y_f32 = moe.launch @all_down(%t, %tiles, %tile_count, %w2) results ["y_f32"] : (tensor<?x32xbf16>, tensor<?x4xi32>, tensor<3xi32>, tensor<8x64x32xbf16>) -> tensor<?x64xf32>
    %out = moe.launch @all_combine(%y_f32, %positions, %topk_weights) results ["out"] : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>) -> tensor<?x64xbf16>
    moe.return %out outputs ["out"] optional %topk_ids, %topk_weights, %counts as ["ids", "weights", "counts"] : (tensor<?x64xbf16>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<8xi32>) -> ()
  }
}
