// RUN: moec-opt %s -split-input-file -verify-diagnostics

// Data that are what codes stand for.

func.func private @f(%x: tensor<?x64xbf16>) {
  // expected-error@+1 {{'moe.quantize' op must have no scale as a result}}
  %q, %r = moe.quantize <f4E2M1FN, group = [1, 32], scale = f8E8M0FNU, dynamic> %x : (tensor<?x64xbf16>) -> (tensor<?x64xbf16>, tensor<?x2xf8E8M0FNU>)
  return
}

// -----

func.func private @f(%x: tensor<?x64xbf16>) {
  // expected-error@+1 {{'moe.quantize' op 'second_scale' belongs to emulated data, or to codes in blocks, whose descriptor has one that is stored}}
  %q = moe.quantize <f4E2M1FN, group = [1, 16], scale = f8E4M3FN, dynamic, second_scale = f32> %x : (tensor<?x64xbf16>) -> tensor<?x64xbf16>
  return
}

// -----

func.func @codes_without_second_scale(%x: tensor<?x64xbf16>) {
  // expected-error@+1 {{'moe.quantize' op a second scale as a result belongs to codes in blocks whose descriptor has one of each row}}
  %q, %s = moe.quantize <f4E2M1FN, group = [1, 16], scale = f8E4M3FN, dynamic, second_scale = f32, second_per_row> %x : (tensor<?x64xbf16>) -> (tensor<?x64xf4E2M1FN>, tensor<?x4xf8E4M3FN>)
  return
}

// -----

func.func @second_scale_of_other_codes(%x: tensor<?x64xbf16>) {
  // expected-error@+1 {{'moe.quantize' op a second scale as a result belongs to codes in blocks whose descriptor has one of each row}}
  %q, %s, %r = moe.quantize <f8E4M3FN, group = [1, 32], scale = f8E8M0FNU, dynamic> %x : (tensor<?x64xbf16>) -> (tensor<?x64xf8E4M3FN>, tensor<?x2xf8E8M0FNU>, tensor<?x1xf32>)
  return
}
