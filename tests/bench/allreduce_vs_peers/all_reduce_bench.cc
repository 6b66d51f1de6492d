// all_reduce_bench: all-reduces of float32 among processes of this host, ours and the peers compiled in; run.py calls it.
//
//   all_reduce_bench --mode=compare --ranks=2 [SIZE...]
//
// Modes: compare   every candidate once at every size (measure.h)
//        sweep     every algorithm of ours instead, over shared memory and TCP
//        wire      bytes that ours writes, beside theory: {"wire": "tcp", "algorithm", "ranks", "rank", "bytes",
//                  "payload", "framing"} for every rank, of one all-reduce
//        integrity plain, checked and encrypted frames instead, over TCP between --hosts
//        dead_rank how long survivors of a killed rank stay blocked (dead_rank.h)
#include <fcntl.h>
#include <sched.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/config/flags.h"
#include "common/plan/topology.h"
#include "common/status/exit_code.h"
#include "common/status/status_macros.h"
#include "common/transport/unique_fd.h"
#include "tests/bench/allreduce_vs_peers/candidate.h"
#include "tests/bench/allreduce_vs_peers/dead_rank.h"
#include "tests/bench/allreduce_vs_peers/measure.h"
#include "tests/bench/allreduce_vs_peers/our_mesh.h"
#include "tests/bench/allreduce_vs_peers/shared_page.h"
#include "worker/bench/forked_ranks.h"
#include "worker/bench/local_mesh.h"
#include "worker/collective/algorithm.h"
#include "worker/collective/communicator.h"
#include "worker/collective/schedule.h"

