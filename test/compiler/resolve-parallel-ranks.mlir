// RUN: moec-opt --moe-resolve-parallel %s | FileCheck %s

// What vLLM's FusedMoEParallelConfig flattens to, every rank of its table; 8
// experts and an intermediate of 96 show who holds what. Data parallel ranks
// have tokens of their own: those are gathered before and scattered behind.

// CHECK-LABEL: moe.layer @tp2_dp1_rank0 {
// CHECK: intermediate_size_per_partition = 48,
// CHECK-NEXT: local_begin = 0,
// CHECK-NEXT: local_experts = 8,
// CHECK-NEXT: w2_bias = true,
// CHECK-NEXT: moe.communication = {reduce = 2 : i64}{{$}}
moe.layer @tp2_dp1_rank0 {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 2, tp_rank = 0>}

// CHECK-LABEL: moe.layer @tp2_dp1_rank1 {
// CHECK: intermediate_size_per_partition = 48,
// CHECK-NEXT: local_begin = 0,
// CHECK-NEXT: local_experts = 8,
// CHECK-NEXT: w2_bias = false,
// CHECK-NEXT: moe.communication = {reduce = 2 : i64},
// CHECK-NEXT: moe.first_column = 48{{$}}
moe.layer @tp2_dp1_rank1 {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 2, tp_rank = 1>}

// CHECK-LABEL: moe.layer @tp1_dp2_rank0 {
// CHECK: intermediate_size_per_partition = 48,
// CHECK-NEXT: local_begin = 0,
// CHECK-NEXT: local_experts = 8,
// CHECK-NEXT: w2_bias = true,
// CHECK-NEXT: moe.communication = {gather = 2 : i64, scatter = 2 : i64}{{$}}
moe.layer @tp1_dp2_rank0 {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<dp = 2, dp_rank = 0>}

// CHECK-LABEL: moe.layer @tp1_dp2_rank1 {
// CHECK: intermediate_size_per_partition = 48,
// CHECK-NEXT: local_begin = 0,
// CHECK-NEXT: local_experts = 8,
// CHECK-NEXT: w2_bias = false,
// CHECK-NEXT: moe.communication = {gather = 2 : i64, scatter = 2 : i64},
// CHECK-NEXT: moe.first_column = 48{{$}}
moe.layer @tp1_dp2_rank1 {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<dp = 2, dp_rank = 1>}

// CHECK-LABEL: moe.layer @tp2_dp2_rank0 {
// CHECK: intermediate_size_per_partition = 24,
// CHECK-NEXT: local_begin = 0,
// CHECK-NEXT: local_experts = 8,
// CHECK-NEXT: w2_bias = true,
// CHECK-NEXT: moe.communication = {gather = 2 : i64, reduce = 2 : i64, scatter = 2 : i64}{{$}}
moe.layer @tp2_dp2_rank0 {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 2, tp_rank = 0, dp = 2, dp_rank = 0>}

// CHECK-LABEL: moe.layer @tp2_dp2_rank1 {
// CHECK: intermediate_size_per_partition = 24,
// CHECK-NEXT: local_begin = 0,
// CHECK-NEXT: local_experts = 8,
// CHECK-NEXT: w2_bias = false,
// CHECK-NEXT: moe.communication = {gather = 2 : i64, reduce = 2 : i64, scatter = 2 : i64},
// CHECK-NEXT: moe.first_column = 24{{$}}
moe.layer @tp2_dp2_rank1 {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 2, tp_rank = 1, dp = 2, dp_rank = 0>}

// CHECK-LABEL: moe.layer @tp2_dp2_rank2 {
// CHECK: intermediate_size_per_partition = 24,
// CHECK-NEXT: local_begin = 0,
// CHECK-NEXT: local_experts = 8,
// CHECK-NEXT: w2_bias = false,
// CHECK-NEXT: moe.communication = {gather = 2 : i64, reduce = 2 : i64, scatter = 2 : i64},
// CHECK-NEXT: moe.first_column = 48{{$}}
moe.layer @tp2_dp2_rank2 {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 2, tp_rank = 0, dp = 2, dp_rank = 1>}

