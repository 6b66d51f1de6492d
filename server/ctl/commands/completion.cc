#include "server/ctl/commands/completion.h"

#include <algorithm>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

namespace ringmaster::ctl {
namespace {

// "submit" of the page of "ringctl submit".
std::string CommandOf(const HelpPage& page) {
  return page.program.substr(page.program.rfind(' ') + 1);
}

bool IsRepeated(const FlagHelp& flag, const HelpPage& root) {
  return std::any_of(
      root.flags.begin(), root.flags.end(),
      [&](const FlagHelp& other) { return other.name == flag.name; });
}

// The flags of a command that the root does not have.
std::vector<FlagHelp> OwnFlags(const HelpPage& page, const HelpPage& root) {
  std::vector<FlagHelp> own;
  for (const FlagHelp& flag : page.flags)
    if (!IsRepeated(flag, root)) own.push_back(flag);
  return own;
}

// "--output" and, if there is one, "-o".
std::vector<std::string> SpellingsOf(const FlagHelp& flag) {
  std::vector<std::string> spellings = {absl::StrCat("--", flag.name)};
  if (flag.short_name != 0)
    spellings.push_back(absl::StrCat("-", std::string(1, flag.short_name)));
  return spellings;
}

bool IsPath(std::string_view unit) {
  return absl::EndsWith(std::string(unit), "FILE") || unit == "DIR";
}

// ---- bash

std::string BashWords(const std::vector<FlagHelp>& flags) {
  std::vector<std::string> words;
  for (const FlagHelp& flag : flags)
    for (std::string& spelling : SpellingsOf(flag))
      words.push_back(std::move(spelling));
  return absl::StrJoin(words, " ");
}

// A line of `case $command:$prev` for each flag that takes a value.
std::string BashValues(const std::string& command,
                       const std::vector<FlagHelp>& flags) {
  std::string lines;
  for (const FlagHelp& flag : flags) {
    if (flag.unit.empty()) continue;
    std::vector<std::string> patterns;
    for (const std::string& spelling : SpellingsOf(flag))
      patterns.push_back(absl::StrCat(command, ":", spelling));
    std::string action;
    if (!flag.choices.empty()) {
      action =
          absl::StrCat("COMPREPLY=($(compgen -W '",
                       absl::StrJoin(flag.choices, " "), "' -- \"$cur\")); ");
    } else if (IsPath(flag.unit)) {
      action = "COMPREPLY=($(compgen -f -- \"$cur\")); ";
    }
    absl::StrAppend(&lines, "    ", absl::StrJoin(patterns, "|"), ") ", action,
                    "return ;;\n");
  }
  return lines;
}

// The spellings of flags of `root` that take a value, as a pattern.
std::string BashValueFlags(const HelpPage& root) {
  std::vector<std::string> spellings;
  for (const FlagHelp& flag : root.flags) {
    if (flag.unit.empty()) continue;
    for (std::string& spelling : SpellingsOf(flag))
      spellings.push_back(std::move(spelling));
  }
  return absl::StrJoin(spellings, "|");
}

std::string BashScript(const std::vector<HelpPage>& pages) {
  const HelpPage& root = pages.front();
  std::vector<std::string> names;
  std::string words;
  std::string values = BashValues("*", root.flags);
  for (size_t i = 1; i < pages.size(); ++i) {
    const std::string command = CommandOf(pages[i]);
    const std::vector<FlagHelp> flags = OwnFlags(pages[i], root);
    names.push_back(command);
    const bool takes_file =
        !pages[i].arguments.empty() && IsPath(pages[i].arguments.front().name);
    absl::StrAppend(&words, "    ", command, ") words='", BashWords(flags), "'",
                    takes_file ? "; files=yes" : "", " ;;\n");
    absl::StrAppend(&values, BashValues(command, flags));
  }
  return absl::StrCat(
      R"(# Completion of ringctl in bash: source <(ringctl completion bash)
_ringctl() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}
  # Bash has split --flag=value into three words, and HOST:PORT too.
  [[ $prev == = ]] && prev=${COMP_WORDS[COMP_CWORD-2]}
  [[ $cur == = ]] && cur=
  local command= words= files= i
  for ((i = 1; i < COMP_CWORD; ++i)); do
    case ${COMP_WORDS[i]} in
      )",
      BashValueFlags(root),
      R"()
        [[ ${COMP_WORDS[i+1]} == = ]] && ((++i))
        ((++i))
        while [[ ${COMP_WORDS[i+1]} == : ]]; do ((i += 2)); done ;;
      -*|=) ;;
      *) command=${COMP_WORDS[i]}; break ;;
    esac
  done
  case $command:$prev in
)",
      values, R"(  esac
  case $command in
    '') words=')",
      absl::StrJoin(names, " "), "' ;;\n", words, R"(  esac
  words+=' )",
      BashWords(root.flags), R"( --help --version'
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
  [[ -n $files && $cur != -* ]] && COMPREPLY+=($(compgen -f -- "$cur"))
}
complete -F _ringctl ringctl
)");
}

