// WorkerIdentity: who a worker process is; the constant part of its hello.
#ifndef RINGMASTER_WORKER_AGENT_RPC_WORKER_IDENTITY_H_
#define RINGMASTER_WORKER_AGENT_RPC_WORKER_IDENTITY_H_

#include <cstdint>
#include <string>

namespace ringmaster {

struct WorkerIdentity {
  std::string name;          // unique among live workers
  uint64_t incarnation = 0;  // random number of this process life
  std::string host;
  std::string host_key;  // equal on workers that share a host
  int64_t pid = 0;
  int device_index = 0;
  std::string advertise_host;  // "": the one that the coordinator sees
  int data_port = 0;
  std::string version;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_AGENT_RPC_WORKER_IDENTITY_H_
