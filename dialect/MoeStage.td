//===- MoeStage.td - what all stages share -----------------*- tablegen -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Classes of stages in value form. Manifests call operands and results as ODS
// calls them. Stages are pure, except those that communicate. Element types are
// logical: the encoding of a tensor type says how a packed weight is stored.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_DIALECT_MOESTAGE_TD
#define MOEC_DIALECT_MOESTAGE_TD

include "dialect/MoeAttrs.td"
include "dialect/MoeInterfaces.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

// Types of operands and results. Verifiers hold their extents.
//
// Numbers of tokens, rows, pairs and experts, and their lists.
def Moe_Int32s : 1DTensorOf<[I32]>;
def Moe_Int32Rows : 2DTensorOf<[I32]>;
def Moe_Float32s : 1DTensorOf<[F32]>;
def Moe_Float32Rows : 2DTensorOf<[F32]>;
// Ids of the caller, who has them in 32 or 64 bits.
def Moe_CallersIds : 1DTensorOf<[I32, I64]>;
def Moe_CallersIdRows : 2DTensorOf<[I32, I64]>;
// Activations: [rows, columns], or [tokens, pairs, columns].
def Moe_Matrix : 2DTensorOf<[AnyFloat]>;
def Moe_Values16 : 2DTensorOf<[F16, BF16]>;
def Moe_Sums : TensorRankOf<[AnyFloat], [2, 3]>;
def Moe_Matrices : 3DTensorOf<[AnyFloat]>;
// Values or codes of rows, and of the weights of experts.
def Moe_CodeMatrix : 2DTensorOf<[AnyFloat, AnyInteger]>;
def Moe_CodeMatrices : 3DTensorOf<[AnyFloat, AnyInteger]>;
// Scales of tensors, rows, groups and blocks, each with those of experts.
def Moe_Scales : TensorRankOf<[AnyFloat], [1, 2, 3]>;
def Moe_SecondScales : TensorRankOf<[F32], [1, 2]>;
def Moe_ZeroPoints : TensorRankOf<[AnyFloat, AnyInteger], [2, 3]>;
// What packing reads and makes.
def Moe_Stored : TensorRankOf<[AnyFloat, AnyInteger], [1, 2, 3]>;

// A stage of any kind.
class Moe_ValueOp<string mnemonic, list<Trait> traits = []>
    : Moe_Op<mnemonic, !listconcat(traits, [
        DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>])> {
  let hasVerifier = 1;
}

// A name and, where the operand or result may be absent, '?'.
class Moe_Word<dag values, int index> {
  string word = !getdagname(values, index)
    # !if(!initialized(!getdagarg<Optional>(values, index)), "?", "");
}

// A stage of a kernel. `own`: the methods of the interface that the op defines
// in C++ in place of the usual ones. Members of the class go to `members`.
// Constraints of operands and results are its verifier, unless it has one
// besides (hasVerifier).
class Moe_StageOp<string mnemonic, list<Trait> traits = [], list<string> own = []>
    : Moe_Op<mnemonic, !listconcat(traits, [
        OpAsmOpInterface, DeclareOpInterfaceMethods<Moe_StageOpInterface, own>])> {
  list<string> operandWords = !foldl([]<string>, !range(!size(arguments)), words, index,
    !if(!initialized(!getdagarg<TypeConstraint>(arguments, index)),
        !listconcat(words, [Moe_Word<arguments, index>.word]), words));
  list<string> resultWords = !foreach(index, !range(!size(results)), Moe_Word<results, index>.word);
  // Results as they are printed, where the names of ODS are too long.
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
