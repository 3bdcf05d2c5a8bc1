//===- WorkerTest.cpp - kernels compiled by other processes ---------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Workers that answer, crash, end, talk nonsense or are of another version;
// what they have of this process, and what this process keeps. The cases of
// Workers need NVRTC to be found, and those that fall back compile with it.
//
//===----------------------------------------------------------------------===//

#include "test/runtime/jit/JitTesting.h"

#include "runtime/jit/CompilePool.h"
#include "runtime/jit/CompileWorker.h"
#include "test/runtime/TinyManifest.h"

#include <gmock/gmock.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

using namespace moec;
using namespace moec::runtime;
using namespace moec::test;
using testing::HasSubstr;
using testing::StartsWith;

//===----------------------------------------------------------------------===//
// Messages
//===----------------------------------------------------------------------===//

namespace {
struct Ends {
  Ends() { EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, of), 0); }
  ~Ends() {
    close(of[0]);
    close(of[1]);
  }
  int of[2];
};
} // namespace

TEST(WorkerMessages, keepAllOfAJob) {
  WorkerJob job{{"lib", "builtins", "found by", "identity"},
                tinyRecipe("moec_a"),
                LogLevel::Info};
  auto same = jobOf(toMessage(job));
  ASSERT_TRUE(same);
  EXPECT_EQ(same->recipe.json(), job.recipe.json());
  EXPECT_EQ(same->recipe.source->text, job.recipe.source->text);
  EXPECT_EQ(same->nvrtc.library, "lib");
  EXPECT_EQ(same->nvrtc.builtins, "builtins");
  EXPECT_EQ(same->nvrtc.foundBy, "found by");
  EXPECT_EQ(same->nvrtc.identity, "identity");
  EXPECT_EQ(same->level, LogLevel::Info);
}

TEST(WorkerMessages, keepAllOfAnAnswer) {
  WorkerAnswer answer;
  answer.cubin = Cubin{std::string("\0\x7f\xff", 3), "log"};
  answer.openMilliseconds = 1.25;
  answer.log = {{LogLevel::Debug, "one"}, {LogLevel::Error, ""}};
  auto same = answerOf(toMessage(answer));
  ASSERT_TRUE(same && same->cubin);
  EXPECT_EQ(same->cubin->bytes, answer.cubin->bytes);
  EXPECT_EQ(same->cubin->log, "log");
  EXPECT_EQ(same->openMilliseconds, 1.25);
  EXPECT_EQ(same->log, answer.log);
  answer.cubin = Error(ErrorCode::NoCompiler, "none");
  same = answerOf(toMessage(answer));
  ASSERT_TRUE(same && !same->cubin);
  EXPECT_EQ(same->cubin.error().code, ErrorCode::NoCompiler);
  EXPECT_EQ(same->cubin.error().message, "none");
}

/// Every part of a message is looked at: none may be missing, or be more.
template <typename Read>
static void expectNoPart(const WorkerMessage &whole, Read read) {
  for (size_t size = 0; size < whole.size(); ++size)
    EXPECT_FALSE(read({whole.begin(), whole.begin() + long(size)})) << size;
  WorkerMessage longer = whole;
  longer.emplace_back();
  EXPECT_FALSE(read(longer));
}

TEST(WorkerMessages, partsAreNone) {
  WorkerJob job{{}, tinyRecipe(), LogLevel::Info};
  expectNoPart(toMessage(job), jobOf);
  WorkerAnswer answer;
  answer.log = {{LogLevel::Debug, "one"}};
  expectNoPart(toMessage(answer), answerOf);
  WorkerMessage message = toMessage(answer);
  for (const char *code : {"-1", "19", "1x", "0x", " 0", ""}) {
    message[0] = code;
    EXPECT_FALSE(answerOf(message)) << code;
  }
  // Milliseconds have eight bytes.
  message = toMessage(answer);
  for (const size_t bytes : {0, 7, 9}) {
    message[3] = std::string(bytes, '\0');
    EXPECT_FALSE(answerOf(message)) << bytes;
  }
}

