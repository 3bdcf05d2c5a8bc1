//===- RanksTest.cpp - packages of several ranks --------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A manifest is narrowed to one of its ranks, and to no other. What the table
// says is checked against what kernels take. Shares of several sizes are one
// folder, of which a load reads one.
//
//===----------------------------------------------------------------------===//

#include "runtime/package/Ranks.h"
#include "runtime/package/Arguments.h"
#include "runtime/support/Files.h"
#include "runtime/support/Sha256.h"
#include "runtime/support/StagedFolder.h"
#include "test/runtime/TinyManifest.h"

#include <nlohmann/json.hpp>

#include <gmock/gmock.h>

#include <filesystem>

using namespace moec;
using namespace moec::test;
using testing::HasSubstr;

namespace {

/// Two ranks of 8 experts, each with 4: what permutes takes the first.
Manifest twoRanks() {
  Manifest manifest = tinyManifest();
  manifest.ranks = {{0, 0, 0, true, true}, {1, 4, 16, false, false}};
  for (Kernel &kernel : manifest.targets[0].kernels)
    for (Stage &stage : kernel.stages)
      if (stage.op == "permute") {
        ArgumentField field;
        field.name = "local_begin";
        field.kind = ArgumentField::Kind::Size;
        field.expression = Expression::symbol("local_begin");
        field.elementType = "i32";
        field.offset = kernel.arguments.bytes;
        kernel.arguments.bytes += 8;
        kernel.arguments.fields.push_back(field);
        stage.operands["local_begin"] = "local_begin";
        stage.attributes["experts"] = 8;
      }
  return manifest;
}

Kernel &permuteOf(Manifest &manifest) {
  for (Kernel &kernel : manifest.targets[0].kernels)
    if (kernel.name == "permute")
      return kernel;
  return manifest.targets[0].kernels.front();
}

std::string problemOf(const Manifest &manifest) {
  Result<void> valid = validate(manifest);
  return valid ? "" : valid.error().message;
}

std::string problemOf(const Manifest &manifest, std::optional<int64_t> rank) {
  Result<Manifest> one = ofRank(manifest, rank);
  EXPECT_TRUE(one || one.error().code == ErrorCode::InvalidArgument);
  return one ? "" : one.error().message;
}

} // namespace

TEST(Ranks, areDescribed) {
  const std::vector<int64_t> row = {0, 1, 2, 3};
  const std::vector<int64_t> some = {0, 2, 5}, pair = {3, 4};
  EXPECT_EQ(describeRanks({}), "no rank");
  EXPECT_EQ(describeRanks(std::span(row).first(1)), "rank 0");
  EXPECT_EQ(describeRanks(row), "ranks 0 to 3");
  EXPECT_EQ(describeRanks(some), "ranks 0, 2 and 5");
  EXPECT_EQ(describeRanks(pair), "ranks 3 and 4");
}

TEST(Ranks, aManifestIsNarrowedToTheRankThatIsAskedFor) {
  const Manifest manifest = twoRanks();
  EXPECT_EQ(problemOf(manifest), "");
  Result<Manifest> one = ofRank(manifest, 1);
  ASSERT_TRUE(one) << one.error().message;
  EXPECT_EQ(ranksOf(*one), std::vector<int64_t>{1});
  EXPECT_EQ(one->layer["local_experts"]["begin"], 4);
  EXPECT_EQ(one->layer["intermediate_begin"], 16);
  EXPECT_EQ(one->layer["add_w2_bias"], false);
  EXPECT_FALSE(one->layer["routing"].contains("add_zero_experts"));
  // It is one rank's from then on, and stays so.
  Result<Manifest> again = ofRank(*one, std::nullopt);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(toJson(*again), toJson(*one));
  EXPECT_EQ(problemOf(*one), "");

  Manifest withZero = manifest;
  withZero.layer["routing"] = {{"num_zero_experts", 2}};
  EXPECT_EQ(ofRank(withZero, 0)->layer["routing"]["add_zero_experts"], true);
  EXPECT_EQ(ofRank(withZero, 1)->layer["routing"]["add_zero_experts"], false);
  // A shard of a shared MLP, where the layer has one.
  EXPECT_FALSE(one->layer->contains("shared_intermediate_begin"));
  Manifest withShared = manifest;
  withShared.layer["shared_intermediate_size_per_partition"] = 8;
  withShared.ranks[0].sharedIntermediateBegin = 0;
  withShared.ranks[1].sharedIntermediateBegin = 8;
  for (int64_t rank : {0, 1})
    EXPECT_EQ(ofRank(withShared, rank)->layer["shared_intermediate_begin"],
              rank * 8);
  Result<Manifest> read = fromJson(toJson(withShared));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(ofRank(*read, 1)->layer["shared_intermediate_begin"], 8);
  // Foreign layers are anything.
  *withZero.layer = {{"local_experts", 7}, {"routing", "none"}};
  EXPECT_EQ(ofRank(withZero, 1)->layer["local_experts"]["begin"], 4);
}

