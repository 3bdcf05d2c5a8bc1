// RUN: moec-opt %s -split-input-file -verify-diagnostics

// expected-error@+1 {{unknown scheme 'fp9'; known: f32, f16, bf16}}
module attributes {a = #moe.quant<fp9>} {}

// -----

// expected-error@+1 {{field 'w2' is missing}}
module attributes {a = #moe.quant<a1 = <f16>, a2 = <f16>, w1 = <f16>>} {}

// -----

// expected-error@+1 {{field 'a1' is given twice}}
module attributes {a = #moe.quant<a1 = <f16>, a1 = <f16>>} {}

// -----

// expected-error@+1 {{unknown routing method 'softmax'; known: default, renormalize, renormalize_naive, topk, sigmoid, sigmoid_renorm, topk_sigmoid, topk_sigmoid_bias, llama4, sigmoid_bias, deepseek_v3, minimax2, sigmoid_sinks, deepseek_v4, sqrtsoftplus, ernie, longcat, sparsemixer, intern_s1, intern_s1_renorm, simulated, simulated_normal, custom, auto}}
module attributes {a = #moe.routing<softmax>} {}

// -----

// expected-error@+1 {{routing 'auto' needs 'scoring' to be softmax, sigmoid or sqrtsoftplus, got ''}}
module attributes {a = #moe.routing<auto>} {}

// -----

// expected-error@+1 {{'scoring' and 'renormalize' belong to routing 'auto'; method 'default' defines both}}
module attributes {a = #moe.routing<default, renormalize>} {}

// -----

// expected-error@+1 {{'top_groups' must be between 1 and 'groups', got 5 of 4}}
module attributes {a = #moe.routing<default, groups = 4, top_groups = 5>} {}

// -----

// expected-error@+1 {{unknown field 'group'; known fields: scoring, renormalize, groups, top_groups, scale, bias}}
module attributes {a = #moe.routing<default, group = 4>} {}

// -----

// expected-error@+1 {{unknown activation 'swish'; known: silu, gelu, gelu_tanh, relu, relu2, swigluoai, swigluoai_uninterleave, swiglustep, situ, powlu, silu_no_mul, gelu_no_mul, gelu_tanh_no_mul, relu_no_mul, relu2_no_mul, clamped_relu2_no_mul}}
module attributes {a = #moe.activation<swish>} {}

// -----

// expected-error@+1 {{'limit' must be positive, got 0.000000e+00; omit it for no limit}}
module attributes {a = #moe.activation<silu, limit = 0.0>} {}

// -----

// expected-error@+1 {{'per_expert' means that all parameters are inputs per expert, got one of the layer as well}}
module attributes {a = #moe.activation<swigluoai, limit = 5.0, per_expert>} {}

// -----

// expected-error@+1 {{unknown gate_up_order 'ups'; known: gate_first, up_first, interleaved, interleaved_8}}
module attributes {a = #moe.layout<interleave = 8, gate_up_order = ups>} {}

// -----

// expected-error@+1 {{'gate_up_order' is of weights with 'interleave'}}
module attributes {a = #moe.layout<gate_up_order = up_first>} {}

// -----

// expected-error@+1 {{'tp' must be at least 1, got 0}}
module attributes {a = #moe.parallel<tp = 0>} {}

// -----

// expected-error@+1 {{'tp_rank' must be between 0 and 1, got 2}}
module attributes {a = #moe.parallel<tp = 2, tp_rank = 2>} {}

// -----

// expected-error@+1 {{'rank' must be between 0 and 3 (dp * pcp * tp ranks), got 4}}
module attributes {a = #moe.parallel<tp = 2, dp = 2, rank = 4>} {}

// -----

// expected-error@+1 {{'rank' is 0, but the ranks of dp, pcp and tp flatten to 1}}
module attributes {a = #moe.parallel<tp = 2, tp_rank = 1, rank = 0>} {}

// -----

// expected-error@+1 {{unknown placement 'random'; known: linear, round_robin}}
module attributes {a = #moe.parallel<ep, placement = random>} {}

// -----

// expected-error@+1 {{unknown arch 'sm_91'; known: sm_75, sm_80, sm_86, sm_87, sm_88, sm_89, sm_90, sm_90a, sm_100, sm_100a, sm_100f, sm_103, sm_103a, sm_103f, sm_107, sm_107a, sm_107f, sm_110, sm_110a, sm_110f, sm_120, sm_120a, sm_120f, sm_121, sm_121a, sm_121f}}
module attributes {a = #moe.target<sm_91>} {}

// -----

// expected-error@+1 {{code for sm_80 does not run on GPU 'h100_sxm', which is sm_90a}}
module attributes {a = #moe.target<sm_80, gpu = h100_sxm>} {}

// -----

// expected-error@+1 {{element must be a float or an integer type, got 'tensor<4xf32>'}}
module attributes {a = #moe.descriptor<tensor<4xf32>>} {}

// -----

// expected-error@+1 {{'group' must be [rows, columns], got 1 numbers}}
module attributes {a = #moe.descriptor<i4, group = [1], scale = f32>} {}

// -----

// expected-error@+1 {{'group' sizes must be positive, or -1 for the whole extent, got 0}}
module attributes {a = #moe.descriptor<i4, group = [0, 1], scale = f32>} {}

// -----

// expected-error@+1 {{'group' and 'scale' must be given together}}
module attributes {a = #moe.descriptor<i4, group = [1, 32]>} {}

// -----

// expected-error@+1 {{'scale' must be a float type, got 'i8'}}
module attributes {a = #moe.descriptor<i4, group = [1, 32], scale = i8>} {}

// -----

// expected-error@+1 {{'dynamic', 'second_scale' and 'zero_point' need a 'scale'}}
module attributes {a = #moe.descriptor<f16, dynamic>} {}

// -----

// expected-error@+1 {{'second_scale' must be a float type, got 'i8'}}
module attributes {a = #moe.descriptor<i4, group = [1, 32], scale = f16, second_scale = i8>} {}

// -----

// expected-error@+1 {{unknown scale_rule 'nearest'; known: even, ceil, floor}}
module attributes {a = #moe.descriptor<f4E2M1FN, group = [1, 32], scale = f8E8M0FNU, dynamic, scale_rule = nearest>} {}

// -----

// expected-error@+1 {{'scale_rule' is of dynamic scales of f8E8M0FNU}}
module attributes {a = #moe.descriptor<f4E2M1FN, group = [1, 32], scale = f32, dynamic, scale_rule = even>} {}

// -----

// expected-error@+1 {{'second_per_row' needs a 'second_scale'}}
module attributes {a = #moe.descriptor<f4E2M1FN, group = [1, 16], scale = f8E4M3FN, second_per_row>} {}

// -----

// expected-error@+1 {{'zero_point' needs an integer element type, got 'f8E4M3FN'}}
module attributes {a = #moe.descriptor<f8E4M3FN, group = [1, 32], scale = f16, zero_point = i8>} {}

// -----

// expected-error@+1 {{'interleave' must not be negative, got -8}}
module attributes {a = #moe.layout<interleave = -8>} {}

// -----

// expected-error@+1 {{unknown order 'columns'; known: rows, fragment}}
module attributes {a = #moe.layout<order = columns>} {}

// -----

// expected-error@+1 {{'tile' must be given with order fragment, and only then}}
module attributes {a = #moe.layout<order = fragment>} {}

// -----

// expected-error@+1 {{'tile' must have 2 numbers, got 1}}
module attributes {a = #moe.layout<order = fragment, tile = [64]>} {}

// -----

// expected-error@+1 {{unknown stored 'marlin'; known: rows, columns, columns_with_scales, scales_128x4, gptq, gptq_v2, awq, pack_quantized}}
module attributes {a = #moe.layout<stored = marlin>} {}

// -----

// expected-error@+1 {{'stored' is of weights that are not packed, which have no other field but 'padded'}}
module attributes {a = #moe.layout<interleave = 8, stored = gptq>} {}

// -----

// expected-error@+1 {{'padded' is of weights that are not packed, which say how they are 'stored'}}
module attributes {a = #moe.layout<padded = [64, 64]>} {}

// -----

// expected-error@+1 {{'padded' must have 2 numbers, got 3}}
module attributes {a = #moe.layout<stored = rows, padded = [64, 64, 64]>} {}

// -----

// expected-error@+1 {{'padded' must have 2 extents, got 1}}
func.func private @extents(tensor<4x32x16xbf16, #moe.layout<stored = rows, padded = [64]>>)

// -----

// expected-error@+1 {{'padded' must be at least rows and columns, got 8 for 16}}
func.func private @smaller(tensor<4x32x16xbf16, #moe.layout<stored = rows, padded = [32, 8]>>)

// -----

// expected-error@+1 {{unknown attribute 'nothing'}}
module attributes {a = #moe.nothing<>} {}

// -----

// expected-error@+1 {{region of 't' must have 0 <= first <= last, got 2 and 1}}
module attributes {a = #moe.region<"t", offset = "0", bytes = "16", first = 2, last = 1>} {}

// -----

// expected-error@+1 {{field 'bytes' is missing}}
module attributes {a = #moe.region<"t", offset = "0", first = 0, last = 1>} {}

// -----

// expected-error@+1 {{a region needs a value's name, 'offset' and 'bytes'}}
module attributes {a = #moe.region<"", offset = "0", bytes = "1", first = 0, last = 1>} {}

// -----

// expected-error@+1 {{'code' must be lower-case words joined by '_', got 'No!'}}
module attributes {a = #moe.candidate<backend = grouped, code = "No!", reason = "x">} {}

// -----

// expected-error@+1 {{a refused candidate has a 'code' and a 'reason', got 'no' and ''}}
module attributes {a = #moe.candidate<backend = grouped, code = "no", reason = "">} {}

// -----

// expected-error@+1 {{unknown realization 'guessed'; known: native, dequantized, weight_only, emulated}}
module attributes {a = #moe.candidate<backend = grouped, realization = guessed>} {}

// -----

// expected-error@+1 {{unknown choice 'colour'; known: backend, engine, exclude, allow}}
module attributes {a = #moe.choice<option = colour, value = "red">} {}

// -----

// expected-error@+1 {{choice 'engine' needs a value}}
module attributes {a = #moe.choice<option = engine, value = "">} {}

// -----

// expected-error@+1 {{unknown backend 'cutlass'; known: grouped, batched, unfused}}
module attributes {a = #moe.report<backend = cutlass, engine = simt>} {}

// -----

// expected-error@+1 {{backend 'unfused' does not use engine 'mma_sync'; it uses: simt}}
module attributes {a = #moe.report<backend = unfused, engine = mma_sync>} {}

// -----

// expected-error@+1 {{unknown GPU 'h101'; known: t4, a100_pcie, a100_sxm, a30, a10g, a10, rtx_3090, jetson_orin, l4, l40s, rtx_4090, h100_pcie, h100_nvl, gh200, h100_sxm, h200_sxm, h20, b200, b300, jetson_thor, rtx_pro_6000, rtx_5090, dgx_spark}}
module attributes {a = #moe.target<sm_90a, gpu = h101>} {}

// -----

// expected-error@+1 {{a packed weight must be [experts, rows, columns], got 2 dimensions}}
func.func private @f(tensor<32x64xf16, #moe.layout<interleave = 8>>)

// -----

// expected-error@+1 {{interleave = 8 needs rows in multiples of 16, got 24}}
func.func private @f(tensor<4x24x64xf16, #moe.layout<interleave = 8>>)

// -----

// expected-error@+1 {{rows and columns must be multiples of tile, got 72 for 16}}
func.func private @f(tensor<4x64x72xi4, #moe.layout<order = fragment, tile = [64, 16]>>)

// -----

// expected-error@+1 {{unknown realization 'guessed'; known: native, dequantized, weight_only, emulated}}
module attributes {a = #moe.report<backend = grouped, engine = mma_sync, realization = guessed>} {}

// -----

// expected-error@+1 {{'softcap' must be positive, got 0.000000e+00; omit it for no cap}}
module attributes {a = #moe.routing<sigmoid, softcap = 0.0>} {}

// -----

// expected-error@+1 {{'logit_scale' must be a positive number of f32, got -1.000000e+00}}
module attributes {a = #moe.routing<sigmoid, logit_scale = -1.0>} {}

// -----

// expected-error@+1 {{'epsilon' must be a positive number of f32, got 1.000000e+39}}
module attributes {a = #moe.routing<sigmoid_renorm, epsilon = 1.0e39>} {}

// -----

// expected-error@+1 {{'sinks' must not be negative, got -1}}
module attributes {a = #moe.routing<sigmoid_sinks, sinks = -1>} {}

// -----

// expected-error@+1 {{'group' sizes must be positive, or -1 for the whole extent, got -2}}
module attributes {a = #moe.descriptor<i4, group = [-1, -2], scale = f32>} {}

// -----

// expected-error@+1 {{'dynamic', 'second_scale' and 'zero_point' need a 'scale'}}
module attributes {a = #moe.descriptor<f16, second_scale = f32>} {}

// -----

// expected-error@+1 {{'dynamic', 'second_scale' and 'zero_point' need a 'scale'}}
module attributes {a = #moe.descriptor<i4, zero_point = i4>} {}

// -----

// expected-error@+1 {{'scale_rule' is of dynamic scales of f8E8M0FNU}}
module attributes {a = #moe.descriptor<f4E2M1FN, group = [1, 32], scale = f8E8M0FNU, scale_rule = even>} {}

// -----

// expected-error@+1 {{'scoring' and 'renormalize' belong to routing 'auto'; method 'default' defines both}}
module attributes {a = #moe.routing<default, scoring = softmax>} {}

// -----

// expected-error@+1 {{'top_groups' must be between 1 and 'groups', got 0 of 4}}
module attributes {a = #moe.routing<default, groups = 4>} {}

// -----

// expected-error@+1 {{'top_groups' must be between 1 and 'groups', got 1 of 0}}
module attributes {a = #moe.routing<default, top_groups = 1>} {}

// -----

// expected-error@+1 {{'top_groups' must be between 1 and 'groups', got -2 of -1}}
module attributes {a = #moe.routing<default, groups = -1, top_groups = -2>} {}

// -----

// expected-error@+1 {{'top_groups' must be between 1 and 'groups', got -1 of 4}}
module attributes {a = #moe.routing<default, groups = 4, top_groups = -1>} {}

// -----

// expected-error@+1 {{'per_expert' means that all parameters are inputs per expert, got one of the layer as well}}
module attributes {a = #moe.activation<swigluoai, alpha = 1.5, per_expert>} {}

// -----

// expected-error@+1 {{'per_expert' means that all parameters are inputs per expert, got one of the layer as well}}
module attributes {a = #moe.activation<swigluoai, beta = 1.0, per_expert>} {}

// -----

// expected-error@+1 {{'per_expert' means that all parameters are inputs per expert, got one of the layer as well}}
module attributes {a = #moe.activation<swigluoai, linear_beta = 1.0, per_expert>} {}

// -----

// expected-error@+1 {{'tp_rank' must be between 0 and 1, got -1}}
module attributes {a = #moe.parallel<tp = 2, tp_rank = -1>} {}

// -----

// expected-error@+1 {{'pcp' must be at least 1, got 0}}
module attributes {a = #moe.parallel<pcp = 0>} {}

// -----

// expected-error@+1 {{'dp_rank' must be between 0 and 3, got 4}}
module attributes {a = #moe.parallel<dp = 4, dp_rank = 4>} {}

// -----

// expected-error@+1 {{'sp' must be at least 1, got 0}}
module attributes {a = #moe.parallel<sp = 0>} {}

// -----

// expected-error@+1 {{'rank' must be between 0 and 3 (dp * pcp * tp ranks), got -1}}
module attributes {a = #moe.parallel<tp = 2, dp = 2, rank = -1>} {}

// -----

// expected-error@+1 {{'rank' is 1, but the ranks of dp, pcp and tp flatten to 2}}
module attributes {a = #moe.parallel<tp = 2, pcp = 2, pcp_rank = 1, rank = 1>} {}

// -----

// expected-error@+1 {{'rank' is 7, but the ranks of dp, pcp and tp flatten to 4}}
module attributes {a = #moe.parallel<tp = 2, pcp = 2, dp = 2, dp_rank = 1, rank = 7>} {}

// -----

// expected-error@+1 {{'stored' is of weights that are not packed, which have no other field but 'padded'}}
module attributes {a = #moe.layout<order = fragment, tile = [64, 16], stored = gptq>} {}

// -----

// expected-error@+1 {{region of 't' must have 0 <= first <= last, got -1 and 1}}
module attributes {a = #moe.region<"t", offset = "0", bytes = "16", first = -1, last = 1>} {}

// -----

// expected-error@+1 {{a region needs a value's name, 'offset' and 'bytes'}}
module attributes {a = #moe.region<"t", offset = "", bytes = "1", first = 0, last = 1>} {}

// -----

// expected-error@+1 {{a region needs a value's name, 'offset' and 'bytes'}}
module attributes {a = #moe.region<"t", offset = "0", bytes = "", first = 0, last = 1>} {}

// -----

// expected-error@+1 {{'code' must be lower-case words joined by '_', got '{'}}
module attributes {a = #moe.candidate<backend = grouped, code = "{", reason = "x">} {}

// -----

// expected-error@+1 {{'code' must be lower-case words joined by '_', got ':'}}
module attributes {a = #moe.candidate<backend = grouped, code = ":", reason = "x">} {}

// -----

// expected-error@+1 {{unknown engine 'wmma'; known: wgmma, wgmma_rs, mma_sync_scaled, mma_sync, tcgen05, simt, gemv}}
module attributes {a = #moe.report<backend = grouped, engine = wmma>} {}
