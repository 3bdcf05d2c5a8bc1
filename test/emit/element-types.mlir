// RUN: moec compile %s --arch=sm_90a --max-tokens=64 --emit=cuda > %t.cuda
// RUN: FileCheck %s < %t.cuda && FileCheck %s --check-prefix=FEW < %t.cuda
// RUN: sed "s/router_logits_dtype = f32/router_logits_dtype = bf16/" %s > %t.mlir
// RUN: moec compile %t.mlir --arch=sm_90a --max-tokens=64 --emit=cuda | diff - %t.cuda
// RUN: rm -rf %t && moec compile %s --arch=sm_90a --max-tokens=64 --no-cubin -o %t
// RUN: FileCheck %s --check-prefix=MANIFEST < %t/manifest.json
// RUN: rm -rf %t && moec compile %t.mlir --arch=sm_90a --max-tokens=64 --no-cubin -o %t
// RUN: FileCheck %s --check-prefix=BF16 < %t/manifest.json

// A run chooses the type of what it routes by: kernels are told its code, and
// are the same whatever the layer's own type of logits is.

// CHECK: ---- sm_90a/up_to_64_route_permute.cu
// CHECK: const void *logits;
// CHECK-NEXT: moe::ElementCode logits_type;
// CHECK-NEXT: const void *given_ids;
// CHECK-NEXT: moe::ElementCode given_ids_type;
// CHECK-NEXT: const void *given_weights;
// CHECK-NEXT: moe::ElementCode given_weights_type;
// CHECK-NEXT: const int *valid_tokens;
// CHECK: const void *shared_gate;
// CHECK-NEXT: moe::ElementCode shared_gate_type;
// CHECK: static_assert(int(moe::ElementCode::F32) == 0 &&
// CHECK-NEXT: int(moe::ElementCode::F16) == 1 &&
// CHECK-NEXT: int(moe::ElementCode::BF16) == 2 &&
// CHECK-NEXT: int(moe::ElementCode::I64) == 3 &&
// CHECK-NEXT: int(moe::ElementCode::I32) == 4,
// CHECK-NEXT: "manifest and kernel disagree on the codes of element types");
// CHECK-NOT: using Logits

// FEW: ---- sm_90a/up_to_4_route_gate_up.cu
// FEW: const void *logits;
// FEW-NEXT: moe::ElementCode logits_type;
// FEW: "manifest and kernel disagree on the codes of element types");

// MANIFEST: "name": "logits",
// MANIFEST-NEXT: "role": "optional_input",
// MANIFEST-NEXT: "element_types": ["f32", "f16", "bf16"],
// MANIFEST: "name": "given_ids",
// MANIFEST-NEXT: "role": "optional_input",
// MANIFEST-NEXT: "element_types": ["i32", "i64"],
// MANIFEST: "name": "given_weights",
// MANIFEST-NEXT: "role": "optional_input",
// MANIFEST-NEXT: "element_types": ["f32", "f16", "bf16"],
// MANIFEST: {"name": "logits_type", "offset": {{[0-9]+}}, "kind": "element_type", "value": "logits"}

// BF16: "name": "logits",
// BF16-NEXT: "role": "optional_input",
// BF16-NEXT: "element_types": ["bf16", "f32", "f16"],
// BF16: "name": "given_weights",
// BF16-NEXT: "role": "optional_input",
// BF16-NEXT: "element_types": ["f32", "f16", "bf16"],

moe.layer @types {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32,
  in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, n_shared_experts = 1, shared_expert_gate,
  routing = #moe.routing<renormalize_naive>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}
