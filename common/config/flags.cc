#include "common/config/flags.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "common/config/closest_name.h"
#include "common/config/flag_help.h"
#include "common/config/flag_value.h"
#include "common/config/version.h"
#include "common/status/check.h"
#include "common/status/status_macros.h"

namespace ringmaster {
namespace {

struct Flag {
  FlagSpec spec;
  FlagTarget target;
  std::string group;
  std::string default_text;
  std::string environment;  // the variable; empty: none
  CLI::Option* option = nullptr;
};

struct Argument {
  ArgumentHelp help;
  std::variant<std::string*, std::vector<std::string>*> target;
  CLI::Option* option = nullptr;
};

bool IsBool(const FlagTarget& target) {
  return std::holds_alternative<bool*>(target);
}

std::string EnvironmentName(const std::string& flag) {
  return "RINGMASTER_" + absl::AsciiStrToUpper(flag);
}

bool IsFlag(absl::string_view arg) { return arg.size() > 1 && arg[0] == '-'; }

// The flag's name in `arg` with underscores: --state-dir=x is --state_dir=x.
std::string Normalized(const std::string& arg) {
  if (!absl::StartsWith(arg, "--")) return arg;
  const size_t name_end = std::min(arg.find('='), arg.size());
  return "--" + absl::StrReplaceAll(arg.substr(2, name_end - 2), {{"-", "_"}}) +
         arg.substr(name_end);
}

// `args` up to `--`.
std::span<const std::string> BeforeDashes(std::span<const std::string> args) {
  const auto end = std::find(args.begin(), args.end(), "--");
  return args.first(end - args.begin());
}

bool Contains(std::span<const std::string> args, absl::string_view wanted) {
  return std::find(args.begin(), args.end(), wanted) != args.end();
}

std::string Suggestion(const std::optional<std::string>& closest,
                       absl::string_view quote_before,
                       absl::string_view quote_after) {
  if (!closest.has_value()) return "";
  return absl::StrCat(" (did you mean ", quote_before, *closest, quote_after,
                      "?)");
}

absl::Status UnexpectedArgument(const std::string& argument) {
  return absl::InvalidArgumentError(
      absl::StrCat("unexpected argument \"", argument, "\"; see --help"));
}

}  // namespace

struct FlagSet::Impl {
  Impl(std::string program_name, std::string its_summary, Impl* its_parent,
       CLI::App* its_app)
      : program(std::move(program_name)),
        summary(std::move(its_summary)),
        parent(its_parent),
        app(its_app) {
    app->set_help_flag("");
    app->allow_extras();  // They become errors of ours, with suggestions.
    app->fallthrough();
    app->require_subcommand(0, 1);  // A job may be called like a command.
  }

  void AddToApp(Flag& flag);
  void AddToApp(Argument& argument);
  [[nodiscard]] std::vector<std::string> FlagNames() const;
  [[nodiscard]] HelpPage Page() const;
  [[nodiscard]] Impl* ChosenCommand() const;
  [[nodiscard]] const Impl& Innermost() const;
  [[nodiscard]] const Flag* Find(const std::string& arg) const;
  [[nodiscard]] bool TakesValue(const std::string& arg) const;
  [[nodiscard]] const Impl* Command(const std::string& name) const;
  [[nodiscard]] std::vector<std::string> WithDashes(
      std::span<const std::string> args) const;
  absl::Status RunApp(std::span<const std::string> args);
  absl::Status CheckExtras(std::span<const std::string> args) const;
  absl::Status CheckCommand() const;
  absl::Status SetFlags();
  absl::Status SetArguments(std::span<const std::string> after_dashes);
  static absl::Status SetTarget(Flag& flag);

