//===- GivenTensorsTest.cpp - the user's own tensors in moec-run ----------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// .npy files go in and come out; what does not fit is refused in the user's
// words.
//
//===----------------------------------------------------------------------===//

#include "test/tools/MoecRunTesting.h"
#include "tools/moec-run/Npy.h"

#include <cstring>

using namespace moec;
using namespace moec::run;
using namespace moec::test;
using testing::HasSubstr;

namespace {

template <typename T> HostArray arrayOf(const std::vector<T> &elements) {
  HostArray array(int64_t(elements.size() * sizeof(T)));
  std::memcpy(array.data.get(), elements.data(), size_t(array.bytes));
  return array;
}

/// Small bf16 numbers, others for each seed.
std::vector<uint16_t> someBf16(int64_t count, unsigned seed) {
  std::vector<uint16_t> bits(static_cast<size_t>(count));
  for (size_t i = 0; i < bits.size(); ++i)
    bits[i] = uint16_t(0x3c00 + (i * 37 + seed * 101) % 256 +
                       (i % 3 == 0 ? 0x8000 : 0));
  return bits;
}

class GivenTensors : public MoecRun {
protected:
  static constexpr int64_t kTokens = 5;

  void SetUp() override {
    MoecRun::SetUp();
    ASSERT_TRUE(write("x", "<u2", {kTokens, 16}, someBf16(kTokens * 16, 1)));
    std::vector<float> numbers(kTokens * 4);
    for (size_t i = 0; i < numbers.size(); ++i)
      numbers[i] = float(i * 7 % 5);
    ASSERT_TRUE(write("logits", "<f4", {kTokens, 4}, numbers));
  }
  std::string path(const std::string &name) const {
    return root + "/" + name + ".npy";
  }
  template <typename T>
  bool write(const std::string &name, const std::string &dtype,
             const std::vector<int64_t> &shape,
             const std::vector<T> &elements) {
    return bool(writeNpy(path(name), dtype, shape, arrayOf(elements)));
  }
  /// --input=value=file.
  std::string input(const std::string &value, const std::string &file) const {
    return " --input=" + value + "=" + path(file);
  }
  std::string output(const std::string &value, const std::string &file) const {
    return " --output=" + value + "=" + path(file);
  }
  /// The refusal of moec-run, which ends with `status`.
  std::string refused(const std::string &arguments, int status) {
    EXPECT_EQ(run("--device=host" + arguments), status) << arguments;
    std::string text = errors;
    for (size_t at; (at = text.find(root + "/")) != std::string::npos;)
      text.erase(at, root.size() + 1);
    return text;
  }
};

} // namespace

TEST_F(GivenTensors, GoInAndComeOut) {
  const std::string inputs = input("x", "x") + input("logits", "logits");
  ASSERT_EQ(run("--device=host --check" + inputs + output("out", "out") +
                output("ids", "ids")),
            0)
      << errors;
  EXPECT_THAT(MoecRun::output, HasSubstr("given"));
  Result<NpyArray> out = readNpy(path("out")), ids = readNpy(path("ids"));
  ASSERT_TRUE(out && ids);
  EXPECT_EQ(out->dtype, "<u2");
  EXPECT_EQ(out->shape, (std::vector<int64_t>{kTokens, 16}));
  EXPECT_EQ(ids->dtype, "<i4");
  // Logits 0 2 4 1, 3 0 2 4, 1 3 0 2, 4 1 3 0, 2 4 1 3.
  const std::vector<int32_t> expected = {2, 1, 3, 0, 1, 3, 0, 2, 1, 3};
  EXPECT_EQ(std::memcmp(ids->elements.data.get(), expected.data(),
                        expected.size() * sizeof(int32_t)),
            0);

  // The same files give the same bytes, another x gives others.
  ASSERT_EQ(run("--device=host --tokens=5" + inputs + output("out", "again")),
            0);
  EXPECT_EQ(*readFile(path("again")), *readFile(path("out")));
  ASSERT_TRUE(write("x", "<u2", {kTokens, 16}, someBf16(kTokens * 16, 2)));
  ASSERT_EQ(run("--device=host --check" + inputs + output("out", "other")), 0)
      << errors;
  EXPECT_NE(*readFile(path("other")), *readFile(path("out")));
}

