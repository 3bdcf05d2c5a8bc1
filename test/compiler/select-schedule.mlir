// RUN: moec-opt --moe-choose-backend --moe-form-kernels --moe-select-schedule %s | FileCheck %s
// RUN: moec-opt --moe-choose-backend=engine=wgmma --moe-form-kernels --moe-select-schedule %s | FileCheck %s --check-prefix=WGMMA
// RUN: moec-opt --moe-choose-backend=engine=mma_sync --moe-form-kernels --moe-select-schedule %s | FileCheck %s --check-prefix=MMA
// RUN: moec-opt --moe-choose-backend=engine=simt --moe-form-kernels --moe-select-schedule %s | FileCheck %s --check-prefix=SIMT
// RUN: moec-opt --moe-choose-backend=engine=mma_sync --moe-form-kernels --moe-select-schedule=tuned=%S/Inputs/tuned.json %s | FileCheck %s --check-prefix=TUNED

// The m tile is the variant's tile rows; the rest is a measurement's where
// there is one for this GPU, shape and range, else what is known to be good,
// else the cost model's. Few rows of a small expert go through wgmma as
// many do, unless mma_sync is what was asked for.

// CHECK: moe.kernel @decode_route_permute kind = route_permute schedule #moe.block_schedule<block_tokens = 8, threads = 256, cluster = [8, 1, 1], programmatic>
// CHECK: moe.kernel @decode_gate_up kind = grouped_matmul schedule #moe.wgmma_schedule<tile = [16, 128, 64], stages = {{[0-9]+}}, group = 1, swap, producer_warps = 4, {{.*}}source = tuned>
// CHECK: moe.kernel @decode_combine kind = combine schedule #moe.combine_schedule<columns = {{[0-9]+}}, threads
// CHECK: moe.kernel @prefill_route kind = route schedule #moe.block_schedule<block_tokens = 64, threads = 1024, programmatic>
// CHECK: moe.kernel @prefill_permute kind = permute schedule #moe.block_schedule<block_tokens = 64, threads = 1024, programmatic>
// CHECK: moe.kernel @prefill_gate_up kind = grouped_matmul schedule #moe.wgmma_schedule<tile = [128, 128, 64], stages = {{[0-9]+}}, group = {{[0-9]+}}, swap, producer_warps = 4, consumer_warps = 8, registers = [56, 224], programmatic, source = tuned>
// CHECK: moe.kernel @prefill_down kind = grouped_matmul schedule #moe.wgmma_schedule<tile = [128, 128, 64]
// WGMMA: moe.kernel @decode_gate_up kind = grouped_matmul schedule #moe.wgmma_schedule<tile = [16, 128, 64], stages = 10,
// MMA: moe.kernel @decode_gate_up kind = grouped_matmul schedule #moe.mma_sync_schedule<tile = [16,
// MMA: moe.kernel @prefill_gate_up kind = grouped_matmul schedule #moe.mma_sync_schedule<tile = [128, {{128|256}}, {{[0-9]+}}]
// MMA: moe.kernel @prefill_down kind = grouped_matmul schedule #moe.mma_sync_schedule<tile = [128, 256, 64]
// SIMT: moe.kernel @decode_gate_up kind = grouped_matmul schedule #moe.simt_schedule<tile = [16, 64, 32]{{.*}} source = modelled>
// TUNED: moe.kernel @decode_gate_up kind = grouped_matmul schedule #moe.mma_sync_schedule<tile = [16, 64, 64], stages = 5, warps = [1, 4], group = 4, {{.*}}source = tuned>
// TUNED: moe.kernel @decode_down kind = grouped_matmul schedule {{.*}} group = 1,

moe.layer @tiny {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768,
  in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>,
  routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>,
  intermediate_size_per_partition = 768, local_begin = 0, local_experts = 128, w2_bias = true}
