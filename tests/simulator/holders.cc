#include "tests/simulator/holders.h"

namespace ringmaster::simulator {

std::string_view NameOf(Holders holders) {
  switch (holders) {
    case Holders::kRanks:
      return "ranks";
    case Holders::kWorkers:
      return "workers";
    case Holders::kServers:
      return "servers";
  }
  return "?";
}

std::optional<Holders> FindHolders(std::string_view name) {
  for (const Holders holders :
       {Holders::kRanks, Holders::kWorkers, Holders::kServers}) {
    if (name == NameOf(holders)) return holders;
  }
  return std::nullopt;
}

}  // namespace ringmaster::simulator