TEST_F(GivenTensors, WeightsAndIdsToo) {
  ASSERT_TRUE(write("w2", "<u2", {4, 16, 16}, someBf16(4 * 16 * 16, 3)));
  ASSERT_TRUE(write<int64_t>("ids", "<i8", {kTokens, 2},
                             {0, 1, 1, 2, 2, 3, 3, 0, 0, 2}));
  ASSERT_TRUE(write<uint16_t>("weights", "<f2", {kTokens, 2},
                              std::vector<uint16_t>(kTokens * 2, 0x3800)));
  const std::string all = input("x", "x") + input("w2", "w2") +
                          input("given_ids", "ids") +
                          input("given_weights", "weights");
  EXPECT_EQ(run("--device=host --check" + all + output("out", "out")), 0)
      << errors;
  // Random w2 gives another result.
  EXPECT_EQ(run("--device=host --check" + input("x", "x") +
                input("given_ids", "ids") + input("given_weights", "weights") +
                output("out", "other")),
            0)
      << errors;
  EXPECT_NE(*readFile(path("other")), *readFile(path("out")));
  // Weights alone say no token count.
  EXPECT_EQ(run("--device=host --check --tokens=1,9" + input("w2", "w2")), 0)
      << errors;
}

/// A scale that a calibration left unset makes all outputs 0, or NaN: kernels
/// and reference agree then, and say nothing.
TEST_F(GivenTensors, AReferenceThatSaysNothingIsRed) {
  for (const auto &[bits, said] :
       {std::pair(uint16_t(0),
                  "the reference of all 9 tokens with experts here is 0, and "
                  "their x is not: weights or scales are 0, or scales of "
                  "activations far too large"),
        {uint16_t(0x7fc0),
         "the reference of token 0 is NaN, and its x is finite: a weight, "
         "scale or bias is not"}}) {
    ASSERT_TRUE(write("w2", "<u2", {4, 16, 16},
                      std::vector<uint16_t>(4 * 16 * 16, bits)));
    EXPECT_EQ(run("--device=host --check --tokens=9" + input("w2", "w2")), 1);
    EXPECT_THAT(errors, HasSubstr(said));
  }
}

TEST_F(GivenTensors, RefusesWhatDoesNotFit) {
  EXPECT_EQ(refused(input("y", "x"), 2),
            "moec-run: --input: package tiny has no 'y'; accepted: x, logits, "
            "given_ids, given_weights, valid_tokens, w13 and w2 "
            "[invalid_argument]\n");
  EXPECT_THAT(refused(input("logit", "logits"), 2),
              HasSubstr("did you mean logits?"));
  EXPECT_THAT(refused(output("x", "x"), 2),
              HasSubstr("--output: package tiny has no 'x'; accepted: out, "
                        "ids, weights and counts"));
  EXPECT_EQ(refused(input("x", "logits"), 1),
            "moec-run: 'logits.npy': expected bf16 as dtype '<u2' "
            "(numpy.uint16, the raw bits) for value 'x', got dtype '<f4' "
            "[invalid_argument]\n");
  EXPECT_EQ(refused(input("x", "x") + " --tokens=7", 1),
            "moec-run: 7 tokens: 'x.npy': expected shape [7, 16] for value 'x' "
            "with 7 tokens, got [5, 16] [invalid_argument]\n");
  EXPECT_EQ(refused(input("w2", "x"), 1),
            "moec-run: 'x.npy': expected shape [4, 16, 16] for value 'w2', got "
            "[5, 16] [invalid_argument]\n");
  ASSERT_TRUE(write<int32_t>("valid", "<i4", {1}, {-1}));
  EXPECT_THAT(refused(input("valid_tokens", "valid"), 1),
              HasSubstr("expected valid_tokens of 0 or more, got -1"));
  EXPECT_THAT(refused(input("x", "absent"), 1), HasSubstr("absent.npy"));
}

TEST_F(GivenTensors, RefusesWhatContradicts) {
  EXPECT_EQ(refused(" --input=x", 2),
            "moec-run: --input: expected NAME=FILE, got 'x'\n");
  EXPECT_EQ(refused(" --output=out=", 2),
            "moec-run: --output: expected NAME=FILE, got 'out='\n");
  EXPECT_EQ(refused(input("x", "x") + input("x", "x"), 2),
            "moec-run: --input: expected one file for 'x', got two\n");
  EXPECT_THAT(refused(output("out", "out") + " --tokens=1,2", 2),
              HasSubstr("--output writes one run: expected one token count and "
                        "one routing pattern"));
  EXPECT_THAT(refused(input("logits", "logits") + " --routing=uniform", 2),
              HasSubstr("--routing specifies how logits are drawn"));
  EXPECT_THAT(refused(input("x", "x") + " --prebuild", 2),
              HasSubstr("--prebuild runs nothing"));
  for (const std::string &given :
       {input("given_ids", "ids"), input("given_weights", "weights")})
    EXPECT_THAT(refused(input("logits", "logits") + given, 2),
                HasSubstr("expected logits, or given_ids and given_weights, "
                          "got both"));
  EXPECT_THAT(refused(input("w2", "x") + " --weights=" + root, 2),
              HasSubstr("expected no stored weight with --weights, got w2"));
}

namespace {
class Npy : public testing::Test {
protected:
  void SetUp() override {
    char name[] = "/tmp/moec-npy-XXXXXX";
    root = mkdtemp(name);
  }
  void TearDown() override { (void)removeAll(root); }