moe.program @tiny_sm_90a of @tiny for #moe.target<sm_90a, gpu = h100_sxm> max_tokens 65536 inputs ["x", "logits", "given_ids", "given_weights", "valid_tokens", "w13", "w2"] {
^bb0(%x: tensor<?x2048xbf16>, %logits: tensor<?x128xbf16>, %given_ids: tensor<?x8xi32>, %given_weights: tensor<?x8xf32>, %valid: tensor<1xi32>,
     %w13: tensor<128x1536x2048xbf16>, %w2: tensor<128x2048x768xbf16>):
  %w13p = moe.pack %w13 : tensor<128x1536x2048xbf16> -> tensor<128x1536x2048xbf16, #moe.layout<interleave = 8>>
  moe.variant @decode tokens [1, 64] {
    %ids, %weights = moe.route <renormalize> top_k = 8 %logits given (%given_ids, %given_weights) valid %valid
        : (tensor<?x128xbf16>, tensor<?x8xi32>, tensor<?x8xf32>, tensor<1xi32>) -> (tensor<?x8xi32>, tensor<?x8xf32>)
    %counts = moe.count experts = 128 block_tokens = 0 %ids : (tensor<?x8xi32>) -> tensor<?x128xi32>
    %rows, %positions, %offsets, %tiles, %tile_count, %expert_counts = moe.permute experts = 128 tile_rows = 16 block_tokens = 0 %ids, %counts
        : (tensor<?x8xi32>, tensor<?x128xi32>) -> (tensor<?xi32>, tensor<?x8xi32>, tensor<129xi32>, tensor<?x4xi32>, tensor<3xi32>, tensor<128xi32>)
    %h = moe.grouped_matmul pairs = 8 %x gather %rows tiles (%tiles, %tile_count), %w13p
        : (tensor<?x2048xbf16>, tensor<?xi32>, tensor<?x4xi32>, tensor<3xi32>, tensor<128x1536x2048xbf16, #moe.layout<interleave = 8>>) -> tensor<?x1536xf32>
    %t = moe.activate <silu> interleave = 8 %h : (tensor<?x1536xf32>) -> tensor<?x768xbf16>
    %y = moe.grouped_matmul %t tiles (%tiles, %tile_count), %w2
        : (tensor<?x768xbf16>, tensor<?x4xi32>, tensor<3xi32>, tensor<128x2048x768xbf16>) -> tensor<?x2048xf32>
    %out = moe.combine %y, %positions, %weights : (tensor<?x2048xf32>, tensor<?x8xi32>, tensor<?x8xf32>) -> tensor<?x2048xbf16>
    moe.return %out outputs ["out"] optional %ids, %weights, %expert_counts as ["ids", "weights", "counts"]
        : (tensor<?x2048xbf16>, tensor<?x8xi32>, tensor<?x8xf32>, tensor<128xi32>) -> ()
  }
  moe.variant @prefill tokens [65, 65536] {
    %ids, %weights = moe.route <renormalize> top_k = 8 %logits given (%given_ids, %given_weights) valid %valid
        : (tensor<?x128xbf16>, tensor<?x8xi32>, tensor<?x8xf32>, tensor<1xi32>) -> (tensor<?x8xi32>, tensor<?x8xf32>)
    %counts = moe.count experts = 128 block_tokens = 0 %ids : (tensor<?x8xi32>) -> tensor<?x128xi32>
    %rows, %positions, %offsets, %tiles, %tile_count, %expert_counts = moe.permute experts = 128 tile_rows = 128 block_tokens = 0 %ids, %counts
        : (tensor<?x8xi32>, tensor<?x128xi32>) -> (tensor<?xi32>, tensor<?x8xi32>, tensor<129xi32>, tensor<?x4xi32>, tensor<3xi32>, tensor<128xi32>)
    %h = moe.grouped_matmul pairs = 8 %x gather %rows tiles (%tiles, %tile_count), %w13p
        : (tensor<?x2048xbf16>, tensor<?xi32>, tensor<?x4xi32>, tensor<3xi32>, tensor<128x1536x2048xbf16, #moe.layout<interleave = 8>>) -> tensor<?x1536xf32>
    %t = moe.activate <silu> interleave = 8 %h : (tensor<?x1536xf32>) -> tensor<?x768xbf16>
    %y = moe.grouped_matmul %t tiles (%tiles, %tile_count), %w2
        : (tensor<?x768xbf16>, tensor<?x4xi32>, tensor<3xi32>, tensor<128x2048x768xbf16>) -> tensor<?x2048xf32>
    %out = moe.combine %y, %positions, %weights : (tensor<?x2048xf32>, tensor<?x8xi32>, tensor<?x8xf32>) -> tensor<?x2048xbf16>
    moe.return %out outputs ["out"] optional %ids, %weights, %expert_counts as ["ids", "weights", "counts"]
        : (tensor<?x2048xbf16>, tensor<?x8xi32>, tensor<?x8xf32>, tensor<128xi32>) -> ()
  }
}
