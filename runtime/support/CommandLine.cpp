//===- CommandLine.cpp - parsing of a program's command line --------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// CLI11 accepts `--flag=8` as true, and uses the next word as the value of
// `--option=`. Its messages contain neither the program's name nor suggestions.
// Therefore this file checks the words before CLI11 parses them, and replaces
// CLI11's error messages.
//
//===----------------------------------------------------------------------===//

#include "runtime/support/CommandLine.h"

#include "runtime/support/Env.h"
#include "runtime/support/Terminal.h"
#include "runtime/support/Words.h"

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <mutex>
#include <sstream>
#include <utility>

using namespace moec;

namespace {

/// The words of a command line, and the command (subcommand) if there is one.
class Words {
public:
  Words(CLI::App &app, int argc, char **argv)
      : app(app), words(argv + 1, argv + argc) {
    for (const CLI::App *each : commands())
      if (!words.empty() && each->get_name() == words.front())
        command = each;
  }

  /// Returns an error message for the first word that CLI11 would misinterpret,
  /// or "" if there is none.
  std::string misread() const;
  /// Returns the error message for an error of CLI11.
  std::string explain(const CLI::ParseError &error) const;

private:
  std::vector<const CLI::App *> commands() const {
    return std::as_const(app).get_subcommands(
        [](const CLI::App *) { return true; });
  }
  const CLI::App &active() const { return command ? *command : app; }
  /// Returns the command line that shows the help, such as "moec compile
  /// --help".
  std::string help() const {
    return app.get_name() + (command ? " " + command->get_name() : "") +
           " --help";
  }
  std::vector<std::string> optionNames(const CLI::App &of) const;
  std::string unknownOption(const std::string &word) const;
  std::string unexpectedWord(const std::string &word) const;
  std::string unknownCommand() const;
  std::string missingValue(const std::string &name) const;