// CHECK-LABEL: moe.layer @tp2_dp2_rank3 {
// CHECK: intermediate_size_per_partition = 24,
// CHECK-NEXT: local_begin = 0,
// CHECK-NEXT: local_experts = 8,
// CHECK-NEXT: w2_bias = false,
// CHECK-NEXT: moe.communication = {gather = 2 : i64, reduce = 2 : i64, scatter = 2 : i64},
// CHECK-NEXT: moe.first_column = 72{{$}}
moe.layer @tp2_dp2_rank3 {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 2, tp_rank = 1, dp = 2, dp_rank = 1>}

// CHECK-LABEL: moe.layer @tp2_dp1_ep_rank0 {
// CHECK: intermediate_size_per_partition = 96,
// CHECK-NEXT: local_begin = 0,
// CHECK-NEXT: local_experts = 4,
// CHECK-NEXT: w2_bias = true,
// CHECK-NEXT: moe.communication = {reduce = 2 : i64}{{$}}
moe.layer @tp2_dp1_ep_rank0 {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 2, tp_rank = 0, ep>}

// CHECK-LABEL: moe.layer @tp2_dp1_ep_rank1 {
// CHECK: intermediate_size_per_partition = 96,
// CHECK-NEXT: local_begin = 4,
// CHECK-NEXT: local_experts = 4,
// CHECK-NEXT: w2_bias = true,
// CHECK-NEXT: moe.communication = {reduce = 2 : i64}{{$}}
moe.layer @tp2_dp1_ep_rank1 {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 2, tp_rank = 1, ep>}

// CHECK-LABEL: moe.layer @tp1_dp2_ep_rank0 {
// CHECK: intermediate_size_per_partition = 96,
// CHECK-NEXT: local_begin = 0,
// CHECK-NEXT: local_experts = 4,
// CHECK-NEXT: w2_bias = true,
// CHECK-NEXT: moe.communication = {gather = 2 : i64, scatter = 2 : i64}{{$}}
moe.layer @tp1_dp2_ep_rank0 {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<dp = 2, dp_rank = 0, ep>}

// CHECK-LABEL: moe.layer @tp1_dp2_ep_rank1 {
// CHECK: intermediate_size_per_partition = 96,
// CHECK-NEXT: local_begin = 4,
// CHECK-NEXT: local_experts = 4,
// CHECK-NEXT: w2_bias = true,
// CHECK-NEXT: moe.communication = {gather = 2 : i64, scatter = 2 : i64}{{$}}
moe.layer @tp1_dp2_ep_rank1 {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<dp = 2, dp_rank = 1, ep>}

// CHECK-LABEL: moe.layer @tp2_dp2_ep_rank0 {
// CHECK: intermediate_size_per_partition = 96,
// CHECK-NEXT: local_begin = 0,
// CHECK-NEXT: local_experts = 2,
// CHECK-NEXT: w2_bias = true,
// CHECK-NEXT: moe.communication = {gather = 2 : i64, reduce = 2 : i64, scatter = 2 : i64}{{$}}
moe.layer @tp2_dp2_ep_rank0 {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 2, tp_rank = 0, dp = 2, dp_rank = 0, ep>}

// CHECK-LABEL: moe.layer @tp2_dp2_ep_rank1 {
// CHECK: intermediate_size_per_partition = 96,
// CHECK-NEXT: local_begin = 2,
// CHECK-NEXT: local_experts = 2,
// CHECK-NEXT: w2_bias = true,
// CHECK-NEXT: moe.communication = {gather = 2 : i64, reduce = 2 : i64, scatter = 2 : i64}{{$}}
moe.layer @tp2_dp2_ep_rank1 {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 2, tp_rank = 1, dp = 2, dp_rank = 0, ep>}

// CHECK-LABEL: moe.layer @tp2_dp2_ep_rank2 {
// CHECK: intermediate_size_per_partition = 96,
// CHECK-NEXT: local_begin = 4,
// CHECK-NEXT: local_experts = 2,
// CHECK-NEXT: w2_bias = true,
// CHECK-NEXT: moe.communication = {gather = 2 : i64, reduce = 2 : i64, scatter = 2 : i64}{{$}}
moe.layer @tp2_dp2_ep_rank2 {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 2, tp_rank = 0, dp = 2, dp_rank = 1, ep>}

