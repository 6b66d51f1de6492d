#include "common/config/flag_help.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/status/exit_code.h"

namespace ringmaster {
namespace {

constexpr size_t kWidth = 80;

// Appends the words of `text` in lines of at most kWidth, indented.
void AppendWrapped(const std::string& text, size_t indent, std::string& out) {
  std::string line;
  const auto flush = [&] {
    if (!line.empty())
      absl::StrAppend(&out, std::string(indent, ' '), line, "\n");
    line.clear();
  };
  for (const absl::string_view word :
       absl::StrSplit(text, absl::ByAnyChar(" \n"), absl::SkipEmpty())) {
    if (!line.empty() && indent + line.size() + 1 + word.size() > kWidth) {
      flush();
    }
    absl::StrAppend(&line, line.empty() ? "" : " ", word);
  }
  flush();
}

void AppendFlag(const FlagHelp& flag, std::string& out) {
  absl::StrAppend(&out, "  --", flag.name);
  if (!flag.unit.empty()) absl::StrAppend(&out, "=", flag.unit);
  if (flag.short_name != 0) {
    absl::StrAppend(&out, ", -", std::string(1, flag.short_name));
    if (!flag.unit.empty()) absl::StrAppend(&out, " ", flag.unit);
  }
  out += '\n';
  AppendWrapped(flag.help, 6, out);
  std::string facts;
  if (flag.is_required) {
    facts = "Required.";
  } else if (!flag.default_text.empty()) {
    facts = absl::StrCat("Default: ", flag.default_text, ".");
  }
  if (!flag.environment.empty()) {
    absl::StrAppend(&facts, facts.empty() ? "" : " ",
                    "Environment: ", flag.environment, ".");
  }
  AppendWrapped(facts, 6, out);
}

void AppendUsage(const HelpPage& page, std::string& out) {
  absl::StrAppend(&out, "Usage: ", page.program);
  if (!page.commands.empty()) out += " COMMAND";
  const bool are_flags_first =
      std::any_of(page.arguments.begin(), page.arguments.end(),
                  [](const ArgumentHelp& help) { return help.ends_flags; });
  if (are_flags_first) out += " [FLAGS]";
  for (const ArgumentHelp& argument : page.arguments) {
    const std::string name =
        absl::StrCat(argument.name, argument.is_list ? "..." : "");
    absl::StrAppend(&out, " ", argument.is_required ? name : "[" + name + "]");
  }
  out += are_flags_first ? "\n" : " [FLAGS]\n";
}

void AppendTable(const std::string& title, const std::vector<CommandHelp>& rows,
                 std::string& out) {
  if (rows.empty()) return;
  size_t width = 0;
  for (const CommandHelp& row : rows) width = std::max(width, row.name.size());
  absl::StrAppend(&out, "\n", title, ":\n");
  for (const CommandHelp& row : rows) {
    // The name stands where the text's indentation of the first line is.
    std::string text;
    AppendWrapped(row.summary, width + 4, text);
    if (text.empty()) text = std::string(width + 4, ' ') + "\n";
    text.replace(2, row.name.size(), row.name);
    out += text;
  }
}

void AppendFlags(const std::vector<FlagHelp>& flags, std::string& out) {
  std::vector<std::string> groups;
  for (const FlagHelp& flag : flags) {
    if (std::find(groups.begin(), groups.end(), flag.group) == groups.end()) {
      groups.push_back(flag.group);
    }
  }
  for (const std::string& group : groups) {
    absl::StrAppend(&out, "\n", group, ":\n");
    for (const FlagHelp& flag : flags) {
      if (flag.group == group) AppendFlag(flag, out);
    }
  }
}

}  // namespace

std::string FormatHelp(const HelpPage& page) {
  std::string out;
  AppendWrapped(page.summary, 0, out);
  out += '\n';
  AppendUsage(page, out);

  std::vector<CommandHelp> arguments;
  for (const ArgumentHelp& argument : page.arguments) {
    arguments.push_back({argument.name, argument.help});
  }
  AppendTable("Arguments", arguments, out);
  AppendTable("Commands", page.commands, out);
  if (!page.commands.empty()) {
    absl::StrAppend(&out, "\n\"", page.program,
                    " COMMAND --help\" tells more of a command.\n");
  }
  AppendFlags(page.flags, out);
  absl::StrAppend(&out,
                  "\nOther flags:\n  --help, -h\n      Prints this text.\n",
                  "  --version\n      Prints the version.\n\n");
  AppendWrapped(
      "A flag is written --flag=VALUE or --flag VALUE, with underscores or "
      "dashes in its name, and wins over its environment variable. Durations "
      "are written as 400ms, 1.5s or 2m.",
      0, out);
  absl::StrAppend(&out, "\nExit codes:\n", ExitCodeTable());
  return out;
}

}  // namespace ringmaster
