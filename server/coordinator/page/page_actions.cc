#include "server/coordinator/page/page_actions.h"

#include <google/protobuf/util/json_util.h>

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/clock/clock.h"
#include "common/status/status_macros.h"
#include "nlohmann/json.hpp"
#include "ringmaster/v1/job_service.pb.h"
#include "ringmaster/v1/pool_service.pb.h"
#include "server/coordinator/rpc/ask_and_wait.h"
#include "server/coordinator/rpc/caller.h"
#include "server/coordinator/rpc/queries.h"

namespace ringmaster::coordinator {
namespace {

// A disk that hangs holds a decision up for longer than a viewer waits.
constexpr absl::Duration kPatience = absl::Seconds(5);

template <typename Request>
absl::StatusOr<Request> FromJson(const std::string& json) {
  Request request;
  const auto status =
      google::protobuf::util::JsonStringToMessage(json, &request);
  if (status.ok()) return request;
  return absl::InvalidArgumentError(
      absl::StrCat("the request is not a ", Request::descriptor()->name(),
                   " in JSON: ", std::string(status.message())));
}

// Returns the answer to what `start` asks of the runtime.
absl::Status Await(
    const std::function<absl::Status(CoordinatorRuntime::UserReply)>& start) {
  const auto awaited = std::make_shared<AwaitedAnswer<absl::Status>>();
  RETURN_IF_ERROR(
      start([awaited](const absl::Status& status, const CoordinatorView&,
                      const Job*) { awaited->Give(status); }));
  return awaited->Await(Clock::Real(), kPatience)
      .value_or(absl::UnavailableError(
          absl::StrCat("the coordinator has not answered for ",
                       absl::FormatDuration(kPatience),
                       "; it may still do what was asked")));
}

absl::Status Cancel(CoordinatorRuntime& runtime, const std::string& json,
                    Caller caller) {
  ASSIGN_OR_RETURN(const auto request, FromJson<v1::CancelJobRequest>(json));
  CancelRequested cancel = ParseCancel(request);
  cancel.caller = std::move(caller);
  return Await([&](CoordinatorRuntime::UserReply reply) {
    return runtime.Cancel(std::move(cancel), std::move(reply));
  });
}

absl::Status Change(CoordinatorRuntime& runtime, const std::string& json,
                    Caller caller) {
  ASSIGN_OR_RETURN(const auto request, FromJson<v1::ChangeJobRequest>(json));
  ASSIGN_OR_RETURN(ChangeRequested change, ParseChange(request));
  change.caller = std::move(caller);
  return Await([&](CoordinatorRuntime::UserReply reply) {
    return runtime.Change(std::move(change), std::move(reply));
  });
}

absl::Status Cordon(CoordinatorRuntime& runtime, CordonRequested cordon,
                    Caller caller) {
  cordon.caller = std::move(caller);
  return Await([&](CoordinatorRuntime::UserReply reply) {
    return runtime.Cordon(std::move(cordon), std::move(reply));
  });
}

absl::Status CordonByJson(CoordinatorRuntime& runtime, const std::string& json,
                          Caller caller) {
  ASSIGN_OR_RETURN(const auto request, FromJson<v1::CordonRequest>(json));
  ASSIGN_OR_RETURN(CordonRequested cordon, ParseCordon(request));
  return Cordon(runtime, std::move(cordon), std::move(caller));
}

absl::Status UncordonByJson(CoordinatorRuntime& runtime,
                            const std::string& json, Caller caller) {
  ASSIGN_OR_RETURN(const auto request, FromJson<v1::UncordonRequest>(json));
  return Cordon(runtime, ParseUncordon(request), std::move(caller));
}

struct Method {
  std::string_view name;
  std::string_view method;
  absl::Status (*perform)(CoordinatorRuntime&, const std::string&, Caller);
};

constexpr std::array<Method, 4> kMethods = {{
    {"cancel", "/ringmaster.v1.JobService/CancelJob", Cancel},
    {"change", "/ringmaster.v1.JobService/ChangeJob", Change},
    {"cordon", "/ringmaster.v1.PoolService/Cordon", CordonByJson},
    {"uncordon", "/ringmaster.v1.PoolService/Uncordon", UncordonByJson},
}};

}  // namespace

std::string PageActions::SessionJson(const PageCaller& caller) const {
  nlohmann::json session = {{"name", ""}, {"may", nlohmann::json::array()}};
  if (access_ != nullptr) {
    const auto identity = access_->Identify(caller.credentials);
    if (identity.ok()) session["name"] = identity->name;
  }
  for (const Method& method : kMethods) {
    if (access_ != nullptr &&
        !access_->Admit(caller.credentials, method.method).ok()) {
      continue;
    }
    session["may"].push_back(std::string(method.name));
  }
  return session.dump();
}

absl::Status PageActions::Do(const std::string& action, const std::string& json,
                             const PageCaller& caller) {
  for (const Method& known : kMethods) {
    if (known.name != action) continue;
    std::optional<Identity> identity;
    if (access_ != nullptr) {
      ASSIGN_OR_RETURN(identity,
                       access_->Admit(caller.credentials, known.method));
    }
    return known.perform(runtime_, json, CallerOf(caller.address, identity));
  }
  return absl::NotFoundError("there is no such action");
}

}  // namespace ringmaster::coordinator