// CHECK-LABEL: moe.layer @tp2_dp2_ep_rank3 {
// CHECK: intermediate_size_per_partition = 96,
// CHECK-NEXT: local_begin = 6,
// CHECK-NEXT: local_experts = 2,
// CHECK-NEXT: w2_bias = true,
// CHECK-NEXT: moe.communication = {gather = 2 : i64, reduce = 2 : i64, scatter = 2 : i64}{{$}}
moe.layer @tp2_dp2_ep_rank3 {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 2, tp_rank = 1, dp = 2, dp_rank = 1, ep>}

// Prefill-context parallel ranks are as data parallel ones.

// CHECK-LABEL: moe.layer @pcp2_rank0 {
// CHECK: intermediate_size_per_partition = 96,
// CHECK-NEXT: local_begin = 0,
// CHECK-NEXT: local_experts = 4,
// CHECK-NEXT: w2_bias = true,
// CHECK-NEXT: moe.communication = {gather = 2 : i64, scatter = 2 : i64}{{$}}
moe.layer @pcp2_rank0 {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<pcp = 2, rank = 0, ep>}

// CHECK-LABEL: moe.layer @pcp2_rank1 {
// CHECK: intermediate_size_per_partition = 96,
// CHECK-NEXT: local_begin = 4,
// CHECK-NEXT: local_experts = 4,
// CHECK-NEXT: w2_bias = true,
// CHECK-NEXT: moe.communication = {gather = 2 : i64, scatter = 2 : i64}{{$}}
moe.layer @pcp2_rank1 {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<pcp = 2, rank = 1, ep>}

// Ranks that split a sequence have tokens of their own, too.

// CHECK-LABEL: moe.layer @sp2_rank0 {
// CHECK: intermediate_size_per_partition = 96,
// CHECK-NEXT: local_begin = 0,
// CHECK-NEXT: local_experts = 4,
// CHECK-NEXT: w2_bias = true,
// CHECK-NEXT: moe.communication = {gather = 2 : i64, scatter = 2 : i64}{{$}}
moe.layer @sp2_rank0 {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 2, sp = 2, rank = 0, ep>}

// CHECK-LABEL: moe.layer @sp2_rank1 {
// CHECK: intermediate_size_per_partition = 96,
// CHECK-NEXT: local_begin = 4,
// CHECK-NEXT: local_experts = 4,
// CHECK-NEXT: w2_bias = true,
// CHECK-NEXT: moe.communication = {gather = 2 : i64, scatter = 2 : i64}{{$}}
moe.layer @sp2_rank1 {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 2, sp = 2, rank = 1, ep>}

// Placements of 8 experts on 3 ranks: the first ones hold the remainder.

// CHECK-LABEL: moe.layer @linear_rank0 {
// CHECK: intermediate_size_per_partition = 96,
// CHECK-NEXT: local_begin = 0,
// CHECK-NEXT: local_experts = 3,
// CHECK-NEXT: w2_bias = true,
// CHECK-NEXT: moe.communication = {reduce = 3 : i64}{{$}}
moe.layer @linear_rank0 {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 3, rank = 0, ep>}

// CHECK-LABEL: moe.layer @linear_rank1 {
// CHECK: intermediate_size_per_partition = 96,
// CHECK-NEXT: local_begin = 3,
// CHECK-NEXT: local_experts = 3,
// CHECK-NEXT: w2_bias = true,
// CHECK-NEXT: moe.communication = {reduce = 3 : i64}{{$}}
moe.layer @linear_rank1 {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 3, rank = 1, ep>}

// CHECK-LABEL: moe.layer @linear_rank2 {
// CHECK: intermediate_size_per_partition = 96,
// CHECK-NEXT: local_begin = 6,
// CHECK-NEXT: local_experts = 2,
// CHECK-NEXT: w2_bias = true,
// CHECK-NEXT: moe.communication = {reduce = 3 : i64}{{$}}
moe.layer @linear_rank2 {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 3, rank = 2, ep>}

