// ViewServer is a worker's end of the views of its command (view.h).
//
// One process of the command follows them at a time: another one waits until
// the first is gone.
// Never blocks. Thread-compatible.
#ifndef RINGMASTER_WORKER_VIEWS_VIEW_SERVER_H_
#define RINGMASTER_WORKER_VIEWS_VIEW_SERVER_H_

#include <cstdint>
#include <memory>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "common/transport/unique_fd.h"
#include "worker/views/view.h"

namespace ringmaster {

class ViewServer {
 public:
  // For the command that is `rank` of `world_size`. UNAVAILABLE: the system
  // has no such sockets.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<ViewServer>> Listen(
      int rank, int world_size);

  // For kViewsVariable.
  [[nodiscard]] const std::string& name() const { return name_; }

  // Readable (poll) when there is something for Look.
  [[nodiscard]] int fd() const {
    return connection_.is_open() ? connection_.get() : listener_.get();
  }
  // Takes what has come.
  void Look();

  // The command has met all ranks, and follows views.
  [[nodiscard]] bool can_go_on() const { return can_go_on_; }
  // It has begun to meet them, and has not said since that it has.
  [[nodiscard]] bool is_meeting() const { return is_meeting_; }
  // The ranks that it has lost in the newest view, and that it waits for a view
  // without, or for Refuse.
  [[nodiscard]] const std::set<int>& lost() const { return lost_; }
  // TakesNewcomers::group and Joins::member; empty until it has said so.
  [[nodiscard]] const std::string& group() const { return group_; }
  [[nodiscard]] const std::string& member() const { return member_; }
  // It has said at some time that it takes in newcomers.
  [[nodiscard]] bool has_attached() const { return has_attached_; }

  // Tells the newest view.
  void Send(const View& view);
  void Refuse(int lost_rank);

 private:
  ViewServer(std::string name, UniqueFd listener, int rank, int world_size)
      : name_(std::move(name)),
        rank_(rank),
        world_size_(world_size),
        listener_(std::move(listener)) {}

  void Tell(const ViewMessage& message);
  void Take(const std::string& packet);
  void Disconnect();

  const std::string name_;
  const int rank_;
  const int world_size_;
  const UniqueFd listener_;
  UniqueFd connection_;
  bool is_meeting_ = false;
  bool can_go_on_ = false;
  int64_t view_ = 0;  // the newest
  std::set<int> lost_;
  std::string group_;
  std::string member_;
  bool has_attached_ = false;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_VIEWS_VIEW_SERVER_H_