namespace ringmaster {
namespace {

constexpr Transport kTransports[] = {Transport::kSharedMemory, Transport::kUnix,
                                     Transport::kTcp};

struct Flags {
  std::string mode = "compare";
  int ranks = 2;
  int times = 20;
  std::string only;
  std::vector<std::string> hosts;
  std::vector<std::string> sizes;
};

// One of --hosts.
struct BenchHost {
  std::string network_namespace;
  std::string address;
};

struct World {
  const Flags& flags;
  const std::vector<int64_t>& sizes;
  SharedPage& page;
  const std::vector<Listener>& listeners;
  const std::string& directory;
  const std::vector<BenchHost>& hosts;  // none: all ranks are on this one
};

// The largest buffer that is measured in memory that ranks share.
constexpr size_t kArenaBytes = 64 << 20;

// Ours, by transport in the order of kTransports; the first reads buffers that lie in `arena` in place.
struct Ours {
  SharedSegment arena;
  std::vector<std::unique_ptr<Communicator>> communicators;
};

std::vector<Algorithm> UsableAlgorithms(int world_size) {
  std::vector<Algorithm> usable;
  for (const Algorithm algorithm : kAlgorithms) {
    if (IsUsable(algorithm, Topology::OneHost(world_size)))
      usable.push_back(algorithm);
  }
  return usable;
}

Candidates ForCompare(const World& world, int rank, const Ours& ours) {
  Candidates candidates;
  for (size_t i = 0; i < ours.communicators.size(); ++i) {
    const std::string name = ShortName(kTransports[i]);
    candidates.push_back(
        OurCandidate("ours " + name, *ours.communicators[i], {}));
    if (i == 0) {
      candidates.push_back(OurCandidate("ours shm, in place",
                                        *ours.communicators[i],
                                        {.arena = &ours.arena}));
    }
    if (kTransports[i] == Transport::kUnix) continue;
    candidates.push_back(OurCandidate(absl::StrCat("ours ", name, " bf16"),
                                      *ours.communicators[i],
                                      {.wire = DType::kBFloat16}));
    candidates.push_back(OurCandidate(absl::StrCat("ours ", name, " fp16"),
                                      *ours.communicators[i],
                                      {.wire = DType::kFloat16}));
  }
  for (auto& peer : MakePeers(rank, world.flags.ranks, world.directory))
    candidates.push_back(std::move(peer));
  return candidates;
}

Candidates ForSweep(const World& world, const Ours& ours) {
  Candidates candidates;
  for (size_t i = 0; i < ours.communicators.size(); ++i) {
    if (kTransports[i] == Transport::kUnix) continue;
    for (const Algorithm algorithm : UsableAlgorithms(world.flags.ranks)) {
      candidates.push_back(
          OurCandidate(absl::StrCat(ShortName(kTransports[i]), " ",
                                    AlgorithmName(algorithm)),
                       *ours.communicators[i], {.algorithm = algorithm}));
    }
  }
  return candidates;
}

absl::Status CountWire(const World& world, int rank, const Ours& ours) {
  for (const int64_t bytes : world.sizes) {
    std::vector<float> values(static_cast<size_t>(bytes) / sizeof(float));
    for (size_t i = 0; i < ours.communicators.size(); ++i) {
      for (const Algorithm algorithm : UsableAlgorithms(world.flags.ranks)) {
        const WireCounters before = ours.communicators[i]->counters();
        CollectiveRequest request = AllReduceSum(BufferView::Of(values));
        request.algorithm = algorithm;
        RETURN_IF_ERROR(ours.communicators[i]->Run(request, PatientDeadline()));
        const WireCounters after = ours.communicators[i]->counters();
        std::printf(
            "{\"wire\": \"%s\", \"algorithm\": \"%s\", \"ranks\": %d, "
            "\"rank\": %d, \"bytes\": %lld, \"payload\": %lld, "
            "\"framing\": %lld}\n",
            ShortName(kTransports[i]), AlgorithmName(algorithm),
            world.flags.ranks, rank, static_cast<long long>(bytes),
            static_cast<long long>(after.payload_sent_bytes -
                                   before.payload_sent_bytes),
            static_cast<long long>(after.framing_sent_bytes -
                                   before.framing_sent_bytes));
        std::fflush(stdout);
      }
    }
  }
  return absl::OkStatus();
}

// Moves this thread into the network namespace.
absl::Status Enter(const BenchHost& host) {
  const std::string path = absl::StrCat("/run/netns/", host.network_namespace);
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.is_open() || setns(fd.get(), CLONE_NEWNET) != 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot enter ", path, ": ", std::strerror(errno)));
  }
  return absl::OkStatus();
}

const char* CandidateName(FrameIntegrity integrity) {
  switch (integrity) {
    case FrameIntegrity::kCrc32c:
      return "crc32c";
    case FrameIntegrity::kAes256Gcm:
      return "aes-256-gcm";
    case FrameIntegrity::kNone:
      break;
  }
  return "none";
}

// The same connections for each kind of frames, so that these take turns.
absl::Status RunIntegrityRank(const World& world, int rank) {
  RETURN_IF_ERROR(Enter(world.hosts[static_cast<size_t>(rank)]));
  std::vector<std::unique_ptr<Communicator>> communicators;
  Candidates candidates;
  for (const FrameIntegrity integrity :
       {FrameIntegrity::kNone, FrameIntegrity::kCrc32c,
        FrameIntegrity::kAes256Gcm}) {
    ASSIGN_OR_RETURN(
        auto communicator,
        ConnectOurs(world.listeners, rank,
                    static_cast<int64_t>(communicators.size()), Transport::kTcp,
                    /*arena=*/nullptr, integrity));
    communicators.push_back(std::move(communicator));
    candidates.push_back(
        OurCandidate(CandidateName(integrity), *communicators.back(), {}));
  }
  RETURN_IF_ERROR(MeasureAll({world.page, rank, world.flags.ranks}, candidates,
                             world.sizes));
  return communicators[0]->Run(Barrier(), PatientDeadline());
}

absl::Status RunRank(const World& world, int rank) {
  if (world.flags.mode == "integrity") return RunIntegrityRank(world, rank);
  ASSIGN_OR_RETURN(SharedSegment arena,
                   SharedSegment::Create("bench arena", kArenaBytes));
  Ours ours = {std::move(arena), {}};
  for (const Transport transport : kTransports) {
    ASSIGN_OR_RETURN(
        auto communicator,
        ConnectOurs(world.listeners, rank,
                    static_cast<int64_t>(ours.communicators.size()), transport,
                    ours.communicators.empty() ? &ours.arena : nullptr));
    ours.communicators.push_back(std::move(communicator));
  }
  if (world.flags.mode == "wire") {
    RETURN_IF_ERROR(CountWire(world, rank, ours));
  } else {
    Candidates candidates = world.flags.mode == "sweep"
                                ? ForSweep(world, ours)
                                : ForCompare(world, rank, ours);
    std::erase_if(candidates, [&](const auto& candidate) {
      return candidate->name() != world.flags.only && !world.flags.only.empty();
    });
    RETURN_IF_ERROR(MeasureAll({world.page, rank, world.flags.ranks},
                               candidates, world.sizes));
  }
  return ours.communicators[0]->Run(Barrier(), PatientDeadline());
}

// The ranks have nothing to tell but how they end.
absl::Status RunRanks(const World& world) {
  std::fflush(stdout);
  ASSIGN_OR_RETURN(const std::unique_ptr<ForkedRanks> ranks,
                   ForkedRanks::Start(world.flags.ranks,
                                      [&](int rank, const ForkedRanks::Send&) {
                                        return RunRank(world, rank);
                                      }));
  return ranks->Next(/*stop_fd=*/-1).status();
}

absl::Status RunDeadRanks(const Flags& flags) {
  for (int time = 0; time < flags.times; ++time) {
    for (const Transport transport :
         {Transport::kSharedMemory, Transport::kTcp}) {
      RETURN_IF_ERROR(
          MeasureDeadRank(transport, flags.ranks, time % flags.ranks));
    }
  }
  return absl::OkStatus();
}

// One for each rank, in its namespace; this thread stays in the last one.
absl::StatusOr<std::vector<Listener>> ListenOn(
    const std::vector<BenchHost>& hosts) {
  std::vector<Listener> listeners;
  for (const BenchHost& host : hosts) {
    RETURN_IF_ERROR(Enter(host));
    ASSIGN_OR_RETURN(Listener listener,
                     Listener::Listen(absl::StrCat(host.address, ":0")));
    listeners.push_back(std::move(listener));
  }
  return listeners;
}

absl::StatusOr<std::vector<BenchHost>> HostsOf(const Flags& flags) {
  std::vector<BenchHost> hosts;
  for (const std::string& text : flags.hosts) {
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(text, absl::MaxSplits('@', 1));
    hosts.push_back({parts.first, parts.second});
  }
  const size_t wanted =
      flags.mode == "integrity" ? static_cast<size_t>(flags.ranks) : 0;
  if (hosts.size() == wanted) return hosts;
  return absl::InvalidArgumentError(
      absl::StrCat("--mode=", flags.mode, " takes ", wanted, " --hosts, not ",
                   hosts.size()));
}

absl::Status Run(const Flags& flags) {
  if (flags.mode == "dead_rank") return RunDeadRanks(flags);
  ASSIGN_OR_RETURN(const std::vector<int64_t> sizes, SizesOf(flags.sizes));
  SharedPage* const page = MapSharedPage("");
  if (page == nullptr) return absl::UnavailableError("no memory for a page");
  ASSIGN_OR_RETURN(const std::vector<BenchHost> hosts, HostsOf(flags));
  ASSIGN_OR_RETURN(
      const std::vector<Listener> listeners,
      hosts.empty() ? ListenForRanks(flags.ranks) : ListenOn(hosts));
  std::string directory =
      (std::filesystem::temp_directory_path() / "all_reduce_bench.XXXXXX")
          .string();
  if (mkdtemp(directory.data()) == nullptr)
    return absl::UnavailableError("no temporary directory " + directory);
  const World world{flags, sizes, *page, listeners, directory, hosts};
  const absl::Status status = RunRanks(world);
  std::error_code ignored;
  std::filesystem::remove_all(directory, ignored);
  return status;
}

}  // namespace
}  // namespace ringmaster