TEST(WorkerMessages, throughASocket) {
  Ends ends;
  const WorkerMessage sent = {"", std::string(3 << 20, 'x'), "end"};
  std::thread sender([&] { EXPECT_TRUE(sendMessage(ends.of[0], sent)); });
  auto got = receiveMessage(ends.of[1]);
  sender.join();
  ASSERT_TRUE(got);
  EXPECT_EQ(*got, sent);
}

TEST(WorkerMessages, aLengthIsBelievedAsFarAsBytesCome) {
  for (auto [count, size] : {std::pair<uint64_t, uint64_t>{1, 1 << 29},
                             {1, ~uint64_t(0)},
                             {~uint64_t(0), 0},
                             {2, 0}}) {
    Ends ends;
    const uint64_t numbers[] = {count, size};
    ASSERT_EQ(write(ends.of[0], numbers, sizeof numbers),
              ssize_t(sizeof numbers));
    shutdown(ends.of[0], SHUT_WR);
    EXPECT_FALSE(receiveMessage(ends.of[1])) << count << " " << size;
  }
}

TEST(WorkerMessages, aCubinIsWhole) {
  // The header, a table of two segments, one of a section, and its name.
  std::string cubin("\x7f"
                    "ELF\x02\x01");
  cubin.resize(64);
  const auto put = [&](size_t at, uint16_t number) {
    std::memcpy(cubin.data() + at, &number, sizeof number);
  };
  cubin += std::string(".text.moec_a\0", 13);
  const size_t tables = cubin.size();
  put(18, 190);
  put(32, uint16_t(tables)), put(54, 56), put(56, 2);
  put(40, uint16_t(tables + 112)), put(58, 64), put(60, 1);
  cubin.resize(tables + 112 + 64);
  EXPECT_EQ(notCubin(cubin, "moec_a"), "");
  EXPECT_EQ(notCubin(cubin, "moec"), "an ELF file without a kernel moec");
  for (const size_t bytes : {size_t(0), size_t(5), size_t(6), size_t(63)})
    EXPECT_EQ(notCubin(cubin.substr(0, bytes), "moec_a"),
              std::to_string(bytes) + " bytes, no ELF file");
  for (const size_t bytes : {size_t(64), tables + 111, cubin.size() - 1})
    EXPECT_EQ(notCubin(cubin.substr(0, bytes), "moec_a"),
              std::to_string(bytes) + " bytes, an ELF file that is cut");
  put(18, 62);
  EXPECT_EQ(notCubin(cubin, "moec_a"),
            "an ELF file of machine 62, expected 190");
}

TEST(WorkerMessages, anEndThatIsGoneRaisesNoSignal) {
  Ends ends;
  shutdown(ends.of[1], SHUT_RDWR);
  EXPECT_FALSE(sendMessage(ends.of[0], {"text"}));
}

//===----------------------------------------------------------------------===//
// Workers
//===----------------------------------------------------------------------===//

namespace {
std::string testedFolder() {
  return std::string(getenv("MOEC_BINARY_DIR")) + "/bin";
}

/// MOEC_WORKER for as long as this lives.
class WorkerSetting {
public:
  explicit WorkerSetting(const std::string &path) {
    setenv("MOEC_WORKER", path.c_str(), 1);
  }
  ~WorkerSetting() { unsetenv("MOEC_WORKER"); }
};

class Workers : public testing::Test {
protected:
  void SetUp() override {
    if (auto found = findNvrtc(); !found)
      GTEST_SKIP() << found.error().message;
    package = tinyPackage();
    Target &target = package.manifest.targets[0];
    target.kernels.resize(3);
    rename(0, "moec_first");
    rename(1, "moec_second");
    rename(2, "moec_third");
  }