  const std::string program;
  const std::string summary;
  Impl* const parent;
  std::unique_ptr<CLI::App> owned_app;  // of the root
  CLI::App* const app;
  std::string group = "Flags";
  std::vector<std::unique_ptr<Flag>> flags;
  std::vector<std::unique_ptr<Argument>> arguments;
  std::vector<std::unique_ptr<FlagSet>> commands;
};

void FlagSet::Impl::AddToApp(Flag& flag) {
  std::string names = "--" + flag.spec.name;
  if (flag.spec.short_name != 0) {
    absl::StrAppend(&names, ",-", std::string(1, flag.spec.short_name));
  }
  flag.option =
      IsBool(flag.target) ? app->add_flag(names) : app->add_option(names);
  flag.option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  flag.option->allow_extra_args(false);
}

void FlagSet::Impl::AddToApp(Argument& argument) {
  argument.option = app->add_option(argument.help.name);
  if (argument.help.is_list) {
    argument.option->expected(0, CLI::detail::expected_max_vector_size);
    argument.option->allow_extra_args();
    argument.option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  }
}

std::vector<std::string> FlagSet::Impl::FlagNames() const {
  std::vector<std::string> names = {"help", "version"};
  for (const Impl* set = this; set != nullptr; set = set->parent) {
    for (const auto& flag : set->flags) names.push_back(flag->spec.name);
  }
  return names;
}

HelpPage FlagSet::Impl::Page() const {
  HelpPage page = {.program = program,
                   .summary = summary,
                   .arguments = {},
                   .commands = {},
                   .flags = {}};
  for (const auto& argument : arguments) {
    page.arguments.push_back(argument->help);
  }
  for (const auto& command : commands) {
    page.commands.push_back(
        {command->impl_->app->get_name(), command->impl_->summary});
  }
  for (const Impl* set = this; set != nullptr; set = set->parent) {
    for (const auto& flag : set->flags) {
      page.flags.push_back({.group = flag->group,
                            .name = flag->spec.name,
                            .short_name = flag->spec.short_name,
                            .unit = FlagUnit(flag->spec, flag->target),
                            .choices = flag->spec.choices,
                            .help = flag->spec.help,
                            .default_text = flag->default_text,
                            .environment = flag->environment,
                            .is_required = flag->spec.is_required});
    }
  }
  return page;
}

FlagSet::Impl* FlagSet::Impl::ChosenCommand() const {
  for (const auto& command : commands) {
    if (command->impl_->app->parsed()) return command->impl_.get();
  }
  return nullptr;
}

// The command's command that was chosen, as far in as there is one; else this.
const FlagSet::Impl& FlagSet::Impl::Innermost() const {
  const Impl* innermost = this;
  while (const Impl* const command = innermost->ChosenCommand())
    innermost = command;
  return *innermost;
}

// The flag that `arg` is without a value, here or in a command; null: none.
const Flag* FlagSet::Impl::Find(const std::string& arg) const {
  for (const auto& flag : flags) {
    const bool is_it = Normalized(arg) == "--" + flag->spec.name ||
                       (flag->spec.short_name != 0 &&
                        arg == std::string("-") + flag->spec.short_name);
    if (is_it) return flag.get();
  }
  for (const auto& command : commands) {
    if (const Flag* const flag = command->impl_->Find(arg)) return flag;
  }
  return nullptr;
}

bool FlagSet::Impl::TakesValue(const std::string& arg) const {
  const Flag* const flag = Find(arg);
  return flag != nullptr && !IsBool(flag->target);
}

// The command of that name; null: there is none.
const FlagSet::Impl* FlagSet::Impl::Command(const std::string& name) const {
  for (const auto& command : commands)
    if (command->impl_->app->get_name() == name) return command->impl_.get();
  return nullptr;
}

// `args` with "--" before the argument that ends the flags, if there is one.
std::vector<std::string> FlagSet::Impl::WithDashes(
    std::span<const std::string> args) const {
  std::vector<std::string> all(args.begin(), args.end());
  const Impl* set = this;
  size_t before = 0;  // arguments of `set`
  for (size_t i = 0; i < all.size() && all[i] != "--"; ++i) {
    if (IsFlag(all[i])) {
      // The command's own meaning of a name counts before that of others.
      const bool is_own = set->Find(all[i]) != nullptr;
      if ((is_own ? set : this)->TakesValue(all[i])) ++i;
      continue;
    }
    if (!set->commands.empty()) {
      set = set->Command(all[i]);
      if (set == nullptr) break;  // an error, which is told later
      continue;
    }
    if (before == set->arguments.size()) break;
    if (set->arguments[before]->help.ends_flags) {
      all.insert(all.begin() + static_cast<std::ptrdiff_t>(i), "--");
      break;
    }
    ++before;
  }
  return all;
}

absl::Status FlagSet::Impl::RunApp(std::span<const std::string> args) {
  std::vector<std::string> reversed;  // As CLI11 wants them.
  for (size_t i = 0; i < args.size(); ++i) {
    // CLI11 would take the next flag for the value, and behind "--flag=" whatever
    // comes next: an unset variable of a shell must not move meanings about.
    const bool ends_empty =
        absl::StartsWith(args[i], "--") && absl::EndsWith(args[i], "=") &&
        Find(args[i].substr(0, args[i].size() - 1)) != nullptr;
    const bool is_cut_short = i + 1 < args.size() && TakesValue(args[i]) &&
                              absl::StartsWith(args[i + 1], "--");
    if (ends_empty || is_cut_short) {
      return absl::InvalidArgumentError(
          absl::StrCat("flag ", args[i].substr(0, args[i].find('=')),
                       " needs a value; see --help"));
    }
    reversed.push_back(Normalized(args[i]));
  }
  std::reverse(reversed.begin(), reversed.end());
  try {
    app->parse(std::move(reversed));
  } catch (const CLI::ArgumentMismatch& error) {
    // "--listen: 1 required TEXT missing"
    const std::string what = error.what();
    return absl::InvalidArgumentError(absl::StrCat(
        "flag ", what.substr(0, what.find(':')), " needs a value; see --help"));
  } catch (const CLI::ParseError& error) {
    return absl::InvalidArgumentError(
        absl::StrCat(error.what(), "; see --help"));
  }
  return absl::OkStatus();
}

absl::Status FlagSet::Impl::CheckExtras(
    std::span<const std::string> args) const {
  const Impl& innermost = Innermost();
  for (const std::string& extra : app->remaining(/*recurse=*/true)) {
    if (IsFlag(extra)) {
      std::string as_typed = extra;
      for (const std::string& arg : args) {
        if (Normalized(arg) == extra) as_typed = arg;
      }
      const std::string name = extra.substr(extra.find_first_not_of('-'));
      const std::string bare_name = name.substr(0, name.find('='));
      return absl::InvalidArgumentError(absl::StrCat(
          "unknown flag ", as_typed.substr(0, as_typed.find('=')),
          Suggestion(ClosestName(bare_name, innermost.FlagNames()), "--", ""),
          "; see --help"));
    }
    if (!innermost.commands.empty()) {
      std::vector<std::string> names;
      for (const CommandHelp& help : innermost.Page().commands)
        names.push_back(help.name);
      return absl::InvalidArgumentError(absl::StrCat(
          "unknown command \"", extra, "\"",
          Suggestion(ClosestName(extra, names), "\"", "\""), "; see --help"));
    }
    return UnexpectedArgument(extra);
  }
  return absl::OkStatus();
}

absl::Status FlagSet::Impl::CheckCommand() const {
  const Impl& innermost = Innermost();
  if (innermost.commands.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "no command; give one of ",
      absl::StrJoin(innermost.Page().commands, ", ",
                    [](std::string* out, const CommandHelp& command) {
                      *out += command.name;
                    }),
      "; see --help"));
}

