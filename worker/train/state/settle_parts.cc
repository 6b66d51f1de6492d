#include "worker/train/state/settle_parts.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/fail_point/fail_point.h"
#include "common/status/status_macros.h"
#include "common/transport/blamed_peer.h"
#include "worker/collective/gather_words.h"
#include "worker/train/state/move_elements.h"
#include "xxhash.h"

namespace ringmaster {
namespace {

constexpr char kGivenUpUrl[] = "ringmaster/state_given_up";

// The sum of the norms of all parts, in their order; nullopt if one is missing.
std::optional<double> SumOfParts(
    const std::map<MomentPart, double>& norm_squared_of) {
  double sum = 0;
  int next = 0;
  for (const auto& [part, norm_squared] : norm_squared_of) {
    if (part.index != next++) return std::nullopt;
    sum += norm_squared;
  }
  const bool is_all = next > 0 && norm_squared_of.rbegin()->first.count == next;
  return is_all ? std::optional(sum) : std::nullopt;
}

// Returns true if one of the copies of `part` was there before.
bool WasThere(const std::vector<int64_t>& words, int64_t part) {
  for (size_t i = 0; i < words.size(); i += 3) {
    if (words[i] == part && words[i + 1] == 1) return true;
  }
  return false;
}

}  // namespace

bool IsStateGivenUp(const absl::Status& status) {
  return status.GetPayload(kGivenUpUrl).has_value();
}

// A rank's report on itself.
struct PartSettler::Standing {
  Phase phase = Phase::kNewcomer;
  int64_t step = 0;  // that it would be at after the update
  std::optional<double> norm_squared = std::nullopt;  // of the resume step
  std::vector<MomentPart> parts = {};
  std::vector<double> part_norms_squared = {};  // before an update
};

PartSettler::PartSettler(TrainingState& state, Communicator& communicator,
                         const Options& options, const Clock& clock)
    : state_(state),
      communicator_(communicator),
      options_(options),
      clock_(clock) {}

absl::StatusOr<std::vector<int64_t>> PartSettler::Gather(
    std::span<const int64_t> own) {
  return GatherWords(own, communicator_,
                     clock_.Now() + options_.broadcast.wait_timeout);
}

PartSettler::Phase PartSettler::OwnPhase() const {
  if (options_.is_newcomer) return Phase::kNewcomer;
  if (state_.complete_step() == state_.applied_step()) return Phase::kApplied;
  return state_.is_updated() ? Phase::kUpdated : Phase::kBefore;
}

absl::StatusOr<std::vector<PartSettler::Standing>>
PartSettler::GatherStandings() {
  const Phase phase = OwnPhase();
  const std::vector<MomentPart>& parts = state_.held_parts();
  const bool knows_norm = state_.KnowsNormOf(options_.resume_step);
  const std::array<int64_t, 5> own = {
      static_cast<int64_t>(phase), state_.complete_step(), knows_norm ? 1 : 0,
      knows_norm ? std::bit_cast<int64_t>(state_.complete_norm_squared()) : 0,
      static_cast<int64_t>(parts.size())};
  ASSIGN_OR_RETURN(const std::vector<int64_t> words, Gather(own));
  std::vector<Standing> standings;
  std::vector<size_t> part_counts;
  for (auto word = words.begin(); word != words.end(); word += own.size()) {
    Standing& standing = standings.emplace_back();
    standing.phase = static_cast<Phase>(word[0]);
    standing.step = word[1];
    if (word[2] != 0) standing.norm_squared = std::bit_cast<double>(word[3]);
    part_counts.push_back(static_cast<size_t>(word[4]));
  }
  constexpr size_t kPartWords = 3;
  const size_t most = *std::ranges::max_element(part_counts);
  std::vector<int64_t> own_parts(most * kPartWords);
  for (size_t i = 0; i < parts.size(); ++i) {
    own_parts[i * kPartWords] = parts[i].count;
    own_parts[i * kPartWords + 1] = parts[i].index;
    if (phase == Phase::kBefore) {
      own_parts[i * kPartWords + 2] =
          std::bit_cast<int64_t>(state_.part_norms_squared()[i]);
    }
  }
  ASSIGN_OR_RETURN(const std::vector<int64_t> part_words, Gather(own_parts));
  auto word = part_words.begin();
  for (size_t rank = 0; rank < standings.size(); ++rank) {
    for (size_t i = 0; i < most; ++i, word += kPartWords) {
      if (i >= part_counts[rank]) continue;
      standings[rank].parts.push_back(
          {static_cast<int>(word[0]), static_cast<int>(word[1])});
      standings[rank].part_norms_squared.push_back(
          std::bit_cast<double>(word[2]));
    }
  }
  return standings;
}

absl::Status PartSettler::FinishUpdates() {
  ASSIGN_OR_RETURN(const std::vector<Standing> standings, GatherStandings());
  RETURN_IF_ERROR(PlanMoves(standings));
  std::optional<double> norm_squared;
  std::map<MomentPart, double> norm_squared_of;
  bool is_applied = true;
  for (size_t rank = 0; rank < standings.size(); ++rank) {
    const Standing& standing = standings[rank];
    if (standing.phase == Phase::kNewcomer) continue;
    if (standing.step != options_.resume_step) {
      return absl::FailedPreconditionError(
          absl::StrFormat("rank %d is at step %d, but the generation begins "
                          "after step %d",
                          rank, standing.step, options_.resume_step));
    }
    is_applied &= standing.phase == Phase::kApplied;
    if (standing.norm_squared) norm_squared = standing.norm_squared;
    if (standing.phase != Phase::kBefore) continue;
    for (size_t i = 0; i < standing.parts.size(); ++i) {
      norm_squared_of.emplace(standing.parts[i],
                              standing.part_norms_squared[i]);
    }
  }
  if (is_applied) return absl::OkStatus();
  if (!norm_squared) norm_squared = SumOfParts(norm_squared_of);
  if (!norm_squared) return GiveUp(Lost("the norm of its gradient"));
  if (OwnPhase() == Phase::kBefore) {
    state_.SetCompleteNorm(*norm_squared);
    RETURN_IF_ERROR(state_.UpdateHeld());
    RETURN_IF_ERROR(FAIL_POINT("train.settle_updated"));
  }
  RETURN_IF_ERROR(GatherParameters(standings));
  const bool is_pending = state_.complete_step() > state_.applied_step();
  return is_pending ? state_.ApplyComplete() : absl::OkStatus();
}

absl::Status PartSettler::PlanMoves(const std::vector<Standing>& standings) {
  std::vector<Possession> possessions;
  for (size_t rank = 0; rank < standings.size(); ++rank) {
    possessions.push_back(
        {.held = standings[rank].phase == Phase::kNewcomer
                     ? ElemRanges()
                     : RangesOf(standings[rank].parts, state_.plan()),
         .wanted = RangesOf(PartsOf(static_cast<int>(rank),
                                    state_.config().mirrors(), options_.ranks),
                            state_.plan())});
  }
  std::optional<std::vector<Transfer>> transfers =
      PlanTransfers(possessions, state_.plan().total_elems());
  if (!transfers) return GiveUp(Lost("the moments of some part"));
  transfers_ = *std::move(transfers);
  own_ = std::move(possessions[static_cast<size_t>(communicator_.rank())]);
  return absl::OkStatus();
}

absl::Status PartSettler::GatherParameters(
    const std::vector<Standing>& standings) {
  const ElemRanges whole = {{0, state_.plan().total_elems()}};
  // A gather that was interrupted may have damaged a mirror's parameters on their
  // way from the owner: they count only where the owner is gone.
  std::set<MomentPart> owned;
  for (const Standing& standing : standings) {
    const bool updates =
        standing.phase == Phase::kBefore || standing.phase == Phase::kUpdated;
    if (updates) owned.insert(standing.parts.front());
  }
  std::vector<Possession> possessions;
  for (const Standing& standing : standings) {
    Possession& possession = possessions.emplace_back();
    // Newcomers get all of them later.
    if (standing.phase == Phase::kNewcomer) continue;
    possession.wanted = whole;
    if (standing.phase == Phase::kApplied) {
      possession.held = whole;
      continue;
    }
    std::vector<MomentPart> parts = {standing.parts.front()};
    for (const MomentPart& part : standing.parts) {
      if (standing.phase == Phase::kBefore || !owned.contains(part))
        parts.push_back(part);
    }
    possession.held = RangesOf(parts, state_.plan());
  }
  const auto transfers =
      PlanTransfers(possessions, state_.plan().total_elems());
  if (!transfers) return GiveUp(Lost("the parameters of some part"));
  return Move(*transfers,
              possessions[static_cast<size_t>(communicator_.rank())],
              state_.MutableParameters());
}

absl::Status PartSettler::MoveMoments() {
  const ArenaSpans<float> arenas = state_.MutableMoments();
  for (const absl::Span<float> moment :
       {arenas.first_moment, arenas.second_moment}) {
    if (moment.empty()) continue;
    RETURN_IF_ERROR(Move(transfers_, own_, moment));
  }
  return absl::OkStatus();
}

absl::Status PartSettler::Move(absl::Span<const Transfer> transfers,
                               const Possession& own, absl::Span<float> arena) {
  const ElemRanges lacked = Intersection(
      own.wanted, Complement(own.held, state_.plan().total_elems()));
  return MoveElements(transfers, arena, lacked, options_.broadcast,
                      communicator_, clock_);
}

absl::Status PartSettler::CompareMoments() {
  const ArenaSpans<float> arenas = state_.MutableMoments();
  std::vector<int64_t> own;
  for (const MomentPart& part : OwnParts()) {
    const ElemRanges ranges = RangesOf({part}, state_.plan());
    uint64_t hash = 0;
    for (const absl::Span<const float> moment :
         {absl::Span<const float>(arenas.first_moment),
          absl::Span<const float>(arenas.second_moment)}) {
      if (moment.empty()) continue;
      for (const ElemRange& range : ranges) {
        RETURN_IF_ERROR(options_.broadcast.before_piece());
        hash = XXH3_64bits_withSeed(
            moment.data() + range.begin,
            static_cast<size_t>(range.count) * sizeof(float), hash);
      }
    }
    own.push_back(part.index);
    own.push_back(Intersection(ranges, own_.held) == ranges ? 1 : 0);
    own.push_back(std::bit_cast<int64_t>(hash));
  }
  ASSIGN_OR_RETURN(const std::vector<int64_t> words, Gather(own));
  const size_t rank_words = own.size();
  // A copy that was there before is right, and so are those that equal it; of
  // copies that are new to all nobody can tell.
  std::map<int64_t, int64_t> hash_of;  // by part
  for (const int64_t had_it : {1, 0}) {
    for (size_t i = 0; i < words.size(); i += 3) {
      if (words[i + 1] != had_it) continue;
      const auto [known, is_first] = hash_of.emplace(words[i], words[i + 2]);
      if (is_first || known->second == words[i + 2]) continue;
      if (had_it == 0 && WasThere(words, words[i]))
        return LeaveOut(static_cast<int>(i / rank_words), words[i]);
      return GiveUp(absl::StrCat("copies of part ", words[i], " differ"));
    }
  }
  return absl::OkStatus();
}

absl::Status PartSettler::LeaveOut(int odd_rank, int64_t part) {
  // A rank that left at once would interrupt those that still wait.
  AwaitAll().IgnoreError();
  const std::string what =
      absl::StrCat("after the copy of the state of step ", options_.resume_step,
                   ", rank ", odd_rank, " holds other moments of part ", part,
                   " than those who had it before");
  if (odd_rank == communicator_.rank()) {
    state_.BecomeNewcomer();
    return absl::FailedPreconditionError(what);
  }
  // It fails by itself; whoever leaves first is no culprit.
  return WithBlamedPeer(
      absl::UnavailableError(absl::StrCat(what, ": the others begin again")),
      -1);
}

// A rank that fails in between reports what it had and what it has: some of the
// others may have given back theirs.
absl::Status PartSettler::Keep() {
  if (options_.resume_step > 0) {
    state_.AddParts(OwnParts());
    RETURN_IF_ERROR(FAIL_POINT("train.settled"));
    RETURN_IF_ERROR(AwaitAll());
  }
  state_.KeepPartsOf(communicator_.rank(), options_.ranks);
  return absl::OkStatus();
}

std::vector<MomentPart> PartSettler::OwnParts() const {
  return PartsOf(communicator_.rank(), state_.config().mirrors(),
                 options_.ranks);
}

absl::Status PartSettler::AwaitAll() {
  return communicator_.Run(Barrier(),
                           clock_.Now() + options_.broadcast.wait_timeout);
}

std::string PartSettler::Lost(std::string_view what) const {
  return absl::StrCat("no rank has ",
                      absl::string_view(what.data(), what.size()),
                      ", since too many were lost at once for "
                      "train.optimizer_sharding.mirror of ",
                      state_.config().mirrors());
}

absl::Status PartSettler::GiveUp(std::string_view why) {
  // A rank that left at once would interrupt those that still wait for what led
  // here.
  AwaitAll().IgnoreError();
  state_.BecomeNewcomer();
  absl::Status status = absl::UnavailableError(
      absl::StrCat("all give the state of step ", options_.resume_step,
                   " up: ", absl::string_view(why.data(), why.size())));
  status.SetPayload(kGivenUpUrl, absl::Cord());
  return status;
}

}  // namespace ringmaster
