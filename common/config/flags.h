// FlagSet: the command line of a binary, its help and its errors.
//
// `--state_dir DIR`, `--state_dir=DIR`, `--state-dir DIR` and the environment
// variable RINGMASTER_STATE_DIR mean the same; the command line wins over the
// environment, and the last of repeated flags over earlier ones. A bool is set
// by `--flag` or `--flag=false`. `--` ends the flags, as does the first word of
// a command line of others (ends_flags). Every FlagSet has --help
// (-h) and --version. A command's own flags, which are of one call, have no
// variable, except for those that say where things are.
//
// Not thread-safe; used once, at the start of main. Values passed to Add must
// outlive Parse.
//
// Example:
//   FlagSet flags("coordinator", "Decides who trains what, and when to halt.");
//   flags.StartGroup("Network");
//   flags.Add({.name = "listen", .unit = "HOST:PORT",
//              .help = "Address to listen on."}, &listen);
//   if (auto code = flags.ParseCommandLine(argc, argv)) return
//   static_cast<int>(*code);
#ifndef RINGMASTER_COMMON_CONFIG_FLAGS_H_
#define RINGMASTER_COMMON_CONFIG_FLAGS_H_

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/config/flag_help.h"
#include "common/status/exit_code.h"

namespace ringmaster {

// The variable that a flag's value goes to. Its value when the flag is added is
// the default. Durations are written as 400ms, 1.5s or 2m; a vector collects
// repeated flags.
using FlagTarget = std::variant<bool*, int*, int64_t*, double*, std::string*,
                                absl::Duration*, std::vector<std::string>*>;

struct FlagSpec {
  std::string name = {};  // lower_snake
  char short_name = 0;    // 'f' for -f; 0: none
  // The text for the value in the help, in capitals; from the type if empty.
  std::string unit = {};
  // The purpose of the flag, in a sentence or two.
  std::string help = {};
  // Parse fails if neither the command line nor the environment sets it.
  bool is_required = false;
  // That a command's flag has a variable: it says where things of this machine are.
  bool is_place = false;
  // Bounds of numbers, and of durations in seconds; both are allowed values.
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  // The only values allowed, if not empty (strings only).
  std::vector<std::string> choices = {};
};

class FlagSet {
 public:
  // `program` is the binary's name, `summary` a sentence about it.
  FlagSet(std::string program, std::string summary);
  ~FlagSet();
  FlagSet(const FlagSet&) = delete;
  FlagSet& operator=(const FlagSet&) = delete;

  // Flags added from now on appear in the help under `title`.
  void StartGroup(std::string title);

  // Adds a flag; ends the process if its name is malformed or taken.
  void Add(FlagSpec spec, FlagTarget target);

  // Adds an argument without a name, shown in capitals (JOB); in order. A
  // vector takes all that remain; if it `ends_flags`, also what looks like flags
  // behind its first word, as the command line of another program does.
  void AddArgument(std::string name, std::string help, bool is_required,
                   std::string* value);
  void AddArgument(std::string name, std::string help, bool is_required,
                   std::vector<std::string>* values, bool ends_flags = false);

  // Adds a command with flags and arguments of its own (`ringctl submit`); the
  // flags of this set are allowed after it as well. A command that has commands
  // itself (`ringctl checkpoint ls`) takes no arguments. Lives as long as this.
  FlagSet& AddCommand(std::string name, std::string summary);

  // The command that Parse found, with those that it is in: "checkpoint ls"; ""
  // without commands.
  [[nodiscard]] std::string command() const;

  // The result of Parse: continue, or print `text` and exit with success.
  struct Parsed {
    bool is_run = true;
    std::string text = {};  // help or version
  };

  // Parses `args` (without the program) and sets the targets.
  // INVALID_ARGUMENT is one line that names the flag, for after "error: ".
  [[nodiscard]] absl::StatusOr<Parsed> Parse(std::span<const std::string> args);

  // Parse for main: prints help and version to stdout, an error to stderr.
  // Returns the code to exit with, or nullopt to continue.
  [[nodiscard]] std::optional<ExitCode> ParseCommandLine(
      int argc, const char* const* argv);

  // The help as values: of this set, then of each command and those in it.
  [[nodiscard]] std::vector<HelpPage> Pages() const;

  // Returns the text that --help prints.
  [[nodiscard]] std::string Help() const;

 private:
  struct Impl;  // Keeps CLI11's header out of this one.
  explicit FlagSet(std::unique_ptr<Impl> impl);
  [[nodiscard]] const FlagSet& Named(std::span<const std::string> words) const;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_CONFIG_FLAGS_H_
