// RUN: moec-opt "--moe-pipeline=archs=sm_80 max-tokens=1024 emit=kernels" %s | FileCheck %s
// RUN: moec-opt "--moe-pipeline=archs=sm_80 max-tokens=8 emit=kernels" %s | FileCheck %s --check-prefix=EIGHT
// RUN: moec-opt "--moe-pipeline=archs=sm_80 max-tokens=9 emit=kernels" %s | FileCheck %s --check-prefix=NINE
// RUN: moec-opt "--moe-pipeline=archs=sm_80 max-tokens=32 emit=kernels" %s | FileCheck %s --check-prefix=MOST
// RUN: moec-opt "--moe-pipeline=archs=sm_80 max-tokens=64 emit=kernels" %s | FileCheck %s --check-prefix=MORE
// RUN: moec-opt "--moe-pipeline=archs=sm_90a max-tokens=256" %s | FileCheck %s --check-prefix=SUM
// RUN: moec-opt "--moe-pipeline=archs=sm_90a max-tokens=258" %s | FileCheck %s --check-prefix=SUMS

// Token counts of variants are slots of an expert, whose rows come in order: no
// kernel routes, so that no range ends at the tokens of one routing CTA.
// CHECK-LABEL: moe.program @batched_sm_80
// CHECK: moe.batch tile_rows = 16 %
// CHECK: moe.variant @up_to_8 tokens[1, 8]
// CHECK: moe.batch tile_rows = 64 %
// CHECK: moe.variant @up_to_32 tokens[9, 32]
// CHECK: moe.batch tile_rows = 128 %
// CHECK: moe.variant @up_to_1024 tokens[33, 1024]
// CHECK-NOT: moe.variant
// CHECK-LABEL: moe.program @shared_sm_80
moe.layer @batched {num_experts = 64, top_k = 2, hidden_size = 2048, intermediate_size = 256, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<dp = 4, ep>, all_to_all = "deepep_low_latency"}

// All tokens of a rank are rows of the shared experts: a tile serves as many
// tokens as its rule says, and one more has the next tile.
// EIGHT-LABEL: moe.program @shared_sm_80
// EIGHT: moe.shared_rows tile_rows = 16 {{.*}}valid
// EIGHT: moe.variant @up_to_4 tokens[1, 4]
// EIGHT: moe.shared_rows tile_rows = 16 {{.*}}valid
// EIGHT: moe.variant @up_to_8 tokens[5, 8]
// NINE-LABEL: moe.program @shared_sm_80
// NINE: moe.variant @up_to_4 tokens[1, 4]
// NINE: moe.shared_rows tile_rows = 64 {{.*}}valid
// NINE: moe.variant @up_to_9 tokens[5, 9]
// MOST-LABEL: moe.program @shared_sm_80
// MOST: moe.variant @up_to_4 tokens[1, 4]
// MOST: moe.shared_rows tile_rows = 64 {{.*}}valid
// MOST: moe.variant @up_to_32 tokens[5, 32]
// MORE-LABEL: moe.program @shared_sm_80
// MORE: moe.variant @up_to_4 tokens[1, 4]
// MORE: moe.shared_rows tile_rows = 128 {{.*}}valid
// MORE: moe.variant @up_to_64 tokens[5, 64]
moe.layer @shared {num_experts = 64, top_k = 2, hidden_size = 2048, intermediate_size = 256, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<dp = 2, ep>, n_shared_experts = 1, shared_intermediate_size = 512, all_to_all = "one_sided"}

// Each rank sums its own tokens, half of all: up to 128 of them have a CTA for
// 512 columns each.
// SUM-LABEL: moe.program @one_sided_sm_90a
// SUM-NOT: kind = finalize schedule #moe.combine_schedule<columns = 2048
// SUM: kind = finalize schedule #moe.combine_schedule<columns = 512, threads = 64, programmatic>
// SUM-NOT: kind = finalize schedule #moe.combine_schedule<columns = 2048
// SUM: moe.variant @up_to_256
// SUMS-LABEL: moe.program @one_sided_sm_90a
// SUMS: kind = finalize schedule #moe.combine_schedule<columns = 2048, threads = 256, programmatic>
// SUMS: moe.variant @up_to_258
moe.layer @one_sided {num_experts = 8, top_k = 2, hidden_size = 2048, intermediate_size = 256, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<dp = 2, ep>, all_to_all = "one_sided"}
