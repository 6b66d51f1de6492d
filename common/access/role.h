// Roles: the part that a caller plays, and so the calls that it may make.
// Pure.
#ifndef RINGMASTER_COMMON_ACCESS_ROLE_H_
#define RINGMASTER_COMMON_ACCESS_ROLE_H_

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

namespace ringmaster {

enum class Role : uint8_t {
  kViewer,     // sees everything, changes nothing
  kSubmitter,  // also submits jobs, and cancels its own
  kOperator,   // also cancels any job, and reads the audit
  kWorker,     // a worker's process
  kServer,     // a parameter server's process
};

// "viewer", "submitter", "operator", "worker", "server".
[[nodiscard]] std::string_view NameOf(Role role);
// The role of that name; nullopt: there is none.
[[nodiscard]] std::optional<Role> RoleOfName(std::string_view name);
// "viewer, submitter, operator, worker or server", for errors.
[[nodiscard]] std::string RoleNames();

// A set of roles; a value.
class RoleSet {
 public:
  constexpr RoleSet() = default;
  constexpr RoleSet(std::initializer_list<Role> roles) {
    for (const Role role : roles) Add(role);
  }

  constexpr void Add(Role role) { bits_ |= Bit(role); }
  [[nodiscard]] constexpr bool Has(Role role) const {
    return (bits_ & Bit(role)) != 0;
  }
  [[nodiscard]] constexpr bool Meets(RoleSet other) const {
    return (bits_ & other.bits_) != 0;
  }
  [[nodiscard]] constexpr bool empty() const { return bits_ == 0; }

  friend bool operator==(RoleSet, RoleSet) = default;

 private:
  static constexpr uint32_t Bit(Role role) {
    return uint32_t{1} << static_cast<uint32_t>(role);
  }
  uint32_t bits_ = 0;
};

// "submitter,viewer", in the order of Role.
[[nodiscard]] std::string NamesOf(RoleSet roles);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_ACCESS_ROLE_H_
