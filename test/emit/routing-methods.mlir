// RUN: moec compile %s --arch=sm_90a --max-tokens=4000 --emit=cuda | FileCheck %s
// RUN: rm -rf %t && moec compile %s --arch=sm_90a --max-tokens=4000 --no-cubin -o %t
// RUN: FileCheck %s --check-prefix=MANIFEST < %t/manifest.json

// What a method has besides its three policies: groups, a bias, factors of the
// weights and of the output.

// CHECK: ---- sm_90a/{{.*}}route.cu
// CHECK: const float *routing_bias;
// CHECK-NEXT: const float *expert_scale;
// CHECK: using Score = moe::routing::Sigmoid;
// CHECK-NEXT: using Select = moe::routing::TopKOfGroups<8, 4>;
// CHECK-NEXT: using Normalize = moe::routing::SumEpsilon;
// CHECK-NEXT: static constexpr bool kRoutingBias = true;
// CHECK-NEXT: static constexpr bool kExpertScale = true;
// CHECK-NEXT: static constexpr float kOutputScale = 0x1.4p+1f;

// MANIFEST: "routing": {
// MANIFEST-DAG: "select": "top_k"
// MANIFEST-DAG: "score": "sigmoid"
// MANIFEST-DAG: "normalize": "sum_epsilon"
// MANIFEST-DAG: "expert_scale": true
// MANIFEST-DAG: "output_scale": 2.5

moe.layer @v3 {num_experts = 64, top_k = 8, hidden_size = 64, intermediate_size = 32,
  in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>,
  routing = #moe.routing<deepseek_v3, groups = 8, top_groups = 4>, activation = #moe.activation<silu>,
  parallel = #moe.parallel<>, per_expert_scale, routed_scaling_factor = 2.5, apply_routed_scale_to_output}