absl::Status FlagSet::Impl::SetTarget(Flag& flag) {
  std::string source = "--" + flag.spec.name;
  std::vector<std::string> texts = flag.option->results();
  if (texts.empty() && !flag.environment.empty()) {
    const char* const text = std::getenv(flag.environment.c_str());
    if (text != nullptr && *text != '\0') texts.emplace_back(text);
    source = flag.environment;
  }
  if (texts.empty()) {
    if (!flag.spec.is_required) return absl::OkStatus();
    const std::string or_variable =
        flag.environment.empty()
            ? ""
            : absl::StrCat(" (or ", flag.environment, " in the environment)");
    return absl::InvalidArgumentError(absl::StrCat("flag --", flag.spec.name,
                                                   " is required", or_variable,
                                                   "; see --help"));
  }
  const absl::Status status = SetFlag(flag.spec, flag.target, texts);
  if (status.ok()) return status;
  return absl::InvalidArgumentError(
      absl::StrCat(source, "=", texts.back(), ": ", status.message()));
}

absl::Status FlagSet::Impl::SetFlags() {
  for (const auto& flag : flags) RETURN_IF_ERROR(SetTarget(*flag));
  return absl::OkStatus();
}

// `after_dashes` go to the arguments that CLI11 has not filled.
absl::Status FlagSet::Impl::SetArguments(
    std::span<const std::string> after_dashes) {
  for (const auto& argument : arguments) {
    std::vector<std::string> given = argument->option->results();
    const bool is_list = argument->help.is_list;
    while (!after_dashes.empty() && (is_list || given.empty())) {
      given.push_back(after_dashes.front());
      after_dashes = after_dashes.subspan(1);
    }
    if (given.empty()) {
      if (!argument->help.is_required) continue;
      std::string usage = program;
      for (const auto& each : arguments) {
        if (each->help.is_required)
          absl::StrAppend(&usage, " ", each->help.name);
      }
      return absl::InvalidArgumentError(absl::StrCat(
          "no ", argument->help.name, "; usage: ", usage, "; see --help"));
    }
    if (is_list) {
      *std::get<std::vector<std::string>*>(argument->target) = given;
    } else {
      *std::get<std::string*>(argument->target) = given.back();
    }
  }
  if (after_dashes.empty()) return absl::OkStatus();
  return UnexpectedArgument(after_dashes.front());
}

