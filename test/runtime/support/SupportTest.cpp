//===- SupportTest.cpp - files, hashes, environment, log ------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The base of the runtime: errors that name the path, writes that are there
// wholly or not at all, hashes of known texts.
//
//===----------------------------------------------------------------------===//

#include "runtime/support/Env.h"
#include "runtime/support/Files.h"
#include "runtime/support/Interrupt.h"
#include "runtime/support/Log.h"
#include "runtime/support/Progress.h"
#include "runtime/support/Sha256.h"

#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <set>
#include <sys/resource.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

using namespace moec;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

/// A folder that is removed at the end.
struct TemporaryFolder {
  TemporaryFolder() {
    Result<std::string> made =
        createTemporaryFolderBeside(testing::TempDir() + "moec-support");
    path = *made;
  }
  ~TemporaryFolder() { (void)static_cast<bool>(removeAll(path)); }
  std::string path;
};

} // namespace

TEST(Result, everyCodeHasItsOwnName) {
  std::set<std::string_view> names;
  for (int code = 0; code <= 18; ++code) {
    std::string_view name = errorCodeName(static_cast<ErrorCode>(code));
    EXPECT_NE(name, "unknown") << code;
    EXPECT_TRUE(names.insert(name).second) << name;
  }
  EXPECT_EQ(errorCodeName(ErrorCode::InvalidArgument), "invalid_argument");
}

TEST(Result, MessagesMoveNoCursor) {
  for (const auto &[text, shown] : {
           std::pair("a\nb\tc", "a\nb\tc"),
           {"\x1b[2J\r\b\x7f", "\\x1b[2J\\x0d\\x08\\x7f"},
           // Controls of 8 bits: alone, and in UTF-8.
           {"\x9b"
            "2J \xc2\x9b",
            "\\x9b2J \\u009b"},
           // The first and the last, and the characters beside them.
           {"\x9f|\xa0 \xc2\x80|\xc2\x9f|\xc2\xa0",
            "\\x9f|\xa0 \\u0080|\\u009f|\xc2\xa0"},
           // The direction of writing.
           {"\xe2\x80\xae|\xe2\x81\xa6", "\\u202e|\\u2066"},
           {"\xe2\x80\xa9|\xe2\x80\xaa|\xe2\x80\xaf",
            "\xe2\x80\xa9|\\u202a|\xe2\x80\xaf"},
           {"\xe2\x81\xa5|\xe2\x81\xa9|\xe2\x81\xaa",
            "\xe2\x81\xa5|\\u2069|\xe2\x81\xaa"},
           // Letters, also where they have such a byte, and what is no UTF-8.
           {"\xc3\x9b \xe2\x80\x94 \xf0\x9f\x98\x80 \xff\xc3",
            "\xc3\x9b \xe2\x80\x94 \xf0\x9f\x98\x80 \xff\xc3"},
       }) {
    EXPECT_EQ(printable(text), shown);
    EXPECT_EQ(Error(ErrorCode::Refused, text).message, shown);
    EXPECT_EQ(refused("{}", text).message, shown);
    std::string logged;
    setLogSink([&](LogLevel, std::string_view said) { logged = said; },
               LogLevel::Warning);
    log(LogLevel::Warning, "{}", text);
    setLogSink({}, LogLevel::Warning);
    EXPECT_EQ(logged, shown);
  }
  EXPECT_EQ(printable(std::string_view("\0", 1)), "\\x00");
  // A sequence that the text's end cuts is not completed by what is behind it.
  EXPECT_EQ(printable(std::string_view("\xc2\x9b", 1)), "\xc2");
}