  /// Gives a kernel an entry, and a text that NVRTC takes.
  void rename(size_t number, const std::string &entry) {
    Kernel &kernel = package.manifest.targets[0].kernels[number];
    kernel.entry = entry;
    package.files[kernel.source] =
        "extern \"C\" __global__ void " + entry + "(int *out) { *out = 42; }\n";
    hashFiles(package);
  }

  /// The fake worker by another name.
  std::string fake(const std::string &name) const {
    std::string path = folder.path + "/" + name;
    std::filesystem::create_symlink(testedFolder() + "/moec-fake-worker", path);
    return path;
  }

  Result<CompileOutcome> compile(int jobs = 3, const std::string &cache = "") {
    CompileSettings settings;
    settings.cacheFolder = cache;
    settings.jobs = jobs;
    return compileKernels(package, package.manifest.targets[0], settings);
  }

  PackageFiles package;
  TemporaryFolder folder;
};

/// Children of this process that have ended and that nobody has waited for.
bool hasChildren() {
  return waitpid(-1, nullptr, WNOHANG) != -1 || errno != ECHILD;
}
} // namespace

TEST_F(Workers, compileAsThisProcessDoes) {
  Result<std::string> program = Error();
  {
    WorkerSetting unset("");
    program = findWorker();
  }
  ASSERT_TRUE(program) << program.error().message;
  EXPECT_THAT(*program, testing::EndsWith("/libexec/moec/moec-nvrtc"));
  rename(2, "moec_third");
  auto by = compile();
  ASSERT_TRUE(by) << by.error().message;
  EXPECT_EQ(by->summary.workers, 3);
  EXPECT_NE(by->summary.nvrtcPath, "");
  EXPECT_GT(by->summary.nvrtcOpenMilliseconds, 0);
  WorkerSetting off("off");
  auto here = compile();
  ASSERT_TRUE(here) << here.error().message;
  EXPECT_EQ(here->summary.workers, 0);
  for (size_t i = 0; i < 3; ++i)
    EXPECT_EQ(by->kernels[i].cubin, here->kernels[i].cubin);
  EXPECT_FALSE(hasChildren());
}

TEST_F(Workers, errorsAreThoseOfThisProcess) {
  Kernel &kernel = package.manifest.targets[0].kernels[1];
  package.files[kernel.source] = "this is no CUDA: \xff\n";
  hashFiles(package);
  auto by = compile();
  ASSERT_FALSE(by);
  WorkerSetting off("off");
  auto here = compile();
  ASSERT_FALSE(here);
  EXPECT_EQ(by.error().code, here.error().code);
  EXPECT_EQ(by.error().message, here.error().message);
  EXPECT_THAT(by.error().message, HasSubstr("kernel.cu(1): error"));
}

TEST_F(Workers, fewJobsStartNone) {
  WorkerSetting setting(fake("worker"));
  auto outcome = compile(2);
  ASSERT_TRUE(outcome) << outcome.error().message;
  EXPECT_EQ(outcome->summary.workers, 0);
  EXPECT_THAT(outcome->kernels[0].cubin, StartsWith("\x7f"
                                                    "ELF"));
}

TEST_F(Workers, haveNothingOfThisProcess) {
  int open = ::open("/dev/null", O_RDONLY); // not closed on exec
  struct sigaction before = {}, ignore = {};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &ignore, &before);
  sigset_t blocked, mask;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &blocked, &mask);
  WorkerSetting setting(fake("worker"));
  Warnings warnings;
  auto outcome = compile();
  pthread_sigmask(SIG_SETMASK, &mask, nullptr);
  sigaction(SIGPIPE, &before, nullptr);
  close(open);
  ASSERT_TRUE(outcome) << outcome.error().message;
  EXPECT_THAT(outcome->kernels[1].cubin,
              testing::EndsWith("fake moec_second; 3 descriptors, 0 blocked, "
                                "0 ignored, own group"));
  EXPECT_EQ(outcome->summary.nvrtcOpenMilliseconds, 2.5);
  // The log of a worker is this one's.
  EXPECT_THAT(warnings.all, HasSubstr("said by a worker"));
  EXPECT_FALSE(hasChildren());
}

