// Client calls the coordinator's services for users.
//
// Every call but WatchJob ends within the timeout it was made with; WatchJob
// ends with the job, with the connection (a dead host is noticed within 5 s), or
// with Shutdown. Errors say in one sentence what is wrong and what to
// do, and carry the exit code (common/status/exit_code.h): a coordinator that
// cannot be reached, does not answer, or is something else gives 138.
// Thread-safe. Free of gRPC's headers.
#ifndef RINGMASTER_SERVER_CTL_CLIENT_CLIENT_H_
#define RINGMASTER_SERVER_CTL_CLIENT_CLIENT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/sync/mutex.h"
#include "ringmaster/v1/event.pb.h"
#include "ringmaster/v1/job.pb.h"
#include "ringmaster/v1/job_service.pb.h"
#include "ringmaster/v1/pool_service.pb.h"
#include "ringmaster/v1/status_service.pb.h"

namespace grpc {
class ChannelCredentials;
}  // namespace grpc

namespace ringmaster::ctl {

struct ClientOptions {
  std::string address;  // HOST:PORT, for messages and as gRPC's target
  std::shared_ptr<grpc::ChannelCredentials> credentials;
  absl::Duration timeout = absl::Seconds(5);  // of each call
};

class Client {
 public:
  // Connects at the first call.
  explicit Client(ClientOptions options);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Later calls, of this client alone, go over a new connection, to wherever the
  // address leads then. Those under way keep theirs.
  void Reconnect();

  // Another client over the same connection, with a Shutdown of its own.
  [[nodiscard]] std::unique_ptr<Client> Share() const;

  [[nodiscard]] const std::string& address() const;

  // Queues `spec`, or with `validate_only` returns it with defaults filled in.
  // A repeated `request_id` (may be empty) returns the first one's job.
  [[nodiscard]] absl::StatusOr<v1::Job> SubmitJob(
      const v1::JobSpec& spec, bool validate_only,
      const std::string& request_id);
  // `job` is an id or a name here and below.
  [[nodiscard]] absl::StatusOr<v1::Job> GetJob(const std::string& job);
  [[nodiscard]] absl::StatusOr<v1::Job> CancelJob(const std::string& job,
                                                  const std::string& reason);
  // Returns the job that `request` has changed, or that is about to change.
  [[nodiscard]] absl::StatusOr<v1::Job> ChangeJob(
      const v1::ChangeJobRequest& request);
  // Events after `after_sequence`, oldest first, of all jobs where `job` is
  // empty: one page.
  [[nodiscard]] absl::StatusOr<v1::ListEventsResponse> ListEvents(
      const std::string& job, int64_t after_sequence);
  // All of them, page by page.
  [[nodiscard]] absl::StatusOr<v1::ListEventsResponse> AllEvents(
      const std::string& job, int64_t after_sequence = 0);
  // All jobs that the coordinator knows, newest first.
  [[nodiscard]] absl::StatusOr<v1::ListJobsResponse> AllJobs();
  // Spans of steps in [first_step, last_step]; 0 for the newest.
  [[nodiscard]] absl::StatusOr<v1::GetTraceResponse> GetTrace(
      const std::string& job, int64_t first_step, int64_t last_step);
  // What its ranks do in collectives or, if `incident` is not 0, did when it
  // interrupted the job.
  [[nodiscard]] absl::StatusOr<v1::FlightRecord> GetFlightRecord(
      const std::string& job, int32_t incident);
  // Why the job is where it is.
  [[nodiscard]] absl::StatusOr<v1::ExplainJobResponse> ExplainJob(
      const std::string& job);
  // Page by page where it is large; changes in between may show in a part of it.
  [[nodiscard]] absl::StatusOr<v1::Status> GetStatus(
      const v1::StatusFilter& filter = {});
  // Takes workers out of use, and gives them back.
  [[nodiscard]] absl::Status Cordon(const v1::CordonRequest& request);
  [[nodiscard]] absl::Status Uncordon(const std::string& target);
  [[nodiscard]] absl::Status SetQueues(const v1::SetQueuesRequest& request);
  // The last changes, newest first; at most `entries`, all of them if that is 0.
  [[nodiscard]] absl::StatusOr<v1::ListAuditResponse> ListAudit(
      int64_t entries);
  // The last log lines of those that `request` names.
  [[nodiscard]] absl::StatusOr<v1::GetLogsResponse> GetLogs(
      const v1::GetLogsRequest& request);

  // Calls `on_update`, on this thread, with the job at once and after each
  // change. OK if the coordinator ended the stream.
  [[nodiscard]] absl::Status WatchJob(
      const std::string& job,
      const std::function<void(const v1::Job&)>& on_update);

  // Ends the calls that are under way, and fails later ones, with CANCELLED.
  void Shutdown();

 private:
  struct Connection;
  class Calls;

  Client(ClientOptions options, std::shared_ptr<Connection> connection);

  [[nodiscard]] std::shared_ptr<Connection> connection() const;

  // `stub` is the connection's member that has `method`.
  template <typename Stub, typename Request, typename Response, typename Method>
  absl::Status Call(Stub Connection::*stub, Method method,
                    const Request& request, Response* response);

  const ClientOptions options_;
  mutable Mutex mutex_;
  std::shared_ptr<Connection> connection_ GUARDED_BY(mutex_);
  std::unique_ptr<Calls> calls_;
};

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_CLIENT_CLIENT_H_