  CLI::App &app;
  const CLI::App *command = nullptr;
  std::vector<std::string> words;
};

std::vector<std::string_view> views(const std::vector<std::string> &words) {
  return {words.begin(), words.end()};
}

bool isFlag(const CLI::Option &option) {
  return option.get_items_expected_max() == 0;
}

/// Returns the message for a flag that was passed with a value.
std::string flagText(const CLI::Option &flag) {
  std::string text = flag.get_description();
  if (!text.empty())
    text[0] =
        static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
  return fmt::format("{} is a flag: {}", flag.get_name(), text);
}

std::string nameIn(const std::string &word) {
  return word.substr(0, word.find('='));
}

std::vector<std::string> Words::optionNames(const CLI::App &of) const {
  std::vector<std::string> names;
  for (const CLI::Option *option :
       of.get_options([](const CLI::Option *) { return true; })) {
    for (const std::string &name : option->get_lnames())
      names.push_back("--" + name);
    for (const std::string &name : option->get_snames())
      names.push_back("-" + name);
  }
  return names;
}

std::string Words::misread() const {
  for (const std::string &word : words) {
    const std::string name = nameIn(word);
    if (word == "--")
      return "";
    if (!word.starts_with('-') || name == word)
      continue;
    const CLI::Option *option = active().get_option_no_throw(name);
    if (!option)
      continue;
    const std::string value = word.substr(name.size() + 1);
    if (isFlag(*option))
      return fmt::format("{}: expected no value, got '{}'; {}", name, value,
                         flagText(*option));
    if (value.empty())
      return missingValue(name);
    if (!name.starts_with("--"))
      return fmt::format("{}: expected {} {}, got '{}'", name, name, value,
                         word);
  }
  return "";
}

std::string Words::missingValue(const std::string &name) const {
  const CLI::Option *option = active().get_option_no_throw(name);
  return fmt::format("{}: expected a value, got none{}{}", name,
                     option ? ": " : "",
                     option ? option->get_description() : "");
}

/// Options that are common in other programs, and the corresponding options
/// here.
constexpr std::pair<std::string_view, std::string_view> kSynonyms[] = {
    {"--output", "-o"},      {"--out", "-o"},    {"-v", "--version"},
    {"-V", "--version"},     {"-t", "--tokens"}, {"--target", "--arch"},
    {"version", "--version"}};

std::string Words::unknownOption(const std::string &word) const {
  const std::string name = nameIn(word);
  const std::vector<std::string> known = optionNames(active());
  std::string near;
  for (const auto &[other, here] : kSynonyms)
    if (other == name && std::ranges::find(known, here) != known.end())
      near = fmt::format("did you mean {}? ", here);
  if (near.empty())
    near = didYouMean(name, views(known));
  std::string others;
  for (const CLI::App *each : commands())
    if (each != command && near.empty() && each->get_option_no_throw(name))
      others += fmt::format("{}{} {}", others.empty() ? "" : ", ",
                            app.get_name(), each->get_name());
  if (!others.empty() && command)
    return fmt::format("{} {} has no option {}, which belongs to {}; {} "
                       "lists its own",
                       app.get_name(), command->get_name(), name, others,
                       help());
  if (!others.empty())
    return fmt::format("option {}: expected a command before it: {}", name,
                       others);
  return fmt::format("unknown option {}; {}{} lists the options", name, near,
                     help());
}

std::string Words::unexpectedWord(const std::string &word) const {
  const auto at = std::ranges::find(words, word);
  const CLI::Option *flag =
      at == words.begin() || at == words.end()
          ? nullptr
          : active().get_option_no_throw(nameIn(*std::prev(at)));
  if (flag && isFlag(*flag))
    return fmt::format("unexpected '{}': {} takes no value; {}", word,
                       flag->get_name(), flagText(*flag));
  std::string taken;
  for (const CLI::Option *option :
       active().get_options([](const CLI::Option *) { return true; }))
    if (option->get_positional())
      taken += fmt::format("{} {}", taken.empty() ? " one" : " and one",
                           option->get_name(/*positional=*/true));
  return fmt::format("unexpected '{}': expected{} options; {} lists them", word,
                     taken.empty() ? " only" : fmt::format("{} and", taken),
                     help());
}

std::string Words::unknownCommand() const {
  std::vector<std::string_view> names;
  for (const CLI::App *each : commands())
    names.push_back(each->get_name());
  const std::string known = listOf(names, "and", false);
  if (words.empty())
    return fmt::format("expected a command, got none; known: {}", known);
  if (words.front().starts_with('-') || words.front() == "version")
    return unknownOption(words.front());
  return fmt::format("unknown command '{}'; {}known: {}", words.front(),
                     didYouMean(words.front(), names), known);
}

/// Describes the type of an option. CLI11 has only words in capital letters for
/// it.
std::string typeText(const std::string &type) {
  if (type == "INT" || type == "UINT")
    return type == "INT" ? "an integer" : "an integer from 0";
  return type == "FLOAT" ? "a number" : "a value";
}

std::string Words::explain(const CLI::ParseError &error) const {
  const std::string text = error.what();
  // An unknown option is reported first, because it may be the reason why
  // another option is missing.
  const std::vector<std::string> extras = app.remaining(/*recurse=*/true);
  const auto option = std::ranges::find_if(extras, [](const std::string &word) {
    return word.size() > 1 && word.starts_with('-');
  });
  if (!command && !commands().empty())
    return unknownCommand();
  if (option != extras.end())
    return unknownOption(*option);
  if (!extras.empty())
    return unexpectedWord(extras.front());
  const std::string name = text.substr(0, text.find(':'));
  if (dynamic_cast<const CLI::ArgumentMismatch *>(&error)) {
    if (text.ends_with(" missing"))
      return missingValue(name);
    if (text.find(": At Most 1 required") != std::string::npos)
      return fmt::format("{}: expected it once, got it {} times", name,
                         text.substr(text.rfind(' ') + 1));
    if (const size_t to = text.find(" arguments to ");
        to != std::string::npos) {
      const std::string rest = text.substr(to + 14);
      return fmt::format("{}: expected one value, got {}",
                         rest.substr(0, rest.find(',')),
                         rest.substr(rest.rfind(' ') + 1));
    }
  }
  if (dynamic_cast<const CLI::ConversionError *>(&error)) {
    constexpr std::string_view kBegin = "Could not convert: ";
    const size_t equals = text.find(" = ");
    if (text.starts_with(kBegin) && equals != std::string::npos) {
      const std::string named =
          text.substr(kBegin.size(), equals - kBegin.size());
      const CLI::Option *one = active().get_option_no_throw(named);
      return fmt::format("{}: expected {}, got '{}'", named,
                         typeText(one ? one->get_type_name() : ""),
                         text.substr(equals + 3));
    }
  }
  if (dynamic_cast<const CLI::RequiredError *>(&error)) {
    constexpr std::string_view kEnd = " is required";
    const std::string named = text.substr(0, text.size() - kEnd.size());
    const CLI::Option *one =
        text.ends_with(kEnd) ? active().get_option_no_throw(named) : nullptr;
    if (one)
      return fmt::format("expected {}, got none: {}", named,
                         one->get_description());
  }
  return text;
}

/// Returns an error for a value that is empty or looks like an option.
std::string checkValue(const std::string &value) {
  if (value.empty())
    return "expected a value, got none";
  if (value.starts_with("--"))
    return fmt::format("expected a value, got the option {}", value);
  return "";
}

/// Removes leading and trailing blanks. In "--arch='sm_90a, sm_80'" there is
/// one after the comma.
std::string withoutBlanks(std::string value) {
  const size_t begin = value.find_first_not_of(' ');
  const size_t end = value.find_last_not_of(' ');
  return begin == std::string::npos ? "" : value.substr(begin, end - begin + 1);
}

void addChecks(CLI::App &app) {
  for (CLI::Option *option :
       app.get_options([](const CLI::Option *) { return true; })) {
    if (isFlag(*option))
      continue;
    option->check(checkValue);
    if (option->get_delimiter() != '\0')
      option->transform(withoutBlanks);
  }
  for (CLI::App *command :
       app.get_subcommands([](const CLI::App *) { return true; }))
    addChecks(*command);
}

} // namespace

std::function<std::string(const std::string &)>
moec::oneOf(std::vector<std::string> words) {
  return [words = std::move(words)](const std::string &word) -> std::string {
    if (std::ranges::find(words, word) != words.end())
      return "";
    const std::vector<std::string_view> known = views(words);
    return fmt::format("{}expected {}, got '{}'", didYouMean(word, known),
                       listOf(known, "or", false), word);
  };
}

std::optional<int> moec::parseCommandLine(CLI::App &app, int argc,
                                          char **argv) {
  const Words words(app, argc, argv);
  const auto refuse = [&app](const std::string &reason) {
    printError(app.get_name(), reason);
    return kUsageStatus;
  };
  addChecks(app);
  if (const std::string reason = words.misread(); !reason.empty())
    return refuse(reason);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    if (error.get_exit_code() != 0)
      return refuse(words.explain(error));
    std::ostringstream text;
    app.exit(error, text, text);
    fmt::print("{}", text.str());
    return 0;
  }
  // The warnings are printed only once, because a test process may parse many
  // command lines.
  static std::once_flag said;
  std::call_once(said, [&] {
    for (const std::string &warning : misspeltVariables())
      fmt::print(stderr, "{}: warning: {}\n", app.get_name(), warning);
  });
  return std::nullopt;
}