TEST_F(Workers, aCacheKeepsWhatTheyCompile) {
  WorkerSetting setting(fake("worker"));
  Warnings warnings;
  ASSERT_TRUE(compile(3, folder.path + "/cache"));
  auto warm = compile(3, folder.path + "/cache");
  ASSERT_TRUE(warm) << warm.error().message;
  EXPECT_EQ(warm->summary.workers, 0) << "a hit starts no process";
  EXPECT_EQ(warm->summary.nvrtcPath, "");
  EXPECT_EQ(warm->kernels[2].source, CubinSource::Cache);
  EXPECT_THAT(warm->kernels[2].cubin, HasSubstr("fake moec_third"));
}

TEST_F(Workers, aRefusalIsTheKernels) {
  rename(1, "moec_refused");
  WorkerSetting setting(fake("worker"));
  Warnings warnings;
  auto outcome = compile();
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, ErrorCode::CompileFailed);
  EXPECT_EQ(outcome.error().message, "kernel moec_refused is refused: \xff\n");
}

TEST_F(Workers, aCrashIsAnError) {
  rename(1, "moec_crash");
  const std::string program = fake("worker");
  WorkerSetting setting(program);
  Warnings warnings;
  auto outcome = compile(3, folder.path + "/cache");
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, ErrorCode::CompileFailed);
  EXPECT_EQ(outcome.error().message,
            "kernel moec_crash: '" + program +
                "' ended before it had compiled it (signal 11, Segmentation "
                "fault); MOEC_WORKER=off compiles it in the process that "
                "loads");
  // The other kernels are compiled all the same.
  rename(1, "moec_second");
  auto again = compile(3, folder.path + "/cache");
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->kernels[0].source, CubinSource::Cache);
  EXPECT_EQ(again->kernels[1].source, CubinSource::Compiled);
  EXPECT_EQ(again->kernels[2].source, CubinSource::Cache);
  EXPECT_FALSE(hasChildren());
}

TEST_F(Workers, whereOneEndsThisProcessCompiles) {
  for (const char *entry : {"moec_exit", "moec_nonsense"}) {
    SCOPED_TRACE(entry);
    rename(1, entry);
    const std::string program = fake(entry + std::string("-worker"));
    WorkerSetting setting(program);
    Warnings warnings;
    auto outcome = compile();
    ASSERT_TRUE(outcome) << outcome.error().message;
    EXPECT_THAT(outcome->kernels[1].cubin, StartsWith("\x7f"
                                                      "ELF"));
    EXPECT_THAT(warnings.all,
                HasSubstr("kernel " + std::string(entry) + ": '" + program +
                          "' ended before it had compiled it (exit status"));
    EXPECT_THAT(warnings.all, HasSubstr("; this process compiles it"));
    EXPECT_FALSE(hasChildren());
  }
}

TEST_F(Workers, whatIsNoCubinOfTheKernelIsNotKept) {
  for (const auto &[entry, why] :
       {std::pair("moec_empty", "0 bytes, no ELF file"),
        {"moec_garbage", "1000 bytes, no ELF file"},
        {"moec_host", "an ELF file of machine 62, expected 190"},
        {"moec_cut", "an ELF file that is cut"},
        {"moec_other", "an ELF file without a kernel moec_other"}}) {
    SCOPED_TRACE(entry);
    rename(1, entry);
    const std::string program = fake(entry + std::string("-worker"));
    const std::string cache = folder.path + "/" + entry;
    WorkerSetting setting(program);
    Warnings warnings;
    auto outcome = compile(3, cache);
    ASSERT_TRUE(outcome) << outcome.error().message;
    EXPECT_THAT(outcome->kernels[1].cubin, StartsWith("\x7f"
                                                      "ELF"));
    EXPECT_THAT(outcome->kernels[1].cubin, Not(HasSubstr("fake")));
    EXPECT_THAT(warnings.all,
                HasSubstr("kernel " + std::string(entry) + ": '" + program +
                          "' answers with what is no cubin of it: "));
    EXPECT_THAT(warnings.all, HasSubstr(why));
    auto warm = compile(3, cache);
    ASSERT_TRUE(warm) << warm.error().message;
    EXPECT_EQ(warm->kernels[1].source, CubinSource::Cache);
    EXPECT_EQ(warm->kernels[1].cubin, outcome->kernels[1].cubin);
    EXPECT_FALSE(hasChildren());
  }
}