FlagSet::FlagSet(std::string program, std::string summary)
    : FlagSet([&] {
        auto app = std::make_unique<CLI::App>();
        auto impl = std::make_unique<Impl>(
            std::move(program), std::move(summary), nullptr, app.get());
        impl->owned_app = std::move(app);
        return impl;
      }()) {}

FlagSet::FlagSet(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

FlagSet::~FlagSet() = default;

void FlagSet::StartGroup(std::string title) { impl_->group = std::move(title); }

void FlagSet::Add(FlagSpec spec, FlagTarget target) {
  const bool is_well_formed =
      !spec.name.empty() &&
      std::all_of(spec.name.begin(), spec.name.end(), [](char c) {
        return absl::ascii_islower(static_cast<unsigned char>(c)) ||
               absl::ascii_isdigit(static_cast<unsigned char>(c)) || c == '_';
      });
  RM_CHECK(is_well_formed, spec.name);
  const std::vector<std::string> taken = impl_->FlagNames();
  RM_CHECK(!Contains(taken, spec.name), spec.name);
  std::string default_text =
      IsBool(target) && FlagText(target) == "false" ? "" : FlagText(target);
  std::string environment = impl_->parent == nullptr || spec.is_place
                                ? EnvironmentName(spec.name)
                                : "";
  impl_->flags.push_back(std::make_unique<Flag>(
      Flag{std::move(spec), target, impl_->group, std::move(default_text),
           std::move(environment)}));
  impl_->AddToApp(*impl_->flags.back());
}

void FlagSet::AddArgument(std::string name, std::string help, bool is_required,
                          std::string* value) {
  impl_->arguments.push_back(
      std::make_unique<Argument>(Argument{{.name = std::move(name),
                                           .help = std::move(help),
                                           .is_required = is_required},
                                          value}));
  impl_->AddToApp(*impl_->arguments.back());
}

void FlagSet::AddArgument(std::string name, std::string help, bool is_required,
                          std::vector<std::string>* values, bool ends_flags) {
  impl_->arguments.push_back(
      std::make_unique<Argument>(Argument{{.name = std::move(name),
                                           .help = std::move(help),
                                           .is_required = is_required,
                                           .is_list = true,
                                           .ends_flags = ends_flags},
                                          values}));
  impl_->AddToApp(*impl_->arguments.back());
}

FlagSet& FlagSet::AddCommand(std::string name, std::string summary) {
  CLI::App* const app = impl_->app->add_subcommand(name);
  impl_->commands.push_back(std::unique_ptr<FlagSet>(new FlagSet(
      std::make_unique<Impl>(absl::StrCat(impl_->program, " ", name),
                             std::move(summary), impl_.get(), app))));
  return *impl_->commands.back();
}

std::vector<HelpPage> FlagSet::Pages() const {
  std::vector<HelpPage> pages = {impl_->Page()};
  for (const auto& command : impl_->commands) {
    std::vector<HelpPage> inner = command->Pages();
    std::move(inner.begin(), inner.end(), std::back_inserter(pages));
  }
  return pages;
}

std::string FlagSet::command() const {
  std::vector<std::string> names;
  for (const Impl* command = impl_->ChosenCommand(); command != nullptr;
       command = command->ChosenCommand()) {
    names.push_back(command->app->get_name());
  }
  return absl::StrJoin(names, " ");
}

// The set whose commands' names `words` has, each inside the one before.
const FlagSet& FlagSet::Named(std::span<const std::string> words) const {
  for (size_t i = 0; i < words.size(); ++i) {
    for (const auto& command : impl_->commands) {
      if (command->impl_->app->get_name() == words[i])
        return command->Named(words.subspan(i + 1));
    }
  }
  return *this;
}

absl::StatusOr<FlagSet::Parsed> FlagSet::Parse(
    std::span<const std::string> given) {
  const std::vector<std::string> with_dashes = impl_->WithDashes(given);
  const std::span<const std::string> args = with_dashes;
  // Before anything else, so that --help works on a line with mistakes.
  const std::span<const std::string> flags = BeforeDashes(args);
  if (Contains(flags, "--help") || Contains(flags, "-h")) {
    return Parsed{.is_run = false, .text = Named(flags).Help()};
  }
  if (Contains(flags, "--version")) {
    return Parsed{.is_run = false, .text = std::string(kVersion) + "\n"};
  }
  RETURN_IF_ERROR(impl_->RunApp(flags));
  RETURN_IF_ERROR(impl_->CheckExtras(flags));
  RETURN_IF_ERROR(impl_->CheckCommand());
  RETURN_IF_ERROR(impl_->SetFlags());
  Impl* innermost = impl_.get();
  while (Impl* const command = innermost->ChosenCommand()) {
    RETURN_IF_ERROR(command->SetFlags());
    innermost = command;
  }
  const size_t num_before = std::min(flags.size() + 1, args.size());
  RETURN_IF_ERROR(innermost->SetArguments(args.subspan(num_before)));
  return Parsed{};
}

std::optional<ExitCode> FlagSet::ParseCommandLine(int argc,
                                                  const char* const* argv) {
  const std::vector<std::string> args(argv + std::min(argc, 1), argv + argc);
  const absl::StatusOr<Parsed> parsed = Parse(args);
  if (!parsed.ok()) {
    const std::string message(parsed.status().message());
    std::fprintf(stderr, "error: %s\n", message.c_str());
    return ExitCode::kUsage;
  }
  if (parsed->is_run) return std::nullopt;
  std::fputs(parsed->text.c_str(), stdout);
  return ExitCode::kDone;
}

std::string FlagSet::Help() const { return FormatHelp(impl_->Page()); }

}  // namespace ringmaster
