// RUN: moec-opt %s -split-input-file -verify-diagnostics

func.func private @f(%v: tensor<1xi32>) {
  // expected-error@+1 {{'moe.route' op needs logits, or ids and weights that are given}}
  %i, %w = moe.route <custom> top_k = 2 valid %v : (tensor<1xi32>) -> (tensor<?x2xi32>, tensor<?x2xf32>)
  return
}

// -----

func.func private @f(%g: tensor<?x2xi32>, %v: tensor<?x2xf32>, %b: tensor<4xf32>) {
  // expected-error@+1 {{'moe.route' op 'bias', 'expert_scale' and 'table' need logits}}
  %i, %w = moe.route <custom> top_k = 2 given (%g, %v) bias %b : (tensor<?x2xi32>, tensor<?x2xf32>, tensor<4xf32>) -> (tensor<?x2xi32>, tensor<?x2xf32>)
  return
}

// -----

func.func private @f(%l: tensor<?x4xf32>) {
  // expected-error@+1 {{'moe.route' op a bias must be an operand if and only if 'routing' has a bias}}
  %i, %w = moe.route <deepseek_v3, bias> top_k = 2 %l : (tensor<?x4xf32>) -> (tensor<?x2xi32>, tensor<?x2xf32>)
  return
}

// -----

func.func private @f(%l: tensor<?x4xf32>, %b: tensor<5xf32>) {
  // expected-error@+1 {{'moe.route' op 'routing_bias' must be 'tensor<4xf32>', got 'tensor<5xf32>'}}
  %i, %w = moe.route <deepseek_v3, bias> top_k = 2 %l bias %b : (tensor<?x4xf32>, tensor<5xf32>) -> (tensor<?x2xi32>, tensor<?x2xf32>)
  return
}

// -----

func.func private @f(%l: tensor<?x4xf32>, %b: tensor<4xbf16>) {
  // expected-error@+1 {{'moe.route' op operand #1 must be 1D tensor of 32-bit float values, but got 'tensor<4xbf16>'}}
  %i, %w = moe.route <default> top_k = 2 %l expert_scale %b : (tensor<?x4xf32>, tensor<4xbf16>) -> (tensor<?x2xi32>, tensor<?x2xf32>)
  return
}

// -----

func.func private @f(%l: tensor<?x4xf32>, %t: tensor<?xi16>, %h: tensor<9x2xi32>) {
  // expected-error@+1 {{'moe.route' op operand #1 must be 1D tensor of 32-bit signless integer or 64-bit signless integer values, but got 'tensor<?xi16>'}}
  %i, %w = moe.route <deepseek_v4> top_k = 2 %l table (%t, %h) : (tensor<?x4xf32>, tensor<?xi16>, tensor<9x2xi32>) -> (tensor<?x2xi32>, tensor<?x2xf32>)
  return
}

// -----

func.func private @f(%l: tensor<?x4xf32>, %t: tensor<?xi32>, %h: tensor<9x3xi32>) {
  // expected-error@+1 {{'moe.route' op 'hash_table' must be 'tensor<9x2xi32>', got 'tensor<9x3xi32>'}}
  %i, %w = moe.route <deepseek_v4> top_k = 2 %l table (%t, %h) : (tensor<?x4xf32>, tensor<?xi32>, tensor<9x3xi32>) -> (tensor<?x2xi32>, tensor<?x2xf32>)
  return
}

// -----

func.func private @f(%l: tensor<?x4xf32>) {
  // expected-error@+1 {{'moe.route' op 'zero' must leave experts that have weights, and these no 'replicas', got 4}}
  %i, %w = moe.route <default> top_k = 2 %l zero = 4 : (tensor<?x4xf32>) -> (tensor<?x2xi32>, tensor<?x2xf32>)
  return
}

// -----

func.func @experts_beside_logits(%l: tensor<?x4xf32>) {
  // expected-error@+1 {{'moe.route' op 'experts' must be given without logits, and only then}}
  %i, %w = moe.route <default> top_k = 2 experts = 4 %l : (tensor<?x4xf32>) -> (tensor<?x2xi32>, tensor<?x2xf32>)
  return
}

// -----

func.func @no_experts(%g: tensor<?x2xi32>, %v: tensor<?x2xf32>) {
  // expected-error@+1 {{'moe.route' op 'experts' must be positive, got 0}}
  %i, %w = moe.route <custom> top_k = 2 experts = 0 given (%g, %v) : (tensor<?x2xi32>, tensor<?x2xf32>) -> (tensor<?x2xi32>, tensor<?x2xf32>)
  return
}

// -----

func.func @no_physical_experts(%l: tensor<?x4xf32>) {
  // expected-error@+1 {{'moe.route' op 'physical' must be positive, got 0}}
  %i, %w = moe.route <default> top_k = 2 %l physical = 0 : (tensor<?x4xf32>) -> (tensor<?x2xi32>, tensor<?x2xf32>)
  return
}

// -----

func.func @count_of_others(%i: tensor<?x2xi32>) {
  // expected-error@+1 {{'moe.count' op 'local' must be between 0 and the 4 experts, got 5}}
  %c = moe.count experts = 4 block_tokens = 16 local = 5 %i : (tensor<?x2xi32>) -> tensor<?x4xi32>
  return
}
