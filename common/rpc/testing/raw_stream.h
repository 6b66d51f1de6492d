// RawStream lets tests talk to gRPC servers in bytes, without stubs: Debian
// ships none of the standard services.
#ifndef RINGMASTER_COMMON_RPC_TESTING_RAW_STREAM_H_
#define RINGMASTER_COMMON_RPC_TESTING_RAW_STREAM_H_

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/status.h>

#include <memory>
#include <string>

namespace ringmaster {

// A call to any method, one blocking operation at a time, 40 s in all.
// Thread-compatible.
class RawStream {
 public:
  RawStream(const std::shared_ptr<grpc::Channel>& channel,
            const std::string& method);
  ~RawStream();
  RawStream(const RawStream&) = delete;
  RawStream& operator=(const RawStream&) = delete;

  bool Write(const std::string& bytes);
  bool WritesDone();
  // The next message; nothing at the end.
  std::string Read();
  grpc::Status Finish();

 private:
  bool Await();

  grpc::GenericStub stub_;
  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call_;
};

// grpc.health.v1's messages. Names of services are shorter than 128.
std::string HealthRequest(const std::string& service);
inline constexpr char kServing[] = "\x08\x01";
inline constexpr char kNotServing[] = "\x08\x02";

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_RPC_TESTING_RAW_STREAM_H_
