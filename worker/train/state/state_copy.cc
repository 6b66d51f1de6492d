#include "worker/train/state/state_copy.h"

#include <array>
#include <span>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "common/fail_point/fail_point.h"
#include "common/status/status_macros.h"
#include "worker/train/state/broadcast_pieces.h"

namespace ringmaster {
namespace {

// A rank's report on itself before the copy.
struct Position {
  bool is_newcomer = false;
  int64_t applied_step = 0;
  int64_t skipped_in_a_row = 0;
  LossScale loss_scale;
};

class Copier {
 public:
  Copier(TrainingState& state, Communicator& communicator,
         const StateCopyOptions& options, const Clock& clock,
         const CancelToken& cancel)
      : state_(state),
        communicator_(communicator),
        options_(options),
        clock_(clock),
        cancel_(cancel) {}

  absl::Status Run() {
    RETURN_IF_ERROR(FAIL_POINT("train.transfer_begin"));
    ASSIGN_OR_RETURN(const std::vector<Position> positions,
                     ExchangePositions());
    RETURN_IF_ERROR(CheckPositions(positions));
    RETURN_IF_ERROR(CopyArenas());
    const Position& source =
        positions[static_cast<size_t>(options_.source_rank)];
    RETURN_IF_ERROR(CompareHashes());
    RETURN_IF_ERROR(FAIL_POINT("train.transfer_end"));
    if (options_.is_newcomer) {
      state_.TakeOver(options_.resume_step, source.skipped_in_a_row,
                      source.loss_scale);
    }
    return absl::OkStatus();
  }

 private:
  // The words of all ranks, by rank.
  template <size_t kWords>
  absl::StatusOr<std::vector<std::array<int64_t, kWords>>> Exchange(
      const std::array<int64_t, kWords>& own) {
    const auto size = static_cast<size_t>(communicator_.world_size());
    std::vector<std::array<int64_t, kWords>> words(size);
    words[static_cast<size_t>(communicator_.rank())] = own;
    const std::span<int64_t> all(words.front().data(), size * kWords);
    RETURN_IF_ERROR(communicator_.Run(AllGather(BufferView::Of(all)),
                                      clock_.Now() + options_.wait_timeout));
    return words;
  }

  absl::StatusOr<std::vector<Position>> ExchangePositions() {
    const LossScale& scale = state_.loss_scale();
    const std::array<int64_t, 5> own = {
        options_.is_newcomer ? 1 : 0, state_.applied_step(),
        state_.skipped_in_a_row(), static_cast<int64_t>(scale.value()),
        scale.good_updates()};
    ASSIGN_OR_RETURN(const auto words, Exchange(own));
    std::vector<Position> positions;
    for (const auto& [is_newcomer, applied_step, skipped, scale_value,
                      good_updates] : words) {
      positions.push_back(
          {is_newcomer != 0, applied_step, skipped,
           LossScale(static_cast<double>(scale_value), good_updates)});
    }
    return positions;
  }

  // All ranks look at the same positions, so all come to the same end.
  absl::Status CheckPositions(absl::Span<const Position> positions) const {
    const Position& source =
        positions[static_cast<size_t>(options_.source_rank)];
    if (source.is_newcomer || source.applied_step != options_.resume_step) {
      return absl::FailedPreconditionError(absl::StrFormat(
          "rank %d is to give its state of step %d to newcomers, but %s",
          options_.source_rank, options_.resume_step,
          source.is_newcomer
              ? std::string("is a newcomer itself")
              : absl::StrFormat("is at step %d", source.applied_step)));
    }
    for (size_t rank = 0; rank < positions.size(); ++rank) {
      const Position& position = positions[rank];
      if (position.is_newcomer) continue;
      if (position.applied_step == source.applied_step &&
          position.skipped_in_a_row == source.skipped_in_a_row &&
          position.loss_scale == source.loss_scale) {
        continue;
      }
      return absl::FailedPreconditionError(absl::StrFormat(
          "rank %d is at step %d with %d updates left out in a row and loss "
          "scale %g, rank %d at step %d with %d and %g",
          rank, position.applied_step, position.skipped_in_a_row,
          position.loss_scale.value(), options_.source_rank,
          source.applied_step, source.skipped_in_a_row,
          source.loss_scale.value()));
    }
    return absl::OkStatus();
  }

  absl::Status CopyArenas() {
    BroadcastOptions broadcast;
    broadcast.source = options_.source_rank;
    broadcast.wait_timeout = options_.wait_timeout;
    broadcast.before_piece = [this]() -> absl::Status {
      RETURN_IF_ERROR(FAIL_POINT("train.transfer_piece"));
      return cancel_.status();
    };
    if (state_.accelerator() != nullptr) return CopyOnDevices(broadcast);
    if (!options_.is_newcomer) {
      for (const absl::Span<const float> arena :
           {absl::Span<const float>(state_.parameters().Elems<float>()),
            state_.first_moment(), state_.second_moment()}) {
        RETURN_IF_ERROR(GivePieces(arena, broadcast, communicator_, clock_));
      }
      return absl::OkStatus();
    }
    const ArenaSpans<float> arenas = state_.MutableArenas();
    for (const absl::Span<float> arena :
         {arenas.parameters, arenas.first_moment, arenas.second_moment}) {
      RETURN_IF_ERROR(BroadcastPieces(arena, broadcast, communicator_, clock_));
    }
    return absl::OkStatus();
  }

  // From the source's accelerator to those of newcomers.
  absl::Status CopyOnDevices(const BroadcastOptions& broadcast) {
    RETURN_IF_ERROR(state_.SendToDevice());
    const bool is_given =
        !options_.is_newcomer && communicator_.rank() != options_.source_rank;
    const StateArenas::DeviceViews views = state_.device_views();
    for (const BufferView& arena : views.state) {
      RETURN_IF_ERROR(BroadcastPieces(arena,
                                      is_given ? &views.scratch : nullptr,
                                      broadcast, communicator_, clock_));
    }
    if (options_.is_newcomer) state_.MarkDeviceNewest();
    return state_.FetchToHost();  // for the hashes
  }

  absl::Status CompareHashes() {
    ASSIGN_OR_RETURN(const uint64_t own, state_.Hash(cancel_));
    ASSIGN_OR_RETURN(const auto hashes,
                     Exchange<1>({static_cast<int64_t>(own)}));
    const auto source = static_cast<size_t>(options_.source_rank);
    for (size_t rank = 0; rank < hashes.size(); ++rank) {
      if (hashes[rank] == hashes[source]) continue;
      return absl::FailedPreconditionError(absl::StrFormat(
          "after the copy of the state of step %d, rank %d holds %016x and "
          "rank %d, its source, %016x",
          options_.resume_step, rank, static_cast<uint64_t>(hashes[rank][0]),
          source, static_cast<uint64_t>(hashes[source][0])));
    }
    return absl::OkStatus();
  }

  TrainingState& state_;
  Communicator& communicator_;
  const StateCopyOptions& options_;
  const Clock& clock_;
  const CancelToken& cancel_;
};

}  // namespace

absl::Status CopyState(TrainingState& state, Communicator& communicator,
                       const StateCopyOptions& options, const Clock& clock,
                       const CancelToken& cancel) {
  return Copier(state, communicator, options, clock, cancel).Run();
}

}  // namespace ringmaster
