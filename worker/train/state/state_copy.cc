#include "worker/train/state/state_copy.h"

#include <algorithm>
#include <array>
#include <bit>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "common/fail_point/fail_point.h"
#include "common/status/status_macros.h"
#include "common/transport/blamed_peer.h"
#include "worker/member/run_outcome.h"
#include "worker/train/state/broadcast_pieces.h"
#include "worker/train/state/copy_vote.h"
#include "worker/train/state/settle_parts.h"

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
    if (!state_.is_sharded()) return CopyToNewcomers(nullptr);
    PartSettler parts(state_, communicator_,
                      {.ranks = options_.ranks,
                       .is_newcomer = options_.is_newcomer,
                       .resume_step = options_.resume_step,
                       .broadcast = PieceOptions()},
                      clock_);
    if (options_.resume_step > 0) {
      RETURN_IF_ERROR(parts.FinishUpdates());
      RETURN_IF_ERROR(parts.MoveMoments());
      if (options_.source_rank >= 0) RETURN_IF_ERROR(CopyToNewcomers(&parts));
    }
    return parts.Keep();
  }

 private:
  // With the parts of the moments, which have been moved, if there are any.
  absl::Status CopyToNewcomers(PartSettler* parts) {
    ASSIGN_OR_RETURN(const std::vector<Position> positions,
                     ExchangePositions());
    RETURN_IF_ERROR(CheckPositions(positions));
    RETURN_IF_ERROR(CopyArenas());
    if (!FAIL_POINT("train.transfer_flip").ok()) FlipBit();
    const Position& source =
        positions[static_cast<size_t>(options_.source_rank)];
    RETURN_IF_ERROR(CompareHashes(positions));
    if (parts != nullptr) RETURN_IF_ERROR(parts->CompareMoments());
    RETURN_IF_ERROR(FAIL_POINT("train.transfer_end"));
    if (options_.is_newcomer) {
      state_.TakeOver(options_.resume_step, source.skipped_in_a_row,
                      source.loss_scale);
    }
    return absl::OkStatus();
  }

  BroadcastOptions PieceOptions() const {
    BroadcastOptions broadcast;
    broadcast.source = std::max(options_.source_rank, 0);
    broadcast.wait_timeout = options_.wait_timeout;
    broadcast.before_piece = [this]() -> absl::Status {
      RETURN_IF_ERROR(FAIL_POINT("train.transfer_piece"));
      return cancel_.status();
    };
    return broadcast;
  }

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
    const BroadcastOptions broadcast = PieceOptions();
    if (state_.accelerator() != nullptr) return CopyOnDevices(broadcast);
    // Where they are sharded, moments have been moved.
    const size_t count = state_.is_sharded() ? 1 : 3;
    if (!options_.is_newcomer) {
      const std::array<absl::Span<const float>, 3> arenas = {
          state_.parameters().Elems<float>(), state_.first_moment(),
          state_.second_moment()};
      for (size_t i = 0; i < count; ++i)
        RETURN_IF_ERROR(
            GivePieces(arenas[i], broadcast, communicator_, clock_));
      return absl::OkStatus();
    }
    const ArenaSpans<float> arenas = state_.MutableArenas();
    const std::array<absl::Span<float>, 3> spans = {
        arenas.parameters, arenas.first_moment, arenas.second_moment};
    for (size_t i = 0; i < count; ++i)
      RETURN_IF_ERROR(
          BroadcastPieces(spans[i], broadcast, communicator_, clock_));
    return absl::OkStatus();
  }

  // As memory that fails does.
  void FlipBit() {
    float& elem = state_.MutableArenas().parameters.front();
    elem = std::bit_cast<float>(std::bit_cast<uint32_t>(elem) ^ 1u);
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

  absl::Status CompareHashes(absl::Span<const Position> positions) {
    absl::StatusOr<uint64_t> hash =
        state_.is_sharded() ? state_.ParametersHash() : state_.Hash(cancel_);
    RETURN_IF_ERROR(hash.status());
    const uint64_t own = *hash;
    ASSIGN_OR_RETURN(const auto hashes,
                     Exchange<1>({static_cast<int64_t>(own)}));
    std::vector<CopiedState> states;
    for (size_t rank = 0; rank < hashes.size(); ++rank) {
      states.push_back({static_cast<uint64_t>(hashes[rank][0]),
                        positions[rank].is_newcomer});
    }
    const CopyVote vote = VoteOnCopy(states, options_.source_rank);
    if (vote.hash.has_value() && vote.odd_ranks.empty())
      return absl::OkStatus();
    // A rank that left at once would interrupt those that still wait for hashes.
    Exchange<1>({0}).status().IgnoreError();
    return vote.hash.has_value() ? LeaveOutOdd(vote, own) : GiveUp(states);
  }

  absl::Status LeaveOutOdd(const CopyVote& vote, uint64_t own) {
    const int rank = communicator_.rank();
    if (!std::binary_search(vote.odd_ranks.begin(), vote.odd_ranks.end(),
                            rank)) {
      // The odd ranks fail by themselves; whoever leaves first is no culprit.
      return WithBlamedPeer(
          absl::UnavailableError(absl::StrFormat(
              "after the copy of the state of step %d, rank %s holds another "
              "one than the majority, %016x: the others begin again",
              options_.resume_step, absl::StrJoin(vote.odd_ranks, ", "),
              *vote.hash)),
          -1);
    }
    state_.BecomeNewcomer();
    return absl::FailedPreconditionError(absl::StrFormat(
        "after the copy of the state of step %d, rank %d holds %016x, and the "
        "majority %016x",
        options_.resume_step, rank, own, *vote.hash));
  }

  // Nobody can tell which state is right, and a wrong one must not be trained
  // on.
  absl::Status GiveUp(absl::Span<const CopiedState> states) {
    const auto own = static_cast<size_t>(communicator_.rank());
    std::string holders;
    int other = -1;
    for (size_t rank = 0; rank < states.size(); ++rank) {
      if (states[rank].is_newcomer) continue;
      absl::StrAppendFormat(&holders, "%srank %d %016x",
                            holders.empty() ? "" : ", ", rank,
                            states[rank].hash);
      if (other < 0 && states[rank].hash != states[own].hash)
        other = static_cast<int>(rank);
    }
    state_.BecomeNewcomer();
    const std::string message = absl::StrFormat(
        "after the copy of the state of step %d, those that held it differ, "
        "and "
        "no majority of them agrees (%s): all give it up",
        options_.resume_step, holders);
    return options_.is_newcomer ? absl::UnavailableError(message)
                                : OtherStateError(message, other);
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
