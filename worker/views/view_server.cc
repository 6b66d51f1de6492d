#include "worker/views/view_server.h"

#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/logging/logging.h"
#include "common/status/status_macros.h"
#include "common/transport/handshake.h"
#include "worker/views/packet_socket.h"

namespace ringmaster {

absl::StatusOr<std::unique_ptr<ViewServer>> ViewServer::Listen(int rank,
                                                               int world_size) {
  ASSIGN_OR_RETURN(const Nonce nonce, NewNonce());
  const std::string name = absl::StrCat(
      "ringmaster-views/",
      absl::BytesToHexString(absl::string_view(
          reinterpret_cast<const char*>(nonce.data()), nonce.size() / 2)));
  ASSIGN_OR_RETURN(UniqueFd listener, ListenForPackets(name));
  return std::unique_ptr<ViewServer>(
      new ViewServer(name, std::move(listener), rank, world_size));
}

void ViewServer::Look() {
  if (!connection_.is_open()) {
    connection_ = AcceptForPackets(listener_.get());
    if (!connection_.is_open()) return;
    // Whoever has said something and is gone already is heard.
    (void)SendPacket(connection_.get(), ToPacket(ViewHello()));
  }
  while (connection_.is_open()) {
    const absl::StatusOr<std::optional<std::string>> packet =
        TakePacket(connection_.get(), kMaxViewPacket);
    if (!packet.ok()) {
      Disconnect();
    } else if (packet->has_value()) {
      Take(**packet);
    } else {
      return;
    }
  }
}

void ViewServer::Take(const std::string& packet) {
  const absl::StatusOr<ViewMessage> message = ParseViewPacket(packet);
  const auto* can = message.ok() ? std::get_if<CanGoOn>(&*message) : nullptr;
  const auto* meets = message.ok() ? std::get_if<Meets>(&*message) : nullptr;
  const auto* lost = message.ok() ? std::get_if<LostRank>(&*message) : nullptr;
  const auto* takes =
      message.ok() ? std::get_if<TakesNewcomers>(&*message) : nullptr;
  const auto* joins = message.ok() ? std::get_if<Joins>(&*message) : nullptr;
  if (can != nullptr && can->rank == rank_ && can->world_size == world_size_) {
    can_go_on_ = true;
    is_meeting_ = false;
  } else if (meets != nullptr) {
    is_meeting_ = meets->is_under_way;
  } else if (lost != nullptr && lost->rank < world_size_) {
    // What broke in an older view may have broken because of the newer one.
    if (lost->view >= view_) lost_.insert(lost->rank);
  } else if (takes != nullptr) {
    group_ = takes->group;
    has_attached_ = true;
  } else if (joins != nullptr) {
    member_ = joins->member;
  } else {
    LogEvent(LogLevel::kWarning, "command.views_refused",
             {{"rank", rank_}, {"message", packet.substr(0, 40)}});
    Disconnect();
  }
}

void ViewServer::Disconnect() {
  connection_.Reset();
  can_go_on_ = false;
  lost_.clear();
  group_.clear();
  member_.clear();
}

void ViewServer::Tell(const ViewMessage& message) {
  if (!connection_.is_open()) return;
  if (!SendPacket(connection_.get(), ToPacket(message)).ok()) Disconnect();
}

void ViewServer::Send(const View& view) {
  view_ = view.number;
  lost_.clear();
  Tell(view);
}

void ViewServer::Refuse(int lost_rank) {
  if (lost_.erase(lost_rank) > 0) Tell(NoView{lost_rank});
}

}  // namespace ringmaster
