#include "server/coordinator/rpc/open_calls.h"

#include <chrono>
#include <vector>

#include "common/logging/logging.h"

namespace ringmaster::coordinator {

std::unique_ptr<OpenCalls::Place> OpenCalls::Add(Call call) {
  std::unique_ptr<Place> place;
  {
    MutexLock lock(mutex_);
    place.reset(new Place(*this, ++last_id_));
    calls_.emplace(last_id_,
                   Entry{std::make_shared<const Call>(std::move(call))});
  }
  // Rules that are replaced from here on find it.
  place->Review();
  return place;
}

void OpenCalls::EndRefused() {
  std::vector<int64_t> ids;
  {
    MutexLock lock(mutex_);
    for (const auto& [id, entry] : calls_) ids.push_back(id);
  }
  for (const int64_t id : ids) Review(id);
}

absl::Status OpenCalls::Admit(const Call& call) const {
  if (access_ == nullptr) return absl::OkStatus();
  const absl::StatusOr<Identity> caller =
      access_->Admit(call.credentials, call.method);
  if (!caller.ok()) return caller.status();
  return call.check ? call.check(*caller) : absl::OkStatus();
}

void OpenCalls::Review(int64_t id) {
  std::shared_ptr<const Call> call;
  {
    MutexLock lock(mutex_);
    const auto it = calls_.find(id);
    if (it == calls_.end() || it->second.cut != nullptr) return;
    call = it->second.call;
  }
  const absl::Status status = Admit(*call);
  if (status.ok()) return;
  {
    MutexLock lock(mutex_);
    const auto it = calls_.find(id);
    if (it == calls_.end() || it->second.cut != nullptr) return;
    it->second.cut = std::make_unique<grpc::Alarm>();
    it->second.cut->Set(std::chrono::system_clock::now() +
                            absl::ToChronoMilliseconds(patience_),
                        [call](bool is_due) {
                          if (is_due) call->cut();
                        });
  }
  LogEvent(LogLevel::kWarning, "access.ended",
           {{"method", call->method},
            {"address", call->address},
            {"error", std::string(status.message())}});
  call->end(status);
}

void OpenCalls::Remove(int64_t id) {
  // An alarm that has not rung is cancelled, outside the lock.
  std::unique_ptr<grpc::Alarm> cut;
  MutexLock lock(mutex_);
  const auto it = calls_.find(id);
  cut = std::move(it->second.cut);
  calls_.erase(it);
}

}  // namespace ringmaster::coordinator
