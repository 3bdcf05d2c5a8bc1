// RUN: moec-opt --verify-roundtrip %s | FileCheck %s

// What has its default is not printed, and four descriptors of a named scheme
// are that scheme.
// CHECK-LABEL: module @names
// CHECK-SAME: moe.a = #moe.quant<bf16>
// CHECK-SAME: moe.b = #moe.quant<f16>
// CHECK-SAME: moe.c = #moe.quant<a1 = <f16>, a2 = <f16>, w1 = <i4, group = [1, 128], scale = f16>, w2 = <i4, group = [1, 128], scale = f16>>
// CHECK-SAME: moe.d = #moe.routing<topk>
// CHECK-SAME: moe.e = #moe.routing<auto, scoring = sigmoid, renormalize, groups = 8, top_groups = 4, scale = 2.5{{[^,>]*}}, bias>
// CHECK-SAME: moe.f = #moe.activation<gelu_no_mul>
// CHECK-SAME: moe.g = #moe.activation<silu, alpha = 1.702{{[^,>]*}}, beta = 1.0{{[^,>]*}}, linear_beta = 2.5{{[^,>]*}}, limit = 7.0{{[^,>]*}}>
// CHECK-SAME: moe.h = #moe.parallel<>
// CHECK-SAME: moe.i = #moe.parallel<tp = 2, pcp = 2, dp = 2, sp = 2, ep, placement = round_robin, rank = 7>
module @names attributes {
  moe.a = #moe.quant<bf16>,
  moe.b = #moe.quant<a1 = <f16>, a2 = <f16>, w1 = <f16>, w2 = #moe.descriptor<f16>>,
  moe.c = #moe.quant<w2 = <i4, group = [1, 128], scale = f16>, a1 = <f16>, a2 = <f16>, w1 = <i4, scale = f16, group = [1, 128]>>,
  moe.d = #moe.routing<topk>,
  moe.e = #moe.routing<auto, bias, scale = 2.5, groups = 8, top_groups = 4, renormalize, scoring = sigmoid>,
  moe.f = #moe.activation<gelu_no_mul>,
  moe.g = #moe.activation<silu, alpha = 1.702, beta = 1.0, linear_beta = 2.5, limit = 7.0>,
  moe.h = #moe.parallel<tp = 1, dp_rank = 0, placement = linear>,
  moe.i = #moe.parallel<tp = 2, pcp = 2, dp = 2, sp = 2, rank = 7, ep, placement = round_robin>
} {}

// CHECK-LABEL: module @descriptors
// CHECK-SAME: moe.a = #moe.descriptor<f8E4M3FN, group = [-1, -1], scale = f32>
// CHECK-SAME: moe.b = #moe.descriptor<f8E4M3FN, group = [1, -1], scale = f32, dynamic>
// CHECK-SAME: moe.c = #moe.descriptor<f8E4M3FN, group = [128, 128], scale = f8E8M0FNU>
// CHECK-SAME: moe.d = #moe.descriptor<f4E2M1FN, group = [1, 32], scale = f8E8M0FNU>
// CHECK-SAME: moe.e = #moe.descriptor<f4E2M1FN, group = [1, 16], scale = f8E4M3FN, second_scale = f32>
// CHECK-SAME: moe.f = #moe.descriptor<i4, group = [1, 64], scale = bf16, zero_point = i4>
// CHECK-SAME: moe.g = #moe.descriptor<f4E2M1FN, group = [1, 32], scale = f8E8M0FNU, dynamic, scale_rule = floor>
// CHECK-SAME: moe.h = #moe.descriptor<f4E2M1FN, group = [1, 16], scale = f8E4M3FN, dynamic, second_scale = f32, second_per_row>
module @descriptors attributes {
  moe.a = #moe.descriptor<f8E4M3FN, group = [-1, -1], scale = f32>,
  moe.b = #moe.descriptor<f8E4M3FN, group = [1, -1], scale = f32, dynamic>,
  moe.c = #moe.descriptor<f8E4M3FN, group = [128, 128], scale = f8E8M0FNU>,
  moe.d = #moe.descriptor<f4E2M1FN, group = [1, 32], scale = f8E8M0FNU>,
  moe.e = #moe.descriptor<f4E2M1FN, group = [1, 16], scale = f8E4M3FN, second_scale = f32>,
  moe.f = #moe.descriptor<i4, group = [1, 64], scale = bf16, zero_point = i4>,
  moe.g = #moe.descriptor<f4E2M1FN, group = [1, 32], scale = f8E8M0FNU, dynamic, scale_rule = floor>,
  moe.h = #moe.descriptor<f4E2M1FN, group = [1, 16], scale = f8E4M3FN, dynamic, second_scale = f32, second_per_row>
} {}

// CHECK-LABEL: module @decisions
// CHECK-SAME: moe.a = #moe.target<sm_90a, gpu = h100_sxm>
// CHECK-SAME: moe.b = #moe.target<sm_121f>
// CHECK-SAME: moe.c = #moe.layout<order = fragment, tile = [64, 16]>
// CHECK-SAME: moe.d = #moe.mma_sync_schedule<tile = [16, 64, 64], stages = 4, warps = [1, 4], group = 8, ctas_per_sm = 2, programmatic, source = modelled>
// CHECK-SAME: moe.e = #moe.wgmma_schedule<tile = [256, 128, 64], stages = 4, group = 4, swap, producer_warps = 4, consumer_warps = 8, registers = [56, 224], cluster = [2, 1, 1]>
// CHECK-SAME: moe.f = #moe.region<"t", offset = "0", bytes = "rows * 1536", first = 1, last = 2>
// CHECK-SAME: moe.g = #moe.report<backend = unfused, engine = simt, candidates = [<backend = layer, engine = wgmma, realization = native, computed = w32a32, code = "dtype_not_supported", reason = "no f32">, <realization = emulated>], degraded = "grouped", choices = [<option = exclude, value = "gemv,mma_sync", by = MOEC_EXCLUDE>, <option = engine, value = "simt">]>
module @decisions attributes {
  moe.a = #moe.target<sm_90a, gpu = h100_sxm>,
  moe.b = #moe.target<sm_121f>,
  moe.c = #moe.layout<order = fragment, tile = [64, 16]>,
  moe.d = #moe.mma_sync_schedule<warps = [1, 4], tile = [16, 64, 64], stages = 4, group = 8, ctas_per_sm = 2, programmatic, source = modelled>,
  moe.e = #moe.wgmma_schedule<tile = [256, 128, 64], stages = 4, group = 4, swap, cluster = [2, 1, 1], producer_warps = 4, consumer_warps = 8, registers = [56, 224]>,
  moe.f = #moe.region<"t", bytes = "rows * 1536", offset = "0", first = 1, last = 2>,
  moe.g = #moe.report<backend = unfused, engine = simt, degraded = "grouped", candidates = [#moe.candidate<backend = layer, engine = wgmma, realization = native, computed = w32a32, code = "dtype_not_supported", reason = "no f32">, <realization = emulated>], choices = [<option = exclude, value = "gemv,mma_sync", by = MOEC_EXCLUDE>, #moe.choice<option = engine, value = "simt", by = option>]>
} {}