TEST(Ranks, noneIsTakenThatIsNotAskedFor) {
  Manifest manifest = twoRanks();
  EXPECT_EQ(problemOf(manifest, std::nullopt),
            "package tiny is of ranks 0 and 1: expected `rank` to be one "
            "of them, got none");
  EXPECT_EQ(
      problemOf(manifest, 2),
      "package tiny is of ranks 0 and 1: expected `rank` to be one of them, "
      "got 2; a package is for all ranks if it was compiled with all_ranks");
  manifest.ranks.erase(manifest.ranks.begin());
  EXPECT_EQ(problemOf(manifest, 0),
            "package tiny is of rank 1: expected `rank` to be that one, got 0; "
            "a package is for all ranks if it was compiled with all_ranks");
  EXPECT_EQ(problemOf(manifest, std::nullopt), "");
}

TEST(Ranks, argumentsAreThoseOfTheRank) {
  const Manifest manifest = twoRanks();
  // No argument has a value for several ranks.
  EXPECT_FALSE(symbolsFor(manifest, 4)->localBegin);
  for (const RankFacts &facts : manifest.ranks) {
    Result<Manifest> one = ofRank(manifest, facts.rank);
    ASSERT_TRUE(one) << one.error().message;
    Result<Symbols> symbols = symbolsFor(*one, 4);
    ASSERT_TRUE(symbols) << symbols.error().message;
    EXPECT_EQ(symbols->localBegin, facts.localBegin);
    EXPECT_EQ(symbols->addW2Bias, int64_t(facts.addW2Bias));
    EXPECT_EQ(symbols->addZeroExperts, int64_t(facts.addZeroExperts));
  }
}

TEST(Ranks, theTableIsChecked) {
  Manifest manifest = twoRanks();
  manifest.ranks.clear();
  EXPECT_EQ(problemOf(manifest), "ranks: expected at least one rank");
  manifest = twoRanks();
  manifest.ranks[1].rank = 0;
  EXPECT_EQ(problemOf(manifest),
            "ranks[1].rank: expected 1 to 2147483647, got 0");
  manifest = twoRanks();
  manifest.ranks[0].localBegin = -1;
  EXPECT_EQ(problemOf(manifest),
            "ranks[0].local_begin: expected 0 to 65536, got -1");
  manifest = twoRanks();
  manifest.ranks[1].intermediateBegin = -1;
  EXPECT_EQ(problemOf(manifest),
            "ranks[1].intermediate_begin: expected 0 to 2147483647, got -1");
  // Rank 1 would read counts behind those of the last expert.
  manifest = twoRanks();
  manifest.ranks[1].localBegin = 5;
  EXPECT_THAT(problemOf(manifest),
              HasSubstr("stages[2].attributes.local_experts: expected local "
                        "experts within 8, got 4 from 5 on of rank 1"));
}

TEST(Ranks, whatAStageTakesOfARankIsThatNumber) {
  Manifest manifest = twoRanks();
  permuteOf(manifest).stages[0].operands.erase("local_begin");
  EXPECT_THAT(problemOf(manifest),
              HasSubstr("stages[0].operands: expected 'local_begin', since a "
                        "rank holds 4 of 8 experts"));
  for (const Expression &other :
       {Expression(0), Expression::symbol("tokens"),
        Expression::symbol("local_begin") + Expression(1)}) {
    manifest = twoRanks();
    permuteOf(manifest).arguments.fields.back().expression = other;
    EXPECT_THAT(problemOf(manifest),
                HasSubstr("operands.local_begin: expected an argument of kind "
                          "size, type i32 and expression 'local_begin', got "
                          "'local_begin'"));
  }
  manifest = twoRanks();
  permuteOf(manifest).stages[0].operands["local_begin"] = "tokens";
  EXPECT_THAT(problemOf(manifest), HasSubstr("got 'tokens'"));
  // Sizes are those of all ranks.
  manifest = twoRanks();
  manifest.targets[0].variants[0].launches[0].grid.ctas[0] =
      Expression::symbol("local_begin");
  EXPECT_THAT(problemOf(manifest), HasSubstr("has no value here"));
}

