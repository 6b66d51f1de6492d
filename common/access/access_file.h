// AccessRules: what the access file says, ready to be looked up. A value.
#ifndef RINGMASTER_COMMON_ACCESS_ACCESS_FILE_H_
#define RINGMASTER_COMMON_ACCESS_ACCESS_FILE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "common/access/role.h"
#include "common/config/file_changes.h"

namespace ringmaster {

// Who somebody is. Names of tokens and certificates are of one kind: the same name
// is the same owner of jobs.
struct Identity {
  std::string name;
  RoleSet roles;

  friend bool operator==(const Identity&, const Identity&) = default;
};

class AccessRules {
 public:
  struct Token {
    Identity identity;
    bool is_revoked = false;
  };

  // Reads `yaml` (ringmaster.v1.AccessFile); `file_name` is for errors.
  // INVALID_ARGUMENT names the file, and the entry or the line: an unknown field or
  // role, a name or digest that cannot be, two entries of one token or subject.
  [[nodiscard]] static absl::StatusOr<AccessRules> Parse(
      std::string_view yaml, std::string_view file_name);
  // The same of a file, which only its owner may be able to write: whoever can,
  // makes himself an operator.
  [[nodiscard]] static absl::StatusOr<AccessRules> Read(
      const std::string& path);

  // Null: nobody has that token; nobody is known by that subject.
  [[nodiscard]] const Token* FindToken(std::string_view token) const;
  [[nodiscard]] const Identity* FindSubject(std::string_view subject) const;

 private:
  // By SHA-256 of the token, and by the certificate's subject.
  std::map<std::string, Token, std::less<>> tokens_;
  std::map<std::string, Identity, std::less<>> subjects_;
};

// Notices when the file changes. Thread-compatible.
class AccessFileWatch {
 public:
  explicit AccessFileWatch(std::string path)
      : path_(std::move(path)), changes_({path_}) {}

  // What the file says, if it is another one than at the last call, or has been
  // written since; the errors of AccessRules::Read once for each such change.
  [[nodiscard]] absl::StatusOr<std::optional<AccessRules>> Poll();

  [[nodiscard]] const std::string& path() const { return path_; }
  // Who owns the file, and so may have changed it: "uid 1000".
  [[nodiscard]] std::string owner() const;

 private:
  const std::string path_;
  FileChanges changes_;
  uint32_t owner_ = 0;
};

// A name in a certificate or of a token: letters, digits, '-', '_', '.', '@', at
// most 128.
[[nodiscard]] bool IsCallerName(std::string_view name);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_ACCESS_ACCESS_FILE_H_
