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

// "checkpoint ls" of the page of "ringctl checkpoint ls".
std::string CommandOf(const HelpPage& page) {
  return page.program.substr(page.program.find(' ') + 1);
}

// Whether it is a command of the root, not of another command.
bool IsOuter(const std::string& command) {
  return command.find(' ') == std::string::npos;
}

std::vector<std::string> CommandNames(const HelpPage& page) {
  std::vector<std::string> names;
  for (const CommandHelp& command : page.commands)
    names.push_back(command.name);
  return names;
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
  return absl::EndsWith(std::string(unit), "FILE") || unit == "DIR" ||
         unit == "PATH" || unit == "CHECKPOINT";
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
  std::string words;
  std::string values = BashValues("*", root.flags);
  // Commands with commands, whose name is two words; "''" so that it is a
  // pattern without any.
  std::vector<std::string> groups = {"''"};
  for (size_t i = 1; i < pages.size(); ++i) {
    const HelpPage& page = pages[i];
    const std::string command = absl::StrCat("'", CommandOf(page), "'");
    const std::vector<FlagHelp> flags = OwnFlags(page, root);
    if (!page.commands.empty()) groups.push_back(command);
    const bool takes_file =
        !page.arguments.empty() && IsPath(page.arguments.front().name);
    absl::StrAppend(&words, "    ", command, ") words='",
                    absl::StrJoin(CommandNames(page), " "), " ",
                    BashWords(flags), "'", takes_file ? "; files=yes" : "",
                    " ;;\n");
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
      *)
        command+=${command:+ }${COMP_WORDS[i]}
        case $command in
          )",
      absl::StrJoin(groups, "|"), R"() ;;
          *) break ;;
        esac ;;
    esac
  done
  case $command:$prev in
)",
      values, R"(  esac
  case $command in
    '') words=')",
      absl::StrJoin(CommandNames(root), " "), "' ;;\n", words, R"(  esac
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

// Of one command, or of the commands of a command.
std::string ZshCase(size_t index, const std::vector<HelpPage>& pages) {
  const HelpPage& page = pages[index];
  const std::string command = CommandOf(page);
  const std::string name = command.substr(command.find(' ') + 1);
  if (page.commands.empty()) {
    return absl::StrCat(name, ") _arguments \"${global[@]}\"",
                        ZshFlags(OwnFlags(page, pages.front())),
                        ZshArguments(page.arguments), " ;;\n");
  }
  std::string cases;
  for (size_t i = index + 1; i < pages.size(); ++i) {
    if (absl::StartsWith(CommandOf(pages[i]), absl::StrCat(command, " ")))
      absl::StrAppend(&cases, "            ", ZshCase(i, pages));
  }
  return absl::StrCat(
      name, R"()
          if (( CURRENT == 2 )); then
            _values command )",
      absl::StrJoin(page.commands, " ",
                    [](std::string* out, const CommandHelp& inner) {
                      absl::StrAppend(out, "'", inner.name, "[",
                                      ZshText(FirstSentence(inner.summary)),
                                      "]'");
                    }),
      R"(
            return
          fi
          shift words; (( CURRENT-- ))
          case $words[1] in
)",
      cases, "          esac ;;\n");
}

std::string ZshScript(const std::vector<HelpPage>& pages) {
  const HelpPage& root = pages.front();
  std::string commands;
  std::string cases;
  for (size_t i = 1; i < pages.size(); ++i) {
    const std::string command = CommandOf(pages[i]);
    if (!IsOuter(command)) continue;
    absl::StrAppend(&commands, "    '", command, ":",
                    ZshText(FirstSentence(pages[i].summary)), "'\n");
    absl::StrAppend(&cases, "        ", ZshCase(i, pages));
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