int main(int argc, char** argv) {
  ringmaster::Flags flags;
  ringmaster::FlagSet set("all_reduce_bench",
                          "Measures all-reduces among processes of this host.");
  set.Add({.name = "mode",
           .help = "What to measure.",
           .choices = {"compare", "sweep", "wire", "integrity", "dead_rank"}},
          &flags.mode);
  set.Add({.name = "ranks",
           .help = "Processes.",
           .min = 2,
           .max = ringmaster::kMaxBenchRanks},
          &flags.ranks);
  set.Add({.name = "times",
           .help = "How often a rank is killed (dead_rank).",
           .min = 1},
          &flags.times);
  set.Add({.name = "only",
           .help = "Measure the candidate of this name alone, for a profile."},
          &flags.only);
  set.Add({.name = "hosts",
           .unit = "NAMESPACE@ADDRESS",
           .help = "The network namespace of a rank, and an address that it "
                   "has there; once for each rank (integrity)."},
          &flags.hosts);
  set.AddArgument("SIZE", "Sizes of the buffer: 4K, 64M.", false, &flags.sizes);
  if (const auto code = set.ParseCommandLine(argc, argv))
    return static_cast<int>(*code);
  if (flags.sizes.empty())
    flags.sizes = {"4K", "64K", "256K", "1M", "4M", "16M", "64M"};
  const absl::Status status = ringmaster::Run(flags);
  if (status.ok()) return 0;
  std::fprintf(stderr, "all_reduce_bench: %s\n", status.ToString().c_str());
  return 1;
}