TEST(Sha256, matchesThePublishedExamples) {
  EXPECT_EQ(sha256(""),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256("abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  Sha256 pieces;
  pieces.update("a");
  pieces.update("bc");
  EXPECT_EQ(pieces.finish(), sha256("abc"));
  EXPECT_TRUE(isSha256(sha256("abc")));
  EXPECT_FALSE(isSha256("BA7816"));
}

TEST(Sha256, hashesFiles) {
  TemporaryFolder folder;
  std::string path = joinPath(folder.path, "big");
  std::string content(200000, 'x');
  ASSERT_TRUE(writeFileAtomically(path, content));
  EXPECT_EQ(*sha256File(path), sha256(content));
  Result<std::string> missing = sha256File(joinPath(folder.path, "none"));
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().message, HasSubstr("none': No such file"));
}

TEST(Files, writesWholeFilesOrNothing) {
  TemporaryFolder folder;
  std::string path = joinPath(folder.path, "file");
  ASSERT_TRUE(writeFileAtomically(path, "one"));
  ASSERT_TRUE(writeFileAtomically(path, std::string("t\0wo", 4)));
  EXPECT_EQ(*readFile(path), std::string("t\0wo", 4));
  Result<void> failed =
      writeFileAtomically(joinPath(folder.path, "no/file"), "x");
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, ErrorCode::FileSystem);
  EXPECT_THAT(failed.error().message, HasSubstr("no/file': No such file"));
  EXPECT_THAT(failed.error().message,
              HasSubstr("; expected a folder at '" + folder.path + "/no'"));
  EXPECT_THAT(*listFiles(folder.path), ElementsAre("file"));
}

TEST(Files, saysThatTheDiskIsFull) {
  if (::access("/dev/full", W_OK) != 0)
    GTEST_SKIP() << "no /dev/full here";
  Result<void> failed = writeFile("/dev/full", "x");
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().message,
            "cannot write '/dev/full': No space left on device");
}

TEST(Files, readErrorsNameThePath) {
  Result<std::string> folder = readFile("/");
  ASSERT_FALSE(folder);
  EXPECT_EQ(folder.error().message, "cannot read '/': Is a directory");
}

TEST(Files, waitsForNothingAndReadsNothingWithoutEnd) {
  TemporaryFolder folder;
  std::string fifo = joinPath(folder.path, "fifo");
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_EQ(readFile(fifo).error().message,
            "'" + fifo + "': expected a regular file, found a FIFO");
  EXPECT_EQ(readFile("/dev/zero").error().message,
            "'/dev/zero': expected a regular file, found a device");
  std::string path = joinPath(folder.path, "file");
  ASSERT_TRUE(writeFile(path, "12345"));
  EXPECT_EQ(*readFile(path, 5), "12345");
  EXPECT_EQ(readFile(path, 4).error().message,
            "'" + path + "': expected at most 4 bytes, got 5");
  // A size of 0, and content all the same.
  EXPECT_FALSE(readFile("/proc/self/maps", 10));
  EXPECT_TRUE(readFile("/proc/self/maps"));
}

TEST(Files, createsListsAndRemovesFolders) {
  TemporaryFolder folder;
  ASSERT_TRUE(createFolders(joinPath(folder.path, "a/b")));
  ASSERT_TRUE(createFolders(joinPath(folder.path, "a/b")));
  ASSERT_TRUE(writeFile(joinPath(folder.path, "a/b/z"), ""));
  ASSERT_TRUE(writeFile(joinPath(folder.path, "a/y"), ""));
  EXPECT_THAT(*listFiles(folder.path), ElementsAre("a/b/z", "a/y"));
  EXPECT_FALSE(createFolders(joinPath(folder.path, "a/y/c")));
  EXPECT_FALSE(createFolders(joinPath(folder.path, "a/y")));
  Result<void> onFolder = writeFileAtomically(folder.path + "/a", "x");
  ASSERT_FALSE(onFolder);
  EXPECT_THAT(onFolder.error().message,
              HasSubstr("; expected the path of a file"));
  EXPECT_THAT(*listFiles(folder.path), ElementsAre("a/b/z", "a/y"));
  ASSERT_TRUE(removeAll(joinPath(folder.path, "a")));
  ASSERT_TRUE(removeAll(joinPath(folder.path, "a")));
  EXPECT_TRUE(listFiles(folder.path)->empty());
  EXPECT_FALSE(listFiles(joinPath(folder.path, "a")));
}