//===----------------------------------------------------------------------===//
// Shares of several sizes
//===----------------------------------------------------------------------===//

namespace {

class ShareFolder : public testing::Test {
protected:
  void SetUp() override {
    root = *createTemporaryFolderBeside(testing::TempDir() + "moec-shares");
    folder = joinPath(root, "tiny");
    shares = {tinyPackage(), tinyPackage()};
    shares[0].manifest.ranks = {{0, 0, 0, true, true}, {2, 0, 0, false, false}};
    shares[1].manifest.ranks = {{1, 0, 0, false, false}};
  }
  void TearDown() override { (void)static_cast<bool>(removeAll(root)); }

  void write() {
    Result<void> written = writeShares(shares, folder);
    ASSERT_TRUE(written) << written.error().message;
  }
  std::string at(const char *path) { return joinPath(folder, path); }
  std::string problemOfReading(std::optional<int64_t> rank) {
    Result<PackageFiles> read = readShare(folder, rank);
    return read ? "" : read.error().message;
  }
  /// Replaces a word of the index.
  void edit(const std::string &from, const std::string &to) {
    std::string text = *readFile(at("manifest.json"));
    const size_t place = text.find(from);
    ASSERT_NE(place, std::string::npos) << text;
    ASSERT_TRUE(
        writeFile(at("manifest.json"), text.replace(place, from.size(), to)));
  }
  std::string root, folder;
  Shares shares;
};

} // namespace

TEST_F(ShareFolder, aRankIsReadFromItsShare) {
  write();
  Result<Shares> all = readShares(folder);
  ASSERT_TRUE(all) << all.error().message;
  ASSERT_EQ(all->size(), 2u);
  for (const int64_t rank : {0, 1, 2}) {
    Result<PackageFiles> read = readShare(folder, rank);
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(toJson(read->manifest),
              toJson((*all)[rank == 1 ? 1 : 0].manifest));
    EXPECT_EQ(read->files, shares[0].files);
    Result<const PackageFiles *> found = shareOf(*all, rank);
    ASSERT_TRUE(found) << found.error().message;
    EXPECT_EQ(*found, &(*all)[rank == 1 ? 1 : 0]);
  }
  // A share is a package, too.
  Result<PackageFiles> alone = readPackage(at("share1"));
  ASSERT_TRUE(alone) << alone.error().message;
  EXPECT_EQ(ranksOf(alone->manifest), std::vector<int64_t>{1});
}

/// Also between the shares, and in a share that is not asked for.
TEST_F(ShareFolder, filesThatNoManifestListsAreRefused) {
  for (const char *path : {"extra", "share0/extra", "share1/include/extra",
                           "share2/manifest.json"}) {
    write();
    ASSERT_TRUE(createFolders(parentFolder(at(path))));
    ASSERT_TRUE(writeFile(at(path), "{}"));
    for (const int64_t rank : {0, 1})
      EXPECT_THAT(problemOfReading(rank),
                  HasSubstr(std::string("file '") + path +
                            "': expected only files that the manifest lists"))
          << "rank " << rank;
    ASSERT_TRUE(removeAll(folder));
  }
}

TEST_F(ShareFolder, aRankMustBeNamed) {
  write();
  EXPECT_THAT(problemOfReading(std::nullopt),
              HasSubstr("package tiny is of ranks 0 to 2, with 2 shares of "
                        "several sizes: expected `rank` to be one of them"));
  EXPECT_THAT(problemOfReading(3),
              HasSubstr("package tiny is of ranks 0 to 2: expected `rank` to "
                        "be one of them, got 3"));
  EXPECT_FALSE(readPackage(folder));
  Result<const PackageFiles *> found = shareOf(shares, std::nullopt);
  ASSERT_FALSE(found);
  EXPECT_THAT(found.error().message,
              HasSubstr("expected `rank` to be one of them"));
  EXPECT_FALSE(shareOf(shares, 3));
  EXPECT_FALSE(fromJson(*readFile(at("manifest.json"))));
}

TEST_F(ShareFolder, oneShareIsAPackage) {
  shares.pop_back();
  write();
  EXPECT_TRUE(readPackage(folder));
  EXPECT_EQ(*shareOf(shares, std::nullopt), &shares[0]);
  EXPECT_FALSE(fileExists(at("share0")));
}

