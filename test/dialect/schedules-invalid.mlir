// RUN: moec-opt %s -split-input-file -verify-diagnostics

// expected-error@+1 {{unknown engine 'wmma'; known: wgmma, wgmma_rs, mma_sync_scaled, mma_sync, tcgen05, simt, gemv}}
module attributes {a = #moe.wmma_schedule<tile = [16, 64, 64]>} {}

// -----

// expected-error@+1 {{field 'tile' is missing}}
module attributes {a = #moe.mma_sync_schedule<warps = [1, 4]>} {}

// -----

// expected-error@+1 {{'tile' must have 3 numbers, got 2}}
module attributes {a = #moe.simt_schedule<tile = [16, 64], warps = [1, 4]>} {}

// -----

// expected-error@+1 {{'tile' must be positive, got 0}}
module attributes {a = #moe.simt_schedule<tile = [16, 0, 64], warps = [1, 4]>} {}

// -----

// expected-error@+1 {{'ctas_per_sm' must be at most 32, got 288230376151711744}}
module attributes {a = #moe.wgmma_schedule<tile = [64, 128, 64], stages = 4, group = 1, swap, producer_warps = 4, consumer_warps = 8, registers = [56, 224], ctas_per_sm = 288230376151711744>} {}

// -----

// expected-error@+1 {{'warps' must be at most 32, got 1152921504606846976}}
module attributes {a = #moe.mma_sync_schedule<tile = [16, 64, 64], warps = [1152921504606846976, 4]>} {}

// -----

// expected-error@+1 {{'stages' must be at least 0, got -1}}
module attributes {a = #moe.simt_schedule<tile = [16, 64, 64], stages = -1, warps = [1, 4]>} {}

// -----

// expected-error@+1 {{'threads' must be a multiple of 32 up to 1024, got 100}}
module attributes {a = #moe.block_schedule<threads = 100>} {}

// -----

// expected-error@+1 {{unknown field 'threads'; known fields: tile, stages, warps, group, ctas_per_sm, programmatic, source}}
module attributes {a = #moe.simt_schedule<tile = [16, 64, 64], threads = 128, warps = [2, 4]>} {}

// -----

// expected-error@+1 {{roles must be whole warpgroups of 4 warps, got 4 and 0}}
module attributes {a = #moe.wgmma_schedule<tile = [64, 128, 64], stages = 4, group = 1, swap, producer_warps = 4, registers = [56, 224]>} {}

// -----

// expected-error@+1 {{'threads' must be a multiple of 32 up to 1024, got 1152}}
module attributes {a = #moe.wgmma_schedule<tile = [64, 128, 64], stages = 4, group = 1, swap, producer_warps = 4, consumer_warps = 32, registers = [24, 24]>} {}

// -----

// expected-error@+1 {{unknown field 'swap'; known fields: tile, stages, warps, group, ctas_per_sm, programmatic, source}}
module attributes {a = #moe.mma_sync_schedule<tile = [64, 64, 64], warps = [1, 4], swap>} {}

// -----

// expected-error@+1 {{unknown field 'warps'; known fields: tile, stages, group, swap, producer_warps, consumer_warps, registers, ctas_per_sm, cluster, programmatic, source}}
module attributes {a = #moe.wgmma_schedule<tile = [64, 128, 64], warps = [1, 4]>} {}

// -----

// expected-error@+1 {{roles must be whole warpgroups of 4 warps, got 2 and 8}}
module attributes {a = #moe.wgmma_schedule<tile = [64, 128, 64], stages = 4, group = 1, swap, producer_warps = 2, consumer_warps = 8, registers = [56, 224]>} {}

// -----

// expected-error@+1 {{field 'registers' is missing}}
module attributes {a = #moe.wgmma_schedule<tile = [64, 128, 64], stages = 4, group = 1, swap, producer_warps = 4, consumer_warps = 8>} {}

// -----

// expected-error@+1 {{unknown source 'guessed'; known: tuned, modelled, default}}
module attributes {a = #moe.simt_schedule<tile = [16, 64, 64], warps = [1, 4], source = guessed>} {}

// -----

// expected-error@+1 {{a schedule of slices needs 'block_tokens', 'block_rows' and 'buffers', got 0, 512 and 2}}
module attributes {a = #moe.slices_schedule<tile = [64, 128, 128], stages = 4, block_rows = 512, buffers = 2, producer_warps = 4, consumer_warps = 8, registers = [56, 224]>} {}

// -----

// expected-error@+1 {{field 'warps' is missing}}
module attributes {a = #moe.mma_sync_schedule<tile = [16, 64, 64]>} {}

// -----

// expected-error@+1 {{'threads' must be a multiple of 32 up to 1024, got 2048}}
module attributes {a = #moe.mma_sync_schedule<tile = [16, 64, 64], warps = [8, 8]>} {}

// -----

// expected-error@+1 {{'tile' must be at most 65536, got 65537}}
module attributes {a = #moe.simt_schedule<tile = [16, 64, 65537], warps = [1, 4]>} {}

// -----

// expected-error@+1 {{'warps' must be at most 32, got 33}}
module attributes {a = #moe.simt_schedule<tile = [16, 64, 64], warps = [1, 33]>} {}

// -----

// expected-error@+1 {{'ctas_per_sm' must be at least 1, got 0}}
module attributes {a = #moe.simt_schedule<tile = [16, 64, 64], warps = [1, 4], ctas_per_sm = 0>} {}

// -----

// expected-error@+1 {{'producer_warps' must be at most 32, got 36}}
module attributes {a = #moe.wgmma_schedule<tile = [64, 128, 64], stages = 4, group = 1, swap, producer_warps = 36, consumer_warps = 8, registers = [56, 224]>} {}

// -----

// expected-error@+1 {{roles must be whole warpgroups of 4 warps, got 6 and 8}}
module attributes {a = #moe.wgmma_schedule<tile = [64, 128, 64], stages = 4, group = 1, swap, producer_warps = 6, consumer_warps = 8, registers = [56, 224]>} {}

// -----

// expected-error@+1 {{roles must be whole warpgroups of 4 warps, got 4 and 6}}
module attributes {a = #moe.wgmma_schedule<tile = [64, 128, 64], stages = 4, group = 1, swap, producer_warps = 4, consumer_warps = 6, registers = [56, 224]>} {}

// -----

// expected-error@+1 {{field 'tile' is missing}}
module attributes {a = #moe.wgmma_schedule<stages = 4, group = 1, swap, producer_warps = 4, consumer_warps = 8, registers = [56, 224]>} {}

// -----

// expected-error@+1 {{'cluster' must have 3 numbers, got 2}}
module attributes {a = #moe.wgmma_schedule<tile = [64, 128, 64], stages = 4, group = 1, swap, producer_warps = 4, consumer_warps = 8, registers = [56, 224], cluster = [2, 1]>} {}

// -----

// expected-error@+1 {{'threads' must be a multiple of 32 up to 1024, got 0}}
module attributes {a = #moe.block_schedule<threads = 0>} {}

// -----

// expected-error@+1 {{'threads' must be a multiple of 32 up to 1024, got 1056}}
module attributes {a = #moe.block_schedule<threads = 1056>} {}

// -----

// expected-error@+1 {{'cluster' must have 3 numbers, got 1}}
module attributes {a = #moe.block_schedule<threads = 128, cluster = [2]>} {}

// -----

// expected-error@+1 {{'block_tokens' must be at least 0, got -1}}
module attributes {a = #moe.block_schedule<block_tokens = -1, threads = 128>} {}

// -----

// expected-error@+1 {{'threads' must be a multiple of 32 up to 1024, got 100}}
module attributes {a = #moe.gemv_schedule<threads = 100>} {}

// -----

// expected-error@+1 {{'stages' must be at least 0, got -1}}
module attributes {a = #moe.gemv_schedule<threads = 128, stages = -1>} {}

// -----

// expected-error@+1 {{'threads' must be a multiple of 32 up to 1024, got 100}}
module attributes {a = #moe.combine_schedule<threads = 100>} {}

// -----

// expected-error@+1 {{'columns' must be at least 0, got -1}}
module attributes {a = #moe.combine_schedule<columns = -1, threads = 128>} {}

// -----

// expected-error@+1 {{field 'tile' is missing}}
module attributes {a = #moe.slices_schedule<stages = 4, block_tokens = 8, block_rows = 512, buffers = 2, producer_warps = 4, consumer_warps = 8, registers = [56, 224]>} {}

// -----

// expected-error@+1 {{'stages' must be at least 0, got -4}}
module attributes {a = #moe.slices_schedule<tile = [64, 128, 128], stages = -4, block_tokens = 8, block_rows = 512, buffers = 2, producer_warps = 4, consumer_warps = 8, registers = [56, 224]>} {}

// -----

// expected-error@+1 {{roles must be whole warpgroups of 4 warps, got 4 and 7}}
module attributes {a = #moe.slices_schedule<tile = [64, 128, 128], stages = 4, block_tokens = 8, block_rows = 512, buffers = 2, producer_warps = 4, consumer_warps = 7, registers = [56, 224]>} {}

// -----

// expected-error@+1 {{a schedule of slices needs 'block_tokens', 'block_rows' and 'buffers', got 8, 0 and 2}}
module attributes {a = #moe.slices_schedule<tile = [64, 128, 128], stages = 4, block_tokens = 8, buffers = 2, producer_warps = 4, consumer_warps = 8, registers = [56, 224]>} {}

// -----

// expected-error@+1 {{a schedule of slices needs 'block_tokens', 'block_rows' and 'buffers', got 8, 512 and 0}}
module attributes {a = #moe.slices_schedule<tile = [64, 128, 128], stages = 4, block_tokens = 8, block_rows = 512, producer_warps = 4, consumer_warps = 8, registers = [56, 224]>} {}
