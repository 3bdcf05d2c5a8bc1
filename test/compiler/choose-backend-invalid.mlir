// RUN: moec-opt --moe-choose-backend=engine=mma_sync --split-input-file --verify-diagnostics %s

moe.layer @tiny {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32,
  in_dtype = f32, out_dtype = f32, router_logits_dtype = f32, quant = #moe.quant<f32>,
  routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>,
  intermediate_size_per_partition = 32, local_begin = 0, local_experts = 8, w2_bias = true}
// expected-error @+1 {{no backend supports layer 'tiny' on sm_90a: grouped with mma_sync [dtype_not_supported]: engine 'mma_sync' multiplies f16, bf16, f8E4M3FN, i8, not f32}}
moe.program @tiny_sm_90a of @tiny for #moe.target<sm_90a> max_tokens 64 inputs ["x", "logits", "given_ids", "given_weights", "valid_tokens", "w13", "w2"] {
^bb0(%x: tensor<?x64xf32>, %logits: tensor<?x8xf32>, %given_ids: tensor<?x2xi32>, %given_weights: tensor<?x2xf32>, %valid: tensor<1xi32>,
     %w13: tensor<8x64x64xf32>, %w2: tensor<8x64x32xf32>):
  %w13p = moe.pack %w13 : tensor<8x64x64xf32> -> tensor<8x64x64xf32, #moe.layout<interleave = 8>>
  moe.variant @all tokens [1, 64] {
    %ids, %weights = moe.route <renormalize> top_k = 2 %logits given (%given_ids, %given_weights) valid %valid
        : (tensor<?x8xf32>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<1xi32>) -> (tensor<?x2xi32>, tensor<?x2xf32>)
    %counts = moe.count experts = 8 block_tokens = 0 %ids : (tensor<?x2xi32>) -> tensor<?x8xi32>
    %rows, %positions, %offsets, %tiles, %tile_count, %expert_counts = moe.permute experts = 8 tile_rows = 16 block_tokens = 0 %ids, %counts
        : (tensor<?x2xi32>, tensor<?x8xi32>) -> (tensor<?xi32>, tensor<?x2xi32>, tensor<9xi32>, tensor<?x4xi32>, tensor<3xi32>, tensor<8xi32>)
    %h = moe.grouped_matmul pairs = 2 %x gather %rows tiles (%tiles, %tile_count), %w13p
        : (tensor<?x64xf32>, tensor<?xi32>, tensor<?x4xi32>, tensor<3xi32>, tensor<8x64x64xf32, #moe.layout<interleave = 8>>) -> tensor<?x64xf32>
    %t = moe.activate <silu> interleave = 8 %h : (tensor<?x64xf32>) -> tensor<?x32xf32>
    %y = moe.grouped_matmul %t tiles (%tiles, %tile_count), %w2
        : (tensor<?x32xf32>, tensor<?x4xi32>, tensor<3xi32>, tensor<8x64x32xf32>) -> tensor<?x64xf32>
    %out = moe.combine %y, %positions, %weights : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>) -> tensor<?x64xf32>
    moe.return %out outputs ["out"] optional %ids, %weights, %expert_counts as ["ids", "weights", "counts"]
        : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<8xi32>) -> ()
  }
}

// -----

moe.layer @tiny {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32,
  in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>,
  routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>,
  intermediate_size_per_partition = 32, local_begin = 0, local_experts = 8, w2_bias = true}
// expected-error @+1 {{engine 'mma_sync' does not fit what an earlier phase chose: engine 'simt'; compile the layer again to ask for another}}
moe.program @tiny_sm_90a of @tiny for #moe.target<sm_90a> max_tokens 64 inputs ["x", "logits", "given_ids", "given_weights", "valid_tokens", "w13", "w2"] report #moe.report<backend = unfused, engine = simt> {
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

// -----

moe.layer @tiny {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32,
  in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>,
  routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}
// expected-error @+1 {{no stage of the program is a matmul}}
moe.program @tiny_sm_90a of @tiny for #moe.target<sm_90a> max_tokens 64 inputs ["x"] {
^bb0(%x: tensor<?x64xbf16>):
  moe.variant @all tokens [1, 64] {
    moe.return %x outputs ["out"] : (tensor<?x64xbf16>) -> ()
  }
}
