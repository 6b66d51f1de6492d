// PageActions: what a viewer of the page may do, and does. Each action is a method of the
// API with its request as JSON, is admitted by the same table of roles, and is audited
// as if it had come by gRPC.
//
// Thread-safe; no call is for the executor's thread.
#ifndef RINGMASTER_SERVER_COORDINATOR_PAGE_PAGE_ACTIONS_H_
#define RINGMASTER_SERVER_COORDINATOR_PAGE_PAGE_ACTIONS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/access/access_control.h"
#include "server/coordinator/rpc/runtime.h"

namespace ringmaster::coordinator {

// Who acts, and from where.
struct PageCaller {
  Credentials credentials;
  std::string address;
};

class PageActions {
 public:
  // `access` may be null: then everybody may do everything.
  PageActions(CoordinatorRuntime& runtime, const AccessControl* access)
      : runtime_(runtime), access_(access) {}

  // Returns {"name": NAME, "may": [ACTION, ...]} as JSON: who the caller is, empty where
  // nobody is asked, and the actions of its roles.
  [[nodiscard]] std::string SessionJson(const PageCaller& caller) const;

  // Does `action` ("cancel", "change", "cordon" or "uncordon") as `json` says, and waits
  // until it is durable.
  //   NOT_FOUND                       there is no such action, job or worker
  //   INVALID_ARGUMENT                `json` is not its request
  //   UNAUTHENTICATED, PERMISSION_DENIED  the caller may not
  //   UNAVAILABLE                     no answer within some seconds
  //   others                          as the method of the API
  [[nodiscard]] absl::Status Do(const std::string& action,
                                const std::string& json,
                                const PageCaller& caller);

 private:
  CoordinatorRuntime& runtime_;
  const AccessControl* const access_;
};

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_PAGE_PAGE_ACTIONS_H_