TEST_F(Workers, anAnswerThatDoesNotComeIsNotAwaitedForEver) {
  const auto patience = [](int greeting, int answer, int pause) {
    return WorkerPatience{std::chrono::milliseconds(greeting),
                          std::chrono::milliseconds(answer),
                          std::chrono::milliseconds(pause)};
  };
  const auto start = std::chrono::steady_clock::now();
  for (const char *name : {"silent-worker", "stalled-worker"}) {
    auto worker = CompileWorker::start(fake(name), patience(100, 100, 100));
    ASSERT_FALSE(worker) << name;
    EXPECT_THAT(worker.error().message,
                HasSubstr("does not write the greeting of moec-nvrtc"));
  }
  const std::string program = fake("worker");
  WorkerJob job{{}, tinyRecipe(), LogLevel::None};
  const std::atomic<bool> stop = false;
  for (const auto &[entry, why] :
       {std::pair("moec_hang", "has not compiled it within 0.1 s"),
        {"moec_stopped", "has not compiled it within 0.1 s"},
        {"moec_stalled", "ended before it had compiled it (it did not end by "
                         "itself, and was killed)"}}) {
    auto worker = CompileWorker::start(program, patience(10000, 100, 100));
    ASSERT_TRUE(worker) << worker.error().message;
    job.recipe.entry = entry;
    auto answer = worker->compile(job, stop);
    ASSERT_FALSE(answer) << entry;
    EXPECT_EQ(answer.error().message,
              "kernel " + std::string(entry) + ": '" + program + "' " + why);
    EXPECT_FALSE(worker->crashed()) << "this process may compile it";
  }
  // Each has two seconds in which it may end.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
  EXPECT_FALSE(hasChildren());
}

TEST_F(Workers, whereNoneStartsThisProcessCompiles) {
  std::ofstream(folder.path + "/text") << "no program\n";
  const std::string old = fake("old-worker"), ending = fake("ending-worker");
  const std::pair<std::string, std::string> cases[] = {
      {"/nowhere/moec-nvrtc",
       "cannot start '/nowhere/moec-nvrtc': No such file or directory"},
      {folder.path + "/text",
       "cannot start '" + folder.path + "/text': Permission denied"},
      {old, "'" + old +
                "' is 'moec-nvrtc 0.0.1 messages 1'; expected "
                "'moec-nvrtc 0.1.0 messages 1'"},
      {ending, "'" + ending +
                   "' does not write the greeting of moec-nvrtc "
                   "(exit status 7)"},
      {"/bin/echo", "'/bin/echo' does not write the greeting of moec-nvrtc"},
  };
  for (const auto &[program, why] : cases) {
    SCOPED_TRACE(program);
    WorkerSetting setting(program);
    Warnings warnings;
    auto outcome = compile();
    ASSERT_TRUE(outcome) << outcome.error().message;
    EXPECT_EQ(outcome->summary.workers, 0);
    for (const CompiledKernel &kernel : outcome->kernels)
      EXPECT_THAT(kernel.cubin, StartsWith("\x7f"
                                           "ELF"));
    EXPECT_THAT(warnings.all,
                StartsWith("threads of this process compile: " + why));
    // Said once, though three threads try.
    EXPECT_EQ(std::ranges::count(warnings.all, '\n'), 1);
    EXPECT_FALSE(hasChildren());
  }
}

