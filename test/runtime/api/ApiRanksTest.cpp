//===- ApiRanksTest.cpp - the C interface and ranks -----------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A load names its rank; no rank is taken that was not named.
//
//===----------------------------------------------------------------------===//

#include "runtime/support/Files.h"
#include "runtime/support/StagedFolder.h"
#include "test/runtime/api/ApiTesting.h"

#include <nlohmann/json.hpp>

#include <gmock/gmock.h>

using namespace moec;
using namespace moec::test;
using testing::HasSubstr;

namespace {

/// Ranks 0 and 2 have equal shares, rank 1 another.
Shares threeRanks() {
  Shares shares = {tinyPackage(), tinyPackage()};
  shares[0].manifest.ranks = {{0, 0, 0, true, true}, {2, 0, 32, false, false}};
  shares[1].manifest.ranks = {{1, 0, 16, false, false}};
  return shares;
}

/// The first column of the rank that was loaded, or the error.
std::string load(const moec_package_files &files, int32_t rankPlusOne) {
  moec_load_options options = {};
  options.struct_size = sizeof(options);
  options.device = MOEC_DEVICE_HOST;
  options.rank_plus_one = rankPlusOne;
  moec_package *package = nullptr;
  const moec_status status =
      moec_package_load_files(&files, &options, &package);
  if (status != MOEC_OK) {
    EXPECT_EQ(status, MOEC_INVALID_ARGUMENT);
    EXPECT_EQ(package, nullptr);
    return moec_last_error();
  }
  const auto manifest =
      nlohmann::json::parse(moec_package_manifest_json(package));
  moec_package_destroy(package);
  EXPECT_EQ(manifest["ranks"].size(), 1u);
  EXPECT_EQ(manifest["ranks"][0]["rank"],
            rankPlusOne > 0 ? rankPlusOne - 1 : 0);
  EXPECT_EQ(manifest["ranks"][0]["intermediate_begin"],
            manifest["layer"]["intermediate_begin"]);
  return manifest["layer"]["intermediate_begin"].dump();
}

} // namespace

TEST(ApiRanks, ALoadNamesItsRank) {
  moec_package_files files{threeRanks()};
  EXPECT_EQ(load(files, 1), "0");
  EXPECT_EQ(load(files, 2), "16");
  EXPECT_EQ(load(files, 3), "32");
  EXPECT_EQ(
      load(files, 4),
      "package tiny is of ranks 0 to 2: expected `rank` to be one of them, got "
      "3; a package is for all ranks if it was compiled with all_ranks");
  EXPECT_THAT(load(files, 0), HasSubstr("expected `rank` to be one of them"));
  EXPECT_EQ(load(files, -1), "moec_load_options.rank_plus_one is -1; expected "
                             "0 or 1 + the rank");
  for (const auto &[name, member] :
       {std::pair("jobs", &moec_load_options::jobs),
        {"ordinal_plus_one", &moec_load_options::ordinal_plus_one}}) {
    moec_load_options options = {};
    options.struct_size = sizeof(options);
    options.device = MOEC_DEVICE_HOST;
    options.*member = -1;
    moec_package *package = nullptr;
    EXPECT_EQ(moec_package_load_files(&files, &options, &package),
              MOEC_INVALID_ARGUMENT);
    EXPECT_EQ(std::string(moec_last_error()),
              std::string("moec_load_options.") + name +
                  " is -1; expected 0 or more");
  }
  files.shares.pop_back();
  EXPECT_EQ(load(files, 1), "0");
  EXPECT_EQ(
      load(files, 2),
      "package tiny is of ranks 0 and 2: expected `rank` to be one of them, "
      "got 1; a package is for all ranks if it was compiled with all_ranks");
  EXPECT_THAT(load(files, 0), HasSubstr("expected `rank` to be one of them"));
  files.shares[0].manifest.ranks.pop_back();
  EXPECT_EQ(load(files, 0), "0");
  EXPECT_EQ(load(files, 2),
            "package tiny is of rank 0: expected `rank` to be that one, got 1; "
            "a package is for all ranks if it was compiled with all_ranks");
}

TEST(ApiRanks, AFolderHoldsAllShares) {
  const std::string root =
      *createTemporaryFolderBeside(testing::TempDir() + "moec-api-ranks");
  const std::string folder = joinPath(root, "tiny");
  moec_package_files files{threeRanks()};
  ASSERT_EQ(moec_package_files_write(&files, folder.c_str()), MOEC_OK)
      << moec_last_error();
  moec_package_files *read = nullptr;
  ASSERT_EQ(moec_package_files_read(folder.c_str(), &read), MOEC_OK)
      << moec_last_error();
  EXPECT_EQ(load(*read, 2), "16");
  EXPECT_EQ(load(*read, 3), "32");
  moec_package_files_destroy(read);
  moec_load_options options = {};
  options.struct_size = sizeof(options);
  options.device = MOEC_DEVICE_HOST;
  moec_package *package = nullptr;
  EXPECT_EQ(moec_package_load(folder.c_str(), &options, &package),
            MOEC_INVALID_ARGUMENT);
  EXPECT_THAT(moec_last_error(), HasSubstr("with 2 shares of several sizes"));
  options.rank_plus_one = 2;
  EXPECT_EQ(moec_package_load(folder.c_str(), &options, &package), MOEC_OK)
      << moec_last_error();
  moec_package_destroy(package);
  (void)static_cast<bool>(removeAll(root));
}
