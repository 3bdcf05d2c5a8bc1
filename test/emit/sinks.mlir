// RUN: moec compile %s --arch=sm_90a --max-tokens=64 --emit=cuda | FileCheck %s
// RUN: rm -rf %t && moec compile %s --arch=sm_90a --max-tokens=64 --no-cubin -o %t && FileCheck %s --check-prefix=MANIFEST < %t/manifest.json
// RUN: moec-check %t --device=host --check --tokens=1,40 --routing=uniform,ties,nan_inf

// Two of the 66 experts are taken by every token. A softmax over logarithms of
// sigmoids divides sigmoids by their sum.
// CHECK: ---- sm_90a/up_to_4_route_gate_up.cu
// CHECK: #include "moe/math/log_sigmoid.cuh"
// CHECK: #include "moe/routing/sinks.cuh"
// CHECK: using Score = moe::routing::LogSigmoid;
// CHECK-NEXT: using Select = moe::routing::WithSinks<moe::routing::TopK, 2>;
// CHECK-NEXT: using Normalize = moe::routing::SoftmaxSelected;
// MANIFEST: "sinks": 2
moe.layer @inkling {num_experts = 66, top_k = 8, hidden_size = 64, intermediate_size = 32,
  in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, per_expert_scale,
  routing = #moe.routing<sigmoid_sinks, scale = 8.0, bias, sinks = 2>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}