/// A write that fails leaves what was there, and no other file.
TEST(Files, failedWritesLeaveNothing) {
  TemporaryFolder folder;
  const std::string path = joinPath(folder.path, "a");
  ASSERT_TRUE(createFolders(joinPath(path, "b")));
  EXPECT_THAT(writeFileAtomically(path, "text").error().message,
              HasSubstr("cannot rename a temporary file to '" + path + "'"));
  EXPECT_TRUE(listFiles(folder.path)->empty());
  const std::string file = joinPath(path, "b/file");
  ASSERT_TRUE(writeFileAtomically(file, "before"));
  struct rlimit before;
  ::getrlimit(RLIMIT_FSIZE, &before);
  auto *handler = ::signal(SIGXFSZ, SIG_IGN);
  const struct rlimit small = {4, before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &small);
  Result<void> written = writeFileAtomically(file, "longer than that");
  ::setrlimit(RLIMIT_FSIZE, &before);
  ::signal(SIGXFSZ, handler);
  ASSERT_FALSE(written);
  EXPECT_THAT(written.error().message,
              HasSubstr("cannot write '" + file + "'"));
  EXPECT_EQ(*readFile(file), "before");
  EXPECT_THAT(*listFiles(folder.path), ElementsAre("a/b/file"));
  EXPECT_THAT(
      writeFileAtomically(joinPath(folder.path, "none/c"), "").error().message,
      HasSubstr("cannot create a temporary file for"));
}

TEST(Files, temporaryNamesDiffer) {
  TemporaryFolder folder;
  std::set<std::string> names;
  for (int i = 0; i < 20; ++i)
    names.insert(*createTemporaryFolderBeside(folder.path + "/x/y"));
  EXPECT_EQ(names.size(), 20u);
}

/// A folder's name may end in slashes, and the temporary folder is not in it.
TEST(Files, temporaryFoldersAreBesideTheirPath) {
  TemporaryFolder folder;
  for (const char *name : {"a", "a/", "a//"}) {
    Result<std::string> made =
        createTemporaryFolderBeside(joinPath(folder.path, name));
    ASSERT_TRUE(made) << name;
    EXPECT_TRUE(made->starts_with(folder.path + "/a.tmp-")) << *made;
    EXPECT_EQ(parentFolder(*made), folder.path) << name;
  }
}

TEST(Files, knowsPathsThatStayInside) {
  for (const char *good : {"a", "a/b.cu", "sm_90a/x.cubin", "..a/b"})
    EXPECT_TRUE(isContainedPath(good)) << good;
  for (const char *bad :
       {"", "/a", "../a", "a/../b", "a/..", "./a", "a//b", "a/", "a\\b"})
    EXPECT_FALSE(isContainedPath(bad)) << bad;
  EXPECT_FALSE(isContainedPath(std::string_view("a\0b", 3)));
  EXPECT_EQ(parentFolder("a/b"), "a");
  EXPECT_EQ(parentFolder("/b"), "/");
  EXPECT_EQ(parentFolder("b"), ".");
}

TEST(Env, readsTypedValues) {
  ::unsetenv("MOEC_STRICT");
  EXPECT_FALSE(*envFlag("MOEC_STRICT"));
  for (const auto &[word, on] : {std::pair("1", true),
                                 {"on", true},
                                 {"true", true},
                                 {"yes", true},
                                 {"0", false},
                                 {"off", false},
                                 {"false", false},
                                 {"no", false}}) {
    ::setenv("MOEC_STRICT", word, 1);
    const Result<bool> flag = envFlag("MOEC_STRICT");
    ASSERT_TRUE(flag) << word;
    EXPECT_EQ(*flag, on) << word;
  }
  ::setenv("MOEC_STRICT", "maybe", 1);
  EXPECT_EQ(envFlag("MOEC_STRICT").error().message,
            "environment variable MOEC_STRICT: expected 1, on, true, yes or 0, "
            "off, false, no, got 'maybe'");
  ::unsetenv("MOEC_STRICT");
  ::setenv("MOEC_JOBS", "12", 1);
  EXPECT_EQ(*envInteger("MOEC_JOBS"), 12);
  ::setenv("MOEC_JOBS", "0", 1);
  const Result<int64_t> zero = envInteger("MOEC_JOBS");
  ASSERT_TRUE(zero) << zero.error().message;
  EXPECT_EQ(*zero, 0);
  for (const char *bad : {"-1", "1x", "x"}) {
    ::setenv("MOEC_JOBS", bad, 1);
    EXPECT_FALSE(envInteger("MOEC_JOBS")) << bad;
  }
  ::unsetenv("MOEC_JOBS");
}

