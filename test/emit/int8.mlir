// RUN: moec compile %s --arch=sm_90a --max-tokens=64 --emit=cuda | FileCheck %s
// RUN: sed s/int8_channel/int8_tensor/ %s | moec compile - --arch=sm_80 --max-tokens=64 --emit=cuda | FileCheck %s --check-prefix=GIVEN
// RUN: sed s/int8_channel/int8_tensor_dynamic/ %s | moec compile - --arch=sm_80 --max-tokens=64 --emit=cuda | FileCheck %s --check-prefix=DYNAMIC
// RUN: rm -rf %t && moec compile %s --arch=sm_90a --max-tokens=64 --no-cubin -o %t && FileCheck %s --check-prefix=MANIFEST < %t/manifest.json

// Nothing multiplies integers with wgmma, nor a few tokens: the next engine
// does, whose sums are integers too.
// CHECK-DAG: using Scaling = moe::quant::TokenOfBytes;
// CHECK-DAG: moe::i8 *data;
// CHECK-DAG: using Input = moe::i8;
// CHECK-DAG: using Weight = moe::i8;
// CHECK-DAG: using Quant = moe::quant::Int8Channel;
// CHECK-DAG: using Mma = moe::mma::MmaSync<moe::i8>;

// A scale of t that is given is applied by gate_up.
// GIVEN: ---- sm_80/{{.*}}gate_up.cu
// GIVEN: const float *static_scale;
// GIVEN-NEXT: moe::i8 *data;
// GIVEN: using Result = float;
// GIVEN: using Quant = moe::quant::Int8Tensor;
// GIVEN: using Scaling = moe::quant::StaticTensor;
// GIVEN-NOT: quantize<Config>

// DYNAMIC-DAG: moe::amax<Config>(args);
// DYNAMIC-DAG: using Scaling = moe::quant::DynamicTensorOfBytes;

// MANIFEST-DAG: "realization": "native"
// MANIFEST-DAG: engine 'wgmma' multiplies f16, bf16, f8E4M3FN, not i8
// MANIFEST-DAG: engine 'gemv' does not multiply i8
moe.layer @integers {num_experts = 8, top_k = 2, hidden_size = 336, intermediate_size = 208,
  in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<int8_channel>,
  routing = #moe.routing<renormalize_naive>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}
