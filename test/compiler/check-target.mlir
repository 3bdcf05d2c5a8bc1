// RUN: moec-opt --moe-check-target=arch=sm_75,sm_90a %s | FileCheck %s
// RUN: not moec-opt --moe-check-target=arch=sm_91 %s 2>&1 | FileCheck %s --check-prefix=ARCH
// RUN: not moec-opt "--moe-check-target=arch=sm_80 gpu=h101" %s 2>&1 | FileCheck %s --check-prefix=GPU
// RUN: not moec-opt "--moe-check-target=arch=sm_80,sm_120a gpu=h100_sxm" %s 2>&1 | FileCheck %s --check-prefix=MATCH

// ARCH: error: unknown arch 'sm_91'; known: sm_75, sm_80, sm_86, sm_87, sm_88, sm_89, sm_90, sm_90a, sm_100, sm_100a, sm_100f, sm_103, sm_103a, sm_103f, sm_107, sm_107a, sm_107f, sm_110, sm_110a, sm_110f, sm_120, sm_120a, sm_120f, sm_121, sm_121a, sm_121f
// GPU: error: unknown GPU 'h101'; known: t4, {{.*}}, dgx_spark
// MATCH: error: GPU 'h100_sxm' is sm_90a and runs code for none of the requested archs: sm_80, sm_120a

// Nothing is changed where nothing is refused.
// CHECK-LABEL: moe.layer @biased_f32
// CHECK: parallel = #moe.parallel<tp = 2>,
// CHECK-NEXT: has_bias
// CHECK-NEXT: }
moe.layer @biased_f32 {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = f32, out_dtype = bf16, router_logits_dtype = f16, quant = #moe.quant<f32>, routing = #moe.routing<topk>, activation = #moe.activation<gelu_tanh_no_mul>, parallel = #moe.parallel<tp = 2>, has_bias}