TEST_F(ShareFolder, damageIsFound) {
  write();
  ASSERT_TRUE(writeFile(at("share1/sm_90a/route.cu"), "// other\n"));
  EXPECT_EQ(problemOfReading(0), "");
  EXPECT_THAT(problemOfReading(1), HasSubstr("expected SHA-256"));
  write(); // over the damaged one
  ASSERT_TRUE(
      writeFile(at("share1/manifest.json"), toJson(tinyPackage().manifest)));
  EXPECT_THAT(problemOfReading(1),
              HasSubstr("file 'share1/manifest.json': expected SHA-256"));
  write();
  ASSERT_TRUE(removeAll(at("share0/sm_90a/route.cu")));
  EXPECT_THAT(problemOfReading(0), HasSubstr("it is missing"));
  EXPECT_EQ(problemOfReading(1), "");
  write();
  ASSERT_TRUE(writeFile(at("share0/other"), "x"));
  EXPECT_THAT(problemOfReading(0),
              HasSubstr("file 'share0/other': expected only files that the "
                        "manifest lists"));
}

TEST_F(ShareFolder, theIndexIsChecked) {
  struct Row {
    const char *from, *to, *problem;
  };
  for (const Row &row : {
           Row{"\"ranks\": [0, 2]", "\"ranks\": [0, 1]",
               "shares[1].ranks: expected ranks from 0 on, each in one share, "
               "got 1"},
           {"\"ranks\": [0, 2]", "\"ranks\": [-1, 2]",
            "shares[0].ranks: expected ranks from 0 on, each in one share, got "
            "-1"},
           {"\"ranks\": [0, 2]", "\"ranks\": []",
            "shares[0].ranks: expected at least one rank"},
           {"\"ranks\": [0, 2]", "\"ranks\": [0, 3]",
            "file 'share0/manifest.json': expected the manifest of ranks 0 and "
            "3, got that of ranks 0 and 2"},
           {"\"folder\": \"share1\"", "\"folder\": \"share0\"",
            "shares[1].folder: expected a folder of the package that no other "
            "share names, "
            "got 'share0'"},
           {"\"folder\": \"share1\"", "\"folder\": \"..\"",
            "shares[1].folder: expected a folder of the package that no other "
            "share names, "
            "got '..'"},
           {"\"folder\": \"share1\"", "\"folder\": \"share2\"",
            "shares[1].folder: expected 'share2/manifest.json' in `files`"},
           {"\"share1/sm_90a/route.cu\"", "\"share2/sm_90a/route.cu\"",
            "files.share2/sm_90a/route.cu: expected a path inside the folder "
            "of a share"},
           {"\"moec_manifest\": 8", "\"moec_manifest\": 7",
            "expected format version 8, got 7"},
       }) {
    ASSERT_TRUE(removeAll(folder)); // a damaged index is not replaced
    write();
    edit(row.from, row.to);
    EXPECT_THAT(problemOfReading(0), HasSubstr(row.problem)) << row.to;
  }
  ASSERT_TRUE(removeAll(folder));
  write();
  const std::string hash = sha256(shares[0].files.at("sm_90a/route.cu"));
  edit("\"share0/sm_90a/route.cu\": \"" + hash,
       "\"share0/sm_90a/route.cu\": \"" + sha256("x"));
  EXPECT_THAT(problemOfReading(0),
              HasSubstr("file 'share0/sm_90a/route.cu': expected that both "
                        "manifests list it with one SHA-256"));
  EXPECT_EQ(manifestFileFromJson(R"({"moec_manifest": 8, "shares": []})")
                .error()
                .message,
            "field 'name' is missing");
  EXPECT_EQ(
      manifestFileFromJson(
          R"({"moec_manifest": 8, "name": "l", "shares": [], "files": {}})")
          .error()
          .message,
      "shares: expected at least one share");
}

TEST_F(ShareFolder, sharesOfOneRankAreNotWritten) {
  shares[1].manifest.ranks = {{2, 0, 0, true, true}};
  Result<void> written = writeShares(shares, folder);
  ASSERT_FALSE(written);
  EXPECT_THAT(written.error().message, HasSubstr("each in one share, got 2"));
  EXPECT_FALSE(fileExists(folder));
  EXPECT_FALSE(writeShares(shares, ""));
}