/// Counts, and reaps whatever child has ended, as some hosts do.
static std::atomic<int> childSignals = 0;
static void reapAll(int) {
  int before = errno;
  ++childSignals;
  while (waitpid(-1, nullptr, WNOHANG) > 0)
    ;
  errno = before;
}

TEST_F(Workers, hostsMayReapOrIgnoreAllChildren) {
  WorkerSetting setting(fake("worker"));
  Warnings warnings;
  for (auto handler : {&reapAll, SIG_IGN}) {
    struct sigaction before = {}, during = {}, after = {};
    during.sa_handler = handler;
    sigaction(SIGCHLD, &during, &before);
    for (int i = 0; i < 5; ++i) {
      auto outcome = compile();
      ASSERT_TRUE(outcome) << outcome.error().message;
      EXPECT_THAT(outcome->kernels[1].cubin, HasSubstr("fake moec_second"));
    }
    sigaction(SIGCHLD, &before, &after);
    EXPECT_EQ(after.sa_handler, handler) << "the host's handler stays";
  }
  EXPECT_GT(childSignals, 0);
}

TEST_F(Workers, leaveChildrenOfTheHostAlone) {
  pid_t child = fork();
  if (child == 0)
    _exit(5);
  ASSERT_GT(child, 0);
  siginfo_t info;
  ASSERT_EQ(waitid(P_PID, child, &info, WEXITED | WNOWAIT), 0);
  WorkerSetting setting(fake("worker"));
  Warnings warnings;
  ASSERT_TRUE(compile());
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 5);
}

TEST_F(Workers, aForkedChildKeepsNone) {
  WorkerSetting setting(fake("worker"));
  auto worker = std::make_optional(CompileWorker::start(fake("other")));
  ASSERT_TRUE(*worker) << worker->error().message;
  // It holds the socket for as long as it lives.
  pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  ASSERT_GT(child, 0);
  auto begin = std::chrono::steady_clock::now();
  worker.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(1))
      << "it did not end by itself";
  kill(child, SIGKILL);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
}

/// The children of this process.
static std::vector<pid_t> children() {
  std::vector<pid_t> found;
  for (const auto &entry : std::filesystem::directory_iterator("/proc")) {
    std::ifstream stat(entry.path() / "stat");
    std::string id, name, state, parent;
    if (stat >> id >> name >> state >> parent &&
        parent == std::to_string(getpid()))
      found.push_back(pid_t(std::stoi(id)));
  }
  return found;
}