TEST(Env, findsTheCacheFolder) {
  ::setenv("MOEC_CACHE_DIR", "/c", 1);
  ::setenv("XDG_CACHE_HOME", "/x", 1);
  EXPECT_EQ(*envCacheFolder(), "/c");
  ::unsetenv("MOEC_CACHE_DIR");
  EXPECT_EQ(*envCacheFolder(), "/x/moec");
  ::unsetenv("XDG_CACHE_HOME");
  ::setenv("HOME", "/h", 1);
  EXPECT_EQ(*envCacheFolder(), "/h/.cache/moec");
}

TEST(Env, everyVariableIsDescribedOnce) {
  std::set<std::string_view> names;
  for (const EnvVariable &variable : kEnvVariables) {
    EXPECT_TRUE(names.insert(variable.name).second) << variable.name;
    EXPECT_EQ(variable.help.back(), '.') << variable.name;
    EXPECT_THAT((std::set<std::string_view>{"path", "flag", "integer", "size",
                                            "word", "words"}),
                testing::Contains(variable.type));
  }
}

TEST(Progress, countsToTheSink) {
  std::vector<std::string> shown;
  setProgressSink([&](std::string_view what, int64_t done, int64_t total) {
    shown.push_back(fmt::format("{} {}/{}", what, done, total));
  });
  {
    Progress progress("steps", 3);
    progress.advance();
    progress.advance(2);
  }
  {
    Progress failed("others", 2);
  }
  setProgressSink({});
  {
    Progress unseen("unseen", 1);
    unseen.advance();
  }
  EXPECT_EQ(shown,
            (std::vector<std::string>{"steps 0/3", "steps 1/3", "steps 3/3",
                                      "others 0/2", "others 2/2"}));
}

TEST(Progress, partsOfAStepAreQuiet) {
  int heard = 0;
  setProgressSink([&](std::string_view, int64_t, int64_t) { ++heard; });
  {
    const QuietProgress quiet;
    Progress part("parts", 3);
    part.advance();
    // Steps of another thread are shown.
    std::thread([] { Progress("others", 1); }).join();
  }
  EXPECT_EQ(heard, 2);
  {
    Progress step("steps", 1);
  }
  EXPECT_EQ(heard, 4);
  setProgressSink({});
}

TEST(Interrupt, AnIgnoredSignalStaysIgnored) {
  auto *handler = ::signal(SIGHUP, SIG_IGN);
  {
    const SignalsInterrupt signals;
    ::raise(SIGHUP);
    EXPECT_FALSE(isInterrupted());
  }
  ::signal(SIGHUP, handler);
}

TEST(Log, handsMessagesToTheSink) {
  std::vector<std::string> seen;
  setLogSink(
      [&](LogLevel level, std::string_view message) {
        seen.push_back(fmt::format("{}: {}", logLevelName(level), message));
      },
      LogLevel::Info);
  log(LogLevel::Warning, "{} and {}", 1, "two");
  log(LogLevel::Debug, "unseen");
  setLogSink({}, LogLevel::Warning);
  EXPECT_THAT(seen, ElementsAre("warning: 1 and two"));
  EXPECT_FALSE(logs(LogLevel::Info));
}
