// RUN: moec compile %s --arch=sm_80 --backend=unfused --max-tokens=64 --emit=cuda | FileCheck %s

// The slow truth: the activation is a kernel of its own, on f32, and no arch
// before sm_90 launches programmatically.

// CHECK-DAG: moe::activate<Config>(args);
// CHECK-DAG: using Mma = moe::mma::Simt<float>;
// CHECK-DAG: using Activation = moe::activation::None;
// CHECK-DAG: using Score = moe::routing::Softmax;
// CHECK-DAG: using Normalize = moe::routing::Sum;
// CHECK-DAG: static constexpr int kColumns = 64;
// CHECK-DAG: moe::permute<Config>(args);
// CHECK-NOT: kProgrammatic = true

moe.layer @tiny {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32,
  in_dtype = f32, out_dtype = f32, router_logits_dtype = f32, quant = #moe.quant<f32>,
  routing = #moe.routing<renormalize_naive>, activation = #moe.activation<gelu>, parallel = #moe.parallel<>}
