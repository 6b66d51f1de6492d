// mpi_peer PAGE NAME SIZE...: the MPI library's all-reduce, measured by the rules of measure.h; started by mpirun, once for
// each way that run.py wants it to work. PAGE is a file that the ranks of one run share, new for each run.
#include <mpi/mpi.h>

#include <climits>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "tests/bench/allreduce_vs_peers/candidate.h"
#include "tests/bench/allreduce_vs_peers/measure.h"
#include "tests/bench/allreduce_vs_peers/shared_page.h"

namespace ringmaster {
namespace {

class Mpi final : public Candidate {
 public:
  explicit Mpi(std::string name) : name_(std::move(name)) {}
  std::string name() const override { return name_; }
  absl::Status AllReduce(std::span<float> values) override {
    if (values.size() > INT_MAX ||
        MPI_Allreduce(MPI_IN_PLACE, values.data(),
                      static_cast<int>(values.size()), MPI_FLOAT, MPI_SUM,
                      MPI_COMM_WORLD) != MPI_SUCCESS) {
      return absl::InternalError("MPI_Allreduce failed");
    }
    return absl::OkStatus();
  }

 private:
  const std::string name_;
};

absl::Status Run(const std::vector<std::string>& arguments) {
  SharedPage* const page = MapSharedPage(arguments[0]);
  if (page == nullptr)
    return absl::UnavailableError("no memory for the page of " + arguments[0]);
  BenchRank self{*page};
  MPI_Comm_rank(MPI_COMM_WORLD, &self.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &self.world_size);
  const auto sizes = SizesOf({arguments.begin() + 2, arguments.end()});
  if (!sizes.ok()) return sizes.status();
  Candidates candidates;
  candidates.push_back(std::make_unique<Mpi>(arguments[1]));
  return MeasureAll(self, candidates, *sizes);
}

}  // namespace
}  // namespace ringmaster

int main(int argc, char** argv) {
  if (MPI_Init(&argc, &argv) != MPI_SUCCESS) return 1;
  if (argc < 4) {
    std::fprintf(stderr, "usage: mpi_peer PAGE NAME SIZE...\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  const absl::Status status = ringmaster::Run({argv + 1, argv + argc});
  if (!status.ok()) {
    std::fprintf(stderr, "mpi_peer: %s\n", status.ToString().c_str());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
  return 0;
}
