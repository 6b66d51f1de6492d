#include "server/coordinator/rpc/open_calls.h"

#include <vector>

#include "common/logging/logging.h"

namespace ringmaster::coordinator {

std::unique_ptr<OpenCalls::Place> OpenCalls::Add(Call call) {
  const auto added = std::make_shared<const Call>(std::move(call));
  std::unique_ptr<Place> place;
  {
    MutexLock lock(mutex_);
    place.reset(new Place(*this, ++last_id_));
    calls_.emplace(last_id_, added);
  }
  // Rules that are replaced from here on find it.
  EndIfRefused(*added);
  return place;
}

void OpenCalls::EndRefused() {
  std::vector<std::shared_ptr<const Call>> calls;
  {
    MutexLock lock(mutex_);
    for (const auto& [id, call] : calls_) calls.push_back(call);
  }
  for (const auto& call : calls) EndIfRefused(*call);
}

void OpenCalls::EndIfRefused(const Call& call) const {
  if (access_ == nullptr) return;
  const absl::Status status =
      access_->Admit(call.credentials, call.method).status();
  if (status.ok()) return;
  LogEvent(LogLevel::kWarning, "access.ended",
           {{"method", call.method},
            {"address", call.address},
            {"error", std::string(status.message())}});
  call.end(status);
}

void OpenCalls::Remove(int64_t id) {
  MutexLock lock(mutex_);
  calls_.erase(id);
}

}  // namespace ringmaster::coordinator