  static std::string file(char major, const std::string &header,
                          const std::string &elements) {
    std::string text = "\x93NUMPY";
    text += major;
    text += '\0';
    for (int i = 0; i < (major == 2 ? 4 : 2); ++i)
      text += char(header.size() >> 8 * i & 255);
    return text + header + elements;
  }
  /// The error of reading this text, without the path.
  std::string refusal(const std::string &text) {
    const std::string path = root + "/a";
    EXPECT_TRUE(writeFile(path, text));
    Result<NpyArray> array = readNpy(path);
    if (array)
      return "";
    const std::string &said = array.error().message;
    const std::string begin = "'" + path + "': ";
    return said.starts_with(begin) ? said.substr(begin.size()) : said;
  }
  std::string root;
};

std::string header(const std::string &dtype, const std::string &shape,
                   const std::string &fortran = "False") {
  return "{'descr': '" + dtype + "', 'fortran_order': " + fortran +
         ", 'shape': " + shape + ", }   \n";
}
} // namespace

TEST_F(Npy, BothVersions) {
  for (char version : {1, 2})
    for (const std::string shape : {"(2, 3)", "(6,)", "(1,2 ,3)", "()"})
      EXPECT_EQ(refusal(file(version, header("|u1", shape),
                             shape == "()" ? "a" : "abcdef")),
                "");
  EXPECT_EQ(refusal(file(1, header("<f4", "(0, 3)"), "")), "");
  EXPECT_EQ(refusal(file(1,
                         "{\"shape\": (1,), \"descr\": \"<i8\", "
                         "\"fortran_order\": False}",
                         "12345678")),
            "");
}

TEST_F(Npy, WhatIsWritten) {
  const std::string path = root + "/b";
  ASSERT_TRUE(writeNpy(path, "<i4", {2}, arrayOf<int32_t>({7, -1})));
  EXPECT_EQ(readFile(path)->size() % 64, 8u);
  Result<NpyArray> array = readNpy(path);
  ASSERT_TRUE(array);
  EXPECT_EQ(array->dtype, "<i4");
  EXPECT_EQ(array->shape, std::vector<int64_t>{2});
  EXPECT_EQ(reinterpret_cast<int32_t *>(array->elements.data.get())[1], -1);
  EXPECT_THAT(*readFile(path), HasSubstr("'shape': (2,), }"));
}

TEST_F(Npy, Refusals) {
  EXPECT_EQ(refusal("PK\x03\x04 an archive"),
            "expected a .npy file, as numpy.save writes it, got another "
            "format");
  EXPECT_EQ(refusal("\x93NUM"),
            "expected a .npy file, got one that ends too early");
  EXPECT_EQ(refusal(file(3, header("<f4", "(1,)"), "abcd")),
            "expected version 1.0 or 2.0 of the .npy format, got 3.0");
  EXPECT_EQ(refusal(file(1, header("<f4", "(1, 1)", "True"), "abcd")),
            "expected C order, got Fortran order; "
            "numpy.ascontiguousarray(array) has C order");
  for (const char *dtype : {">f4", "<c8", "|V2", "<U1", "|b1", "<f3", "<f16"})
    EXPECT_THAT(refusal(file(1, header(dtype, "(1,)"), "abcd")),
                HasSubstr("expected little-endian numbers of 1, 2, 4 or 8 "
                          "bytes, got dtype '"))
        << dtype;
  EXPECT_EQ(refusal(file(1,
                         "{'descr': [('a', '<f4')], 'fortran_order': False, "
                         "'shape': (1,)}",
                         "abcd")),
            "expected plain numbers, got a structured dtype");
  for (const char *wrong :
       {"", "{}", "{'descr': '<f4'}", "[1]",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
        "{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x",
        "{'descr': '<f4', 'descr': '<f4', 'shape': (1,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'a': 'b'}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1"})
    EXPECT_EQ(refusal(file(1, wrong, "abcd")),
              "expected a header with descr, fortran_order and shape")
        << wrong;
  EXPECT_EQ(refusal(file(1, header("<f4", "(2,)"), "abcd")),
            "expected 8 bytes of elements for dtype '<f4' and shape [2], got "
            "4");
  EXPECT_EQ(refusal(file(1, header("<f4", "(1,)"), "abcde")),
            "expected 4 bytes of elements for dtype '<f4' and shape [1], got "
            "5");
  EXPECT_THAT(refusal(file(1, header("<f4", "(4611686018427387904, 4)"), "")),
              HasSubstr("has too many elements"));
  EXPECT_THAT(refusal(std::string("\x93NUMPY\x02\0\xff\xff\xff\xff", 12)),
              HasSubstr("expected a header of at most 65536 bytes"));
}
