// Holders says who has the parameters of a simulated job.
#ifndef RINGMASTER_TESTS_SIMULATOR_HOLDERS_H_
#define RINGMASTER_TESTS_SIMULATOR_HOLDERS_H_

#include <optional>
#include <string_view>

namespace ringmaster::simulator {

enum class Holders {
  kRanks,    // every worker all of them
  kWorkers,  // the workers, in shards, with a copy of each
  kServers,  // parameter servers
};

// "ranks", "workers", "servers".
[[nodiscard]] std::string_view NameOf(Holders holders);
// The inverse; nullopt if it is no such name.
[[nodiscard]] std::optional<Holders> FindHolders(std::string_view name);

}  // namespace ringmaster::simulator

#endif  // RINGMASTER_TESTS_SIMULATOR_HOLDERS_H_