// CHECK-LABEL: moe.layer @round_robin_rank0 {
// CHECK: intermediate_size_per_partition = 96,
// CHECK-NEXT: local_begin = 0,
// CHECK-NEXT: local_experts = 3,
// CHECK-NEXT: local_stride = 3,
// CHECK-NEXT: w2_bias = true,
// CHECK-NEXT: moe.communication = {reduce = 3 : i64}{{$}}
moe.layer @round_robin_rank0 {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 3, rank = 0, ep, placement = round_robin>}

// CHECK-LABEL: moe.layer @round_robin_rank1 {
// CHECK: intermediate_size_per_partition = 96,
// CHECK-NEXT: local_begin = 1,
// CHECK-NEXT: local_experts = 3,
// CHECK-NEXT: local_stride = 3,
// CHECK-NEXT: w2_bias = true,
// CHECK-NEXT: moe.communication = {reduce = 3 : i64}{{$}}
moe.layer @round_robin_rank1 {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 3, rank = 1, ep, placement = round_robin>}

// CHECK-LABEL: moe.layer @round_robin_rank2 {
// CHECK: intermediate_size_per_partition = 96,
// CHECK-NEXT: local_begin = 2,
// CHECK-NEXT: local_experts = 2,
// CHECK-NEXT: local_stride = 3,
// CHECK-NEXT: w2_bias = true,
// CHECK-NEXT: moe.communication = {reduce = 3 : i64}{{$}}
moe.layer @round_robin_rank2 {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 3, rank = 2, ep, placement = round_robin>}

// Shards of whole runs of 8 gate rows where the sizes do not divide: 96 is 12
// runs for 5 ranks.

// CHECK-LABEL: moe.layer @uneven_rank0 {
// CHECK: intermediate_size_per_partition = 24,
// CHECK-NEXT: local_begin = 0,
// CHECK-NEXT: local_experts = 8,
// CHECK-NEXT: w2_bias = true,
// CHECK-NEXT: moe.communication = {reduce = 5 : i64}{{$}}
moe.layer @uneven_rank0 {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 5, rank = 0>}

// CHECK-LABEL: moe.layer @uneven_rank1 {
// CHECK: intermediate_size_per_partition = 24,
// CHECK-NEXT: local_begin = 0,
// CHECK-NEXT: local_experts = 8,
// CHECK-NEXT: w2_bias = false,
// CHECK-NEXT: moe.communication = {reduce = 5 : i64},
// CHECK-NEXT: moe.first_column = 24{{$}}
moe.layer @uneven_rank1 {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 5, rank = 1>}

// CHECK-LABEL: moe.layer @uneven_rank2 {
// CHECK: intermediate_size_per_partition = 16,
// CHECK-NEXT: local_begin = 0,
// CHECK-NEXT: local_experts = 8,
// CHECK-NEXT: w2_bias = false,
// CHECK-NEXT: moe.communication = {reduce = 5 : i64},
// CHECK-NEXT: moe.first_column = 48{{$}}
moe.layer @uneven_rank2 {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 5, rank = 2>}

// CHECK-LABEL: moe.layer @uneven_rank3 {
// CHECK: intermediate_size_per_partition = 16,
// CHECK-NEXT: local_begin = 0,
// CHECK-NEXT: local_experts = 8,
// CHECK-NEXT: w2_bias = false,
// CHECK-NEXT: moe.communication = {reduce = 5 : i64},
// CHECK-NEXT: moe.first_column = 64{{$}}
moe.layer @uneven_rank3 {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 5, rank = 3>}

// CHECK-LABEL: moe.layer @uneven_rank4 {
// CHECK: intermediate_size_per_partition = 16,
// CHECK-NEXT: local_begin = 0,
// CHECK-NEXT: local_experts = 8,
// CHECK-NEXT: w2_bias = false,
// CHECK-NEXT: moe.communication = {reduce = 5 : i64},
// CHECK-NEXT: moe.first_column = 80{{$}}
moe.layer @uneven_rank4 {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 5, rank = 4>}

// Of whole blocks of 128 that share a weight scale: 1408 is 11 of them.