TEST_F(Workers, endWithTheProcessThatStartedThem) {
  int tell[2];
  ASSERT_EQ(pipe(tell), 0);
  const std::string program = *findWorker();
  pid_t host = fork();
  if (host == 0) {
    auto worker = CompileWorker::start(program);
    pid_t pids[2] = {children().at(0), fork()};
    // This one has the socket, too: its end does not tell the worker.
    if (pids[1] == 0)
      for (;;)
        pause();
    // No destructor runs.
    if (write(tell[1], pids, sizeof pids) == sizeof pids)
      kill(getpid(), SIGKILL);
    _exit(1);
  }
  ASSERT_GT(host, 0);
  close(tell[1]);
  pid_t pids[2] = {};
  ASSERT_EQ(read(tell[0], pids, sizeof pids), ssize_t(sizeof pids));
  close(tell[0]);
  ASSERT_EQ(waitpid(host, nullptr, 0), host);
  // Both are orphans, for whose end nobody here waits.
  auto gone = [&] {
    std::ifstream stat("/proc/" + std::to_string(pids[0]) + "/stat");
    std::string id, name, state;
    return !(stat >> id >> name >> state) || state == "Z";
  };
  for (int i = 0; i < 200 && !gone(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_TRUE(gone());
  kill(pids[1], SIGKILL);
}

TEST_F(Workers, manyPackagesAtOnce) {
  WorkerSetting setting(fake("worker"));
  setLogSink([](LogLevel, std::string_view) {}, LogLevel::Warning);
  std::vector<std::thread> loads;
  std::atomic<int> right = 0;
  for (int i = 0; i < 6; ++i)
    loads.emplace_back([&, i] {
      auto outcome = compile(3, i % 2 ? folder.path + "/cache" : "");
      right += outcome &&
               outcome->kernels[2].cubin.find("fake") != std::string::npos;
    });
  for (std::thread &load : loads)
    load.join();
  setLogSink({}, LogLevel::Warning);
  EXPECT_EQ(right, 6);
  EXPECT_FALSE(hasChildren());
}

//===----------------------------------------------------------------------===//
// The program
//===----------------------------------------------------------------------===//

TEST(WorkerProgram, isNotForPeople) {
  WorkerSetting unset("");
  auto program = findWorker();
  ASSERT_TRUE(program) << program.error().message;
  FILE *said = popen((*program + " </dev/null 2>&1").c_str(), "r");
  ASSERT_TRUE(said);
  char line[200] = {};
  EXPECT_TRUE(fgets(line, sizeof line, said));
  EXPECT_STREQ(line, "moec-nvrtc: expected a socket as standard input; moec's "
                     "libraries start this program where they compile "
                     "kernels\n");
  EXPECT_EQ(WEXITSTATUS(pclose(said)), 2);
}

TEST(WorkerProgram, isFoundBesideItsBinary) {
  TemporaryFolder folder;
  auto make = [&](const std::string &path) {
    std::filesystem::path made = folder.path + path;
    std::filesystem::create_directories(made.parent_path());
    std::ofstream(made) << "text";
    chmod(made.c_str(), 0755);
    return made.string();
  };
  const std::string wheel = make("/wheel/libmoec.so"),
                    lib = make("/prefix/lib/libmoec.so"),
                    triplet = make("/prefix/lib/triplet/libmoec.so"),
                    bin = make("/prefix/bin/moec-run");
  EXPECT_EQ(workerBeside(wheel).error().message,
            "there is no " + folder.path + "/wheel/moec-nvrtc, no " +
                folder.path + "/wheel/../libexec/moec/moec-nvrtc, no " +
                folder.path + "/wheel/../../libexec/moec/moec-nvrtc");
  const std::string beside = make("/wheel/moec-nvrtc"),
                    shared = make("/prefix/libexec/moec/moec-nvrtc");
  EXPECT_EQ(*workerBeside(wheel), beside);
  for (const std::string &binary : {lib, triplet, bin})
    EXPECT_TRUE(std::filesystem::equivalent(*workerBeside(binary), shared));
  EXPECT_EQ(workerBeside("").error().message,
            "the path of this library is unknown");
  // Whoever may write it and not the library could exchange it.
  chmod(beside.c_str(), 0775);
  EXPECT_EQ(workerBeside(wheel).error().message,
            beside + " is not started: others may write it (mode 0775)");
  chmod(wheel.c_str(), 0775);
  EXPECT_EQ(*workerBeside(wheel), beside);
  chmod(beside.c_str(), 0777);
  EXPECT_FALSE(workerBeside(wheel));
  chmod(beside.c_str(), 0755);
  if (geteuid() != 0)
    GTEST_SKIP() << "only root gives files away";
  ASSERT_EQ(chown(beside.c_str(), 12345, 0), 0);
  EXPECT_EQ(workerBeside(wheel).error().message,
            beside + " is not started: it belongs to user 12345");
  ASSERT_EQ(chown(wheel.c_str(), 12345, 0), 0);
  EXPECT_EQ(*workerBeside(wheel), beside);
  // Another group than the library's.
  ASSERT_EQ(chown(beside.c_str(), 0, 12345), 0);
  EXPECT_EQ(*workerBeside(wheel), beside);
  chmod(beside.c_str(), 0775);
  EXPECT_EQ(workerBeside(wheel).error().message,
            beside + " is not started: others may write it (mode 0775)");
}
