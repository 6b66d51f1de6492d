// FakeCoordinator: JobService and StatusService in this process, on a port of
// 127.0.0.1, whose answers a test sets.
//
// Thread-safe. The destructor ends open streams.
#ifndef RINGMASTER_SERVER_CTL_CLIENT_TESTING_FAKE_COORDINATOR_H_
#define RINGMASTER_SERVER_CTL_CLIENT_TESTING_FAKE_COORDINATOR_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "ringmaster/v1/event.pb.h"
#include "ringmaster/v1/job.pb.h"
#include "ringmaster/v1/job_service.pb.h"
#include "ringmaster/v1/status_service.pb.h"

namespace ringmaster::ctl {

class FakeCoordinator {
 public:
  // Listens on `port`, or on a free one. Ends the test program if it cannot.
  explicit FakeCoordinator(int port = 0);
  ~FakeCoordinator();
  FakeCoordinator(const FakeCoordinator&) = delete;
  FakeCoordinator& operator=(const FakeCoordinator&) = delete;

  [[nodiscard]] int port() const;
  [[nodiscard]] std::string address() const;

  // The job that Get, Submit, Cancel and Watch answer with; watchers get each
  // change, and their stream ends with a job that has ended.
  void SetJob(const v1::Job& job);
  void SetStatus(const v1::Status& status);
  // The status after the next GetStatus.
  void SetNextStatus(const v1::Status& status);
  void SetEvents(const std::vector<v1::Event>& events);
  void SetTrace(const v1::GetTraceResponse& trace);
  // The record of its incident; of others there is none.
  void SetFlight(const v1::FlightRecord& record);
  // The lines of the coordinator, and of each other process; those asked for are
  // picked from them, as workers do, as far as cursors and tails go.
  void SetLogs(const v1::GetLogsResponse& logs);
  // Newest first; pages are of two.
  void SetAudit(const v1::ListAuditResponse& audit);
  void SetExplanation(const v1::ExplainJobResponse& explanation);
  // Every call fails with this from now on; OK ends that.
  void FailWith(const absl::Status& status);

  // These end the test if nothing comes within half a minute.
  // Waits until a WatchJob stream is open.
  void AwaitWatcher();
  // Waits for a CancelJob.
  void AwaitCancel();
  // Waits for a GetJob.
  void AwaitJobQuery();
  // Waits for a GetLogs.
  void AwaitLogsQuery();
  // Waits for an ExplainJob.
  void AwaitExplanationQuery();

  // The last requests.
  [[nodiscard]] v1::SubmitJobRequest submitted() const;
  [[nodiscard]] v1::CancelJobRequest cancelled() const;
  [[nodiscard]] v1::GetLogsRequest logs_request() const;

 private:
  class Services;
  std::unique_ptr<Services> services_;
};

// Listens on a port of 127.0.0.1 and answers every connection with `answer` (or
// nothing, but keeps it open): not a gRPC server. Returns its address. Ends
// with the process.
class PlainServer {
 public:
  explicit PlainServer(std::string answer);
  ~PlainServer();
  PlainServer(const PlainServer&) = delete;
  PlainServer& operator=(const PlainServer&) = delete;

  [[nodiscard]] std::string address() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_CLIENT_TESTING_FAKE_COORDINATOR_H_