// CHECK-LABEL: moe.layer @blocks_rank0 {
// CHECK: intermediate_size_per_partition = 256,
// CHECK-NEXT: local_begin = 0,
// CHECK-NEXT: local_experts = 8,
// CHECK-NEXT: w2_bias = true,
// CHECK-NEXT: moe.communication = {reduce = 8 : i64}{{$}}
moe.layer @blocks_rank0 {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 1408, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<fp8_block>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 8, rank = 0>}

// CHECK-LABEL: moe.layer @blocks_rank1 {
// CHECK: intermediate_size_per_partition = 256,
// CHECK-NEXT: local_begin = 0,
// CHECK-NEXT: local_experts = 8,
// CHECK-NEXT: w2_bias = false,
// CHECK-NEXT: moe.communication = {reduce = 8 : i64},
// CHECK-NEXT: moe.first_column = 256{{$}}
moe.layer @blocks_rank1 {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 1408, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<fp8_block>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 8, rank = 1>}

// CHECK-LABEL: moe.layer @blocks_rank2 {
// CHECK: intermediate_size_per_partition = 256,
// CHECK-NEXT: local_begin = 0,
// CHECK-NEXT: local_experts = 8,
// CHECK-NEXT: w2_bias = false,
// CHECK-NEXT: moe.communication = {reduce = 8 : i64},
// CHECK-NEXT: moe.first_column = 512{{$}}
moe.layer @blocks_rank2 {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 1408, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<fp8_block>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 8, rank = 2>}

// CHECK-LABEL: moe.layer @blocks_rank3 {
// CHECK: intermediate_size_per_partition = 128,
// CHECK-NEXT: local_begin = 0,
// CHECK-NEXT: local_experts = 8,
// CHECK-NEXT: w2_bias = false,
// CHECK-NEXT: moe.communication = {reduce = 8 : i64},
// CHECK-NEXT: moe.first_column = 768{{$}}
moe.layer @blocks_rank3 {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 1408, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<fp8_block>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 8, rank = 3>}

// CHECK-LABEL: moe.layer @blocks_rank4 {
// CHECK: intermediate_size_per_partition = 128,
// CHECK-NEXT: local_begin = 0,
// CHECK-NEXT: local_experts = 8,
// CHECK-NEXT: w2_bias = false,
// CHECK-NEXT: moe.communication = {reduce = 8 : i64},
// CHECK-NEXT: moe.first_column = 896{{$}}
moe.layer @blocks_rank4 {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 1408, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<fp8_block>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 8, rank = 4>}

// CHECK-LABEL: moe.layer @blocks_rank5 {
// CHECK: intermediate_size_per_partition = 128,
// CHECK-NEXT: local_begin = 0,
// CHECK-NEXT: local_experts = 8,
// CHECK-NEXT: w2_bias = false,
// CHECK-NEXT: moe.communication = {reduce = 8 : i64},
// CHECK-NEXT: moe.first_column = 1024{{$}}
moe.layer @blocks_rank5 {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 1408, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<fp8_block>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 8, rank = 5>}

// CHECK-LABEL: moe.layer @blocks_rank6 {
// CHECK: intermediate_size_per_partition = 128,
// CHECK-NEXT: local_begin = 0,
// CHECK-NEXT: local_experts = 8,
// CHECK-NEXT: w2_bias = false,
// CHECK-NEXT: moe.communication = {reduce = 8 : i64},
// CHECK-NEXT: moe.first_column = 1152{{$}}
moe.layer @blocks_rank6 {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 1408, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<fp8_block>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 8, rank = 6>}

// CHECK-LABEL: moe.layer @blocks_rank7 {
// CHECK: intermediate_size_per_partition = 128,
// CHECK-NEXT: local_begin = 0,
// CHECK-NEXT: local_experts = 8,
// CHECK-NEXT: w2_bias = false,
// CHECK-NEXT: moe.communication = {reduce = 8 : i64},
// CHECK-NEXT: moe.first_column = 1280{{$}}
moe.layer @blocks_rank7 {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 1408, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<fp8_block>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 8, rank = 7>}

// The last shard may be cut: 168 is 128 and 40.

