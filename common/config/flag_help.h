// The text of --help; pure.
#ifndef RINGMASTER_COMMON_CONFIG_FLAG_HELP_H_
#define RINGMASTER_COMMON_CONFIG_FLAG_HELP_H_

#include <string>
#include <vector>

namespace ringmaster {

struct FlagHelp {
  std::string group;
  std::string name;  // without dashes
  char short_name = 0;
  std::string unit;
  std::vector<std::string> choices = {};  // none: any value
  std::string help;
  std::string default_text;
  std::string environment;
  bool is_required = false;
};

struct ArgumentHelp {
  std::string name;
  std::string help;
  bool is_required = false;
  bool is_list = false;
  bool ends_flags = false;  // Flags stand before it.
};

struct CommandHelp {
  std::string name;
  std::string summary;
};

struct HelpPage {
  std::string program;  // with the command: "ringctl submit"
  std::string summary;
  std::vector<ArgumentHelp> arguments;
  std::vector<CommandHelp> commands;
  std::vector<FlagHelp> flags;
};

[[nodiscard]] std::string FormatHelp(const HelpPage& page);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_CONFIG_FLAG_HELP_H_
