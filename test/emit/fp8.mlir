// RUN: moec compile %s --arch=sm_90a --engine=mma_sync --max-tokens=64 --emit=cuda | FileCheck %s
// RUN: rm -rf %t && moec compile %s --arch=sm_90a --engine=mma_sync --max-tokens=64 --no-cubin -o %t && FileCheck %s --check-prefix=MANIFEST < %t/manifest.json

// CHECK-DAG: using Scaling = moe::quant::Group128;
// CHECK-DAG: moe::quantize<Config>(args);
// CHECK-DAG: using Input = moe::e4m3;
// CHECK-DAG: using Quant = moe::quant::Fp8Block;
// CHECK-DAG: using Mma = moe::mma::MmaSync<moe::e4m3>;
// CHECK-DAG: const float *lhs_scale;
// CHECK-DAG: const float *rhs_scale;
// CHECK-DAG: float *result;

// MANIFEST-DAG: "name": "w13_scale"
// MANIFEST-DAG: "name": "w2_scale"
// MANIFEST-DAG: "name": "x_q"
// MANIFEST-DAG: "name": "t_scale"
// MANIFEST-DAG: "rhs_group_columns": 128
// MANIFEST-DAG: "gate_up": true
// MANIFEST-DAG: "realization": "dequantized"

moe.layer @blocks {experts = 8, top_k = 2, hidden = 336, intermediate = 208,
  input_type = bf16, output_type = bf16, logits_type = bf16, quant = #moe.quant<fp8_block>,
  routing = #moe.routing<renormalize_naive>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}