// ---- zsh

// For between single quotes, inside [...] or before a colon.
std::string ZshText(std::string_view text) {
  return absl::StrReplaceAll(
      std::string(text),
      {{"'", "'\\''"}, {"[", "\\["}, {"]", "\\]"}, {":", "\\:"}});
}

// The first sentence, without its full stop.
std::string FirstSentence(const std::string& text) {
  const std::string sentence = text.substr(0, text.find(". "));
  return absl::EndsWith(sentence, ".") ? sentence.substr(0, sentence.size() - 1)
                                       : sentence;
}

std::string ZshFlags(const std::vector<FlagHelp>& flags) {
  std::string specs;
  for (const FlagHelp& flag : flags) {
    std::string value;
    if (!flag.unit.empty()) {
      value = absl::StrCat(
          ":", ZshText(flag.choices.empty() ? flag.unit : flag.name), ":",
          !flag.choices.empty()
              ? absl::StrCat("(", absl::StrJoin(flag.choices, " "), ")")
          : IsPath(flag.unit) ? "_files"
                              : "");
    }
    for (const std::string& spelling : SpellingsOf(flag)) {
      const bool is_long = absl::StartsWith(spelling, "--");
      absl::StrAppend(&specs, " '*", spelling,
                      is_long && !value.empty() ? "=" : "", "[",
                      ZshText(FirstSentence(flag.help)), "]", value, "'");
    }
  }
  return specs;
}

std::string ZshArguments(const std::vector<ArgumentHelp>& arguments) {
  std::string specs;
  for (const ArgumentHelp& argument : arguments) {
    absl::StrAppend(&specs, " '", argument.is_list ? "*" : "",
                    argument.is_required ? ":" : "::", ZshText(argument.name),
                    ":", IsPath(argument.name) ? "_files" : "", "'");
  }
  return specs;
}

std::string ZshScript(const std::vector<HelpPage>& pages) {
  const HelpPage& root = pages.front();
  std::string commands;
  std::string cases;
  for (size_t i = 1; i < pages.size(); ++i) {
    const std::string command = CommandOf(pages[i]);
    absl::StrAppend(&commands, "    '", command, ":",
                    ZshText(FirstSentence(pages[i].summary)), "'\n");
    absl::StrAppend(&cases, "        ", command,
                    ") _arguments \"${global[@]}\"",
                    ZshFlags(OwnFlags(pages[i], root)),
                    ZshArguments(pages[i].arguments), " ;;\n");
  }
  return absl::StrCat(R"(#compdef ringctl
# Completion of ringctl in zsh: source <(ringctl completion zsh)
_ringctl() {
  local curcontext=$curcontext state line
  local -a global commands
  global=()",
                      ZshFlags(root.flags),
                      R"( '--help[Show help]' '--version[Show the version]')
  commands=(
)",
                      commands, R"(  )
  _arguments -C "${global[@]}" '1: :->command' '*:: :->rest' && return
  case $state in
    command) _describe command commands ;;
    rest)
      case $words[1] in
)",
                      cases, R"(      esac ;;
  esac
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
  _ringctl "$@"
else
  compdef _ringctl ringctl
fi
)");
}

}  // namespace

void AddCompletionCommand(FlagSet& flags, std::string& shell) {
  FlagSet& command = flags.AddCommand(
      "completion",
      "Prints a script that completes ringctl's command line in bash or zsh: "
      "source <(ringctl completion bash)");
  command.AddArgument("SHELL", "bash or zsh.", /*is_required=*/true, &shell);
}

absl::StatusOr<std::string> CompletionScript(
    const std::string& shell, const std::vector<HelpPage>& pages) {
  if (shell == "bash") return BashScript(pages);
  if (shell == "zsh") return ZshScript(pages);
  return absl::InvalidArgumentError(
      absl::StrCat("completion for \"", shell, "\": give bash or zsh"));
}

}  // namespace ringmaster::ctl
