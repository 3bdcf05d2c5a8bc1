//===- MoeStage.td - base classes of stages ----------------*- tablegen -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Base classes of stages, which are ops on tensor values. Manifests use the ODS
// names of operands and results. Stages that communicate have side effects; all
// others are pure. Element types are logical: the encoding of a tensor type
// specifies the layout of a packed weight.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_DIALECT_MOESTAGE_TD
#define MOEC_DIALECT_MOESTAGE_TD

include "dialect/MoeAttrs.td"
include "dialect/MoeInterfaces.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

// Types of operands and results. Verifiers check the extents.
//
// Counts, ids, indices and lists of tokens, rows, pairs and experts.
def Moe_Int32s : 1DTensorOf<[I32]>;
def Moe_Int32Rows : 2DTensorOf<[I32]>;
def Moe_Float32s : 1DTensorOf<[F32]>;
def Moe_Float32Rows : 2DTensorOf<[F32]>;
// Ids that the caller passes as 32-bit or 64-bit integers.
def Moe_CallersIds : 1DTensorOf<[I32, I64]>;
def Moe_CallersIdRows : 2DTensorOf<[I32, I64]>;
// Activations: [rows, columns], or [tokens, pairs, columns].
def Moe_Matrix : 2DTensorOf<[AnyFloat]>;
def Moe_Values16 : 2DTensorOf<[F16, BF16]>;
def Moe_Sums : TensorRankOf<[AnyFloat], [2, 3]>;
def Moe_Matrices : 3DTensorOf<[AnyFloat]>;
// Matrices of values or codes (quantized values): rows, and expert weights.
def Moe_CodeMatrix : 2DTensorOf<[AnyFloat, AnyInteger]>;
def Moe_CodeMatrices : 3DTensorOf<[AnyFloat, AnyInteger]>;
// Scales per tensor, row, group or block, optionally with a leading expert
// dimension.
def Moe_Scales : TensorRankOf<[AnyFloat], [1, 2, 3]>;
def Moe_SecondScales : TensorRankOf<[F32], [1, 2]>;
def Moe_ZeroPoints : TensorRankOf<[AnyFloat, AnyInteger], [2, 3]>;
// Operands and results of packing.
def Moe_Stored : TensorRankOf<[AnyFloat, AnyInteger], [1, 2, 3]>;

// A stage of any kind.
class Moe_ValueOp<string mnemonic, list<Trait> traits = []>
    : Moe_Op<mnemonic, !listconcat(traits, [
        DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>])> {
  let hasVerifier = 1;
}

// The name of an operand or result, followed by '?' if it is optional.
class Moe_Word<dag values, int index> {
  string word = !getdagname(values, index)
    # !if(!initialized(!getdagarg<Optional>(values, index)), "?", "");
}

// A stage of a kernel. `own` lists the interface methods that the op defines in
// C++ instead of using the default. `members` is C++ text that is added to the
// op's class. The type constraints of operands and results are the op's
// verifier; with hasVerifier the op adds its own checks.
class Moe_StageOp<string mnemonic, list<Trait> traits = [], list<string> own = []>
    : Moe_Op<mnemonic, !listconcat(traits, [
        OpAsmOpInterface, DeclareOpInterfaceMethods<Moe_StageOpInterface, own>])> {
  list<string> operandWords = !foldl([]<string>, !range(!size(arguments)), words, index,
    !if(!initialized(!getdagarg<TypeConstraint>(arguments, index)),
        !listconcat(words, [Moe_Word<arguments, index>.word]), words));
  list<string> resultWords = !foreach(index, !range(!size(results)), Moe_Word<results, index>.word);
  // The printed names of results, if the ODS names are too long.
  list<string> printedResults = !foreach(index, !range(!size(results)), !getdagname(results, index));
  code nameResults = [{
      static constexpr ::llvm::StringRef words[] = {"}] # !interleave(printedResults, "\", \"") # [{"};
      for (auto [group, word] : ::llvm::enumerate(words))
        for (::mlir::Value result : getODSResults(unsigned(group)))
          setName(result, word);
    }];
  code members = [{}];
  let extraClassDeclaration = [{
    static ::llvm::ArrayRef<::llvm::StringRef> getODSOperands() {
      static constexpr ::llvm::StringRef words[] = {"}] # !interleave(operandWords, "\", \"") # [{"};
      return words;
    }
    static ::llvm::ArrayRef<::llvm::StringRef> getODSResults() {
      static constexpr ::llvm::StringRef words[] = {"}] # !interleave(resultWords, "\", \"") # [{"};
      return words;
    }
    void getAsmResultNames(::mlir::OpAsmSetValueNameFn setName) { }] # nameResults # [{ }
  }] # members;
}

#endif // MOEC_DIALECT_MOESTAGE_TD