// CHECK-LABEL: moe.layer @cut_rank0 {
// CHECK: intermediate_size_per_partition = 128,
// CHECK-NEXT: local_begin = 0,
// CHECK-NEXT: local_experts = 8,
// CHECK-NEXT: w2_bias = true,
// CHECK-NEXT: moe.communication = {reduce = 2 : i64}{{$}}
moe.layer @cut_rank0 {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 168, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<fp8_block>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 2, rank = 0>}

// CHECK-LABEL: moe.layer @cut_rank1 {
// CHECK: intermediate_size_per_partition = 40,
// CHECK-NEXT: local_begin = 0,
// CHECK-NEXT: local_experts = 8,
// CHECK-NEXT: w2_bias = false,
// CHECK-NEXT: moe.communication = {reduce = 2 : i64},
// CHECK-NEXT: moe.first_column = 128{{$}}
moe.layer @cut_rank1 {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 168, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<fp8_block>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 2, rank = 1>}

// A transport other than gathering brings rows and takes results itself; it is
// used where ranks have tokens of their own.

// CHECK-LABEL: moe.layer @exchanged {
// CHECK-NOT: activation_format
// CHECK: w2_bias = true,
// CHECK-NEXT: moe.communication = {exchange = "deepep_high_throughput"}{{$}}
moe.layer @exchanged {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<dp = 4, rank = 3, ep>, all_to_all = "deepep_high_throughput"}

// CHECK-LABEL: moe.layer @batched {
// CHECK: activation_format = "batched",
// CHECK: moe.communication = {exchange = "nixl_ep"}{{$}}
moe.layer @batched {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<dp = 4, rank = 3, ep>, all_to_all = "nixl_ep"}

// CHECK-LABEL: moe.layer @same_tokens {
// CHECK-NOT: activation_format
// CHECK: moe.communication = {reduce = 4 : i64}{{$}}
moe.layer @same_tokens {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 4, rank = 3, ep>, all_to_all = "nixl_ep"}

// The package gathers and scatters, or its caller does; groups are the same.

// CHECK-LABEL: moe.layer @by_package {
// CHECK: all_to_all = "gather_scatter"
// CHECK: moe.communication = {by_package, gather = 2 : i64, reduce = 2 : i64, scatter = 2 : i64}{{$}}
moe.layer @by_package {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 2, dp = 2, ep>, all_to_all = "gather_scatter"}

// CHECK-LABEL: moe.layer @sequence_by_package {
// CHECK: moe.communication = {by_package, gather = 4 : i64, scatter = 4 : i64}{{$}}
moe.layer @sequence_by_package {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 2, dp = 2, sp = 2, ep>, all_to_all = "gather_scatter"}

// CHECK-LABEL: moe.layer @alone {
// CHECK: all_to_all = "gather_scatter"
// CHECK-NOT: moe.communication
// CHECK: }
moe.layer @alone {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, all_to_all = "gather_scatter"}

// Names that vLLM had before are the transports that they became.

// CHECK-LABEL: moe.layer @naive {
// CHECK-NOT: all_to_all
// CHECK: moe.communication = {gather = 4 : i64, scatter = 4 : i64}{{$}}
moe.layer @naive {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<dp = 4, rank = 3, ep>, all_to_all = "naive"}

// CHECK-LABEL: moe.layer @alltoallv {
// CHECK: all_to_all = "flashinfer_nvlink_two_sided"
// CHECK: moe.communication = {exchange = "flashinfer_nvlink_two_sided"}{{$}}
moe.layer @alltoallv {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<dp = 4, rank = 3, ep>, all_to_all = "flashinfer_all2allv"}

// CHECK-LABEL: moe.layer @mori {
// CHECK: moe.communication = {exchange = "mori_high_throughput"}{{$}}
moe.layer @mori {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<dp = 4, rank = 3, ep>, all_to_all = "mori"}

// Who reduces is another's business.

// CHECK-LABEL: moe.layer @deferred {
// CHECK: moe.communication = {deferred, reduce = 4 : i64}
moe.layer @deferred {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 4, rank = 3>, skip_final_all_reduce}

// Without an all-reduce there is none to leave to the caller.
// CHECK-LABEL: moe.layer @nothing_deferred {
// CHECK: moe.communication = {gather = 2 : i64, scatter = 2 : i64}
moe.layer @nothing_deferred {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<dp = 2>, skip_final_all_reduce}
