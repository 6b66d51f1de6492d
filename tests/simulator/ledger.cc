#include "tests/simulator/ledger.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/protocol/enum_name.h"
#include "server/coordinator/core/faults/link_faults.h"
#include "tests/simulator/random.h"

namespace ringmaster::simulator {

Ledger::Ledger(uint64_t seed, const Shape& shape, const JobShape& job,
               const FaultLog& faults)
    : seed_(seed), shape_(shape), job_(job), faults_(faults) {
  hashes_.reserve(job.total_steps + 1);
  hashes_.push_back(Mix(seed));
  for (int step = 1; step <= job.total_steps; ++step) {
    hashes_.push_back(
        Fold(hashes_.back(), step, SamplesOf(step, 0, kGlobalBatch)));
  }
  committed_in_.assign(job.total_steps + 1, 0);
}

uint64_t Ledger::SamplesOf(int step, int first, int last) const {
  uint64_t sum = 0;
  for (int i = first; i < last; ++i) {
    sum += Mix(seed_ ^ static_cast<uint64_t>(step * kGlobalBatch + i));
  }
  return sum;
}

uint64_t Ledger::Fold(uint64_t hash, int step, uint64_t reduced) {
  return Mix(hash ^ Mix(reduced + static_cast<uint64_t>(step)));
}

void Ledger::Fail(Invariant invariant, std::string text) {
  if (!violation_.has_value()) violation_ = {invariant, std::move(text)};
}

Ledger::Generation& Ledger::At(int64_t generation) {
  if (generation >= static_cast<int64_t>(generations_.size())) {
    Generation none;
    none.prepared_slot.fill(-1);
    generations_.resize(generation + 1, none);
  }
  return generations_[generation];
}

// ---- The coordinator.

void Ledger::CheckMembers(const coordinator::GenerationFormedRecord& record) {
  uint32_t seen = 0;
  for (size_t i = 0; i < record.members.size(); ++i) {
    const int slot = SlotOf(record.members[i].worker);
    if (record.members[i].rank != static_cast<int>(i) || slot < 0 ||
        (seen & (1u << slot)) != 0) {
      Fail(Invariant::kUniqueRanks,
           absl::StrCat("generation ", record.generation, " has ",
                        record.members[i].worker, " as rank ",
                        record.members[i].rank, " in place ", i));
    }
    if (slot >= 0) seen |= 1u << slot;
  }
}

// Members that have been in the job before may stay.
void Ledger::CheckUnfit(const coordinator::GenerationFormedRecord& record) {
  for (size_t rank = 0; rank < record.members.size(); ++rank) {
    const coordinator::MemberIdentity& member = record.members[rank];
    const auto it = unfit_until_.find(member.host_key);
    if (record.since[rank] != record.generation || it == unfit_until_.end() ||
        it->second <= record.time) {
      continue;
    }
    Fail(Invariant::kUnfitLeftOut,
         absl::StrCat("generation ", record.generation, " takes ",
                      member.worker, " in, of host ", member.host_key,
                      ", where nobody could prepare"));
  }
}

// It alone had applied the step after `step`, and does not say so.
bool Ledger::IsLiarsSecret(int64_t step) const {
  return step == best_step_ - 1 && step_liar_ >= 0 &&
         applied_by_ == 1u << step_liar_;
}

void Ledger::OnFormation(const coordinator::GenerationFormedRecord& record,
                         bool has_survivor) {
  const int64_t newest = std::max(newest_durable_, newest_told_);
  if (record.generation <= newest) {
    Fail(Invariant::kMonotoneGenerations,
         absl::StrCat("generation ", record.generation, " is formed after ",
                      newest));
  }
  CheckMembers(record);
  CheckUnfit(record);
  if (++attempts_ > kMostAttempts) {
    Fail(Invariant::kFewAttempts,
         absl::StrCat("generation ", record.generation, " is number ",
                      attempts_, " without a step since step ", best_step_));
  }
  // It reads the checkpoint, though jobs with shards are not simulated to do so.
  const bool begins_from_files =
      record.resume_step == 0 && IsSaved() &&
      (record.is_rollback || shape_.holders == Holders::kRanks);
  if (record.resume_step >= best_step_ || begins_from_files) return;
  if (!record.is_rollback) {
    if (step_liar_ >= 0 &&
        (!has_survivor || IsLiarsSecret(record.resume_step))) {
      return;
    }
    Fail(Invariant::kNoStepLost,
         absl::StrCat("generation ", record.generation, " goes on after step ",
                      record.resume_step, ", but step ", best_step_,
                      " was committed"));
  } else if (has_survivor) {
    Fail(Invariant::kNoStepLost,
         absl::StrCat("generation ", record.generation,
                      " begins anew, but a live member holds step ",
                      best_step_));
  } else if (std::popcount(lost_holders_) < 2) {
    Fail(Invariant::kNoStepLost,
         absl::StrCat("generation ", record.generation,
                      " begins anew, but each shard was there twice as of "
                      "step ",
                      best_step_, ", and at most one holder was lost since"));
  }
}

void Ledger::RollBack(const coordinator::GenerationFormedRecord& record) {
  if (!given_up_.has_value() || newest_told_ >= given_up_->generation) {
    given_up_ = {record.generation, lineage_,    committed_in_,
                 best_step_,        saved_step_, lost_holders_};
  }
  ++lineage_;
  ++rollbacks_;
  // Simulated jobs with shards do not read it, and begin anew.
  if (shape_.holders != Holders::kRanks) saved_step_ = 0;
  best_step_ = std::max(static_cast<int>(record.resume_step), saved_step_);
  std::fill(committed_in_.begin() + best_step_ + 1, committed_in_.end(), 0);
  lost_holders_ = ~0u;
}

void Ledger::GiveUpAfter(int64_t step) {
  best_step_ = static_cast<int>(step);
  std::fill(committed_in_.begin() + best_step_ + 1, committed_in_.end(), 0);
}

void Ledger::TakeBack() {
  lineage_ = given_up_->lineage;
  committed_in_ = std::move(given_up_->committed_in);
  best_step_ = given_up_->best_step;
  saved_step_ = given_up_->saved_step;
  lost_holders_ = given_up_->lost_holders;
  given_up_.reset();
}

void Ledger::OnDurable(const coordinator::JournalRecord& record) {
  if (const auto* end = std::get_if<coordinator::JobEndedRecord>(&record)) {
    CheckEnd(*end);
    end_ = *end;
  }
  suspensions_ +=
      std::holds_alternative<coordinator::JobSuspendedRecord>(record);
  const auto* host = std::get_if<coordinator::HostQuarantinedRecord>(&record);
  if (host != nullptr && host->is_unfit) {
    absl::Time& until = unfit_until_[host->host_key];
    until = std::max(until, host->end_time);
  }
  const auto* formed =
      std::get_if<coordinator::GenerationFormedRecord>(&record);
  if (formed == nullptr) return;
  if (formed->is_rollback) {
    RollBack(*formed);
  } else if (formed->resume_step > best_step_ && given_up_.has_value() &&
             newest_told_ < given_up_->generation) {
    TakeBack();
  } else if (formed->resume_step < best_step_ && step_liar_ >= 0 &&
             !(formed->resume_step == 0 && IsSaved())) {
    GiveUpAfter(formed->resume_step);
  }
  // It goes on after what was believed.
  const bool may_follow_lie = std::exchange(may_know_of_lie_, false);
  newest_durable_ = std::max(newest_durable_, formed->generation);
  Generation& generation = At(formed->generation);
  if (generation.is_durable) {
    Fail(Invariant::kOneMembership,
         absl::StrCat("generation ", formed->generation, " is formed twice"));
  }
  generation.is_durable = true;
  generation.may_follow_lie = may_follow_lie;
  generation.lineage = lineage_;
  generation.resume_step = static_cast<int>(formed->resume_step);
  generation.size = static_cast<int>(formed->members.size());
  for (int rank = 0; rank < std::min(generation.size, kWorkers); ++rank) {
    generation.slots[rank] = SlotOf(formed->members[rank].worker);
    generation.lives[rank] = formed->members[rank].incarnation;
  }
}

bool Ledger::HoldsNewest(const Position& position) const {
  const auto generation = static_cast<size_t>(position.complete_generation);
  return generation < generations_.size() &&
         generations_[generation].lineage == lineage_ &&
         std::max(position.applied, position.complete) >= best_step_;
}

std::vector<std::pair<int, uint64_t>> Ledger::NewestMembers() const {
  std::vector<std::pair<int, uint64_t>> members;
  if (newest_durable_ == 0) return members;
  const Generation& newest = generations_[newest_durable_];
  for (int rank = 0; rank < newest.size; ++rank) {
    members.emplace_back(newest.slots[rank], newest.lives[rank]);
  }
  return members;
}

void Ledger::OnRecovered(int64_t last_generation) {
  if (last_generation < newest_told_) {
    Fail(Invariant::kMonotoneGenerations,
         absl::StrCat("the coordinator came back in generation ",
                      last_generation, ", but members were told of ",
                      newest_told_));
  }
}

void Ledger::OnAssignment(const coordinator::SendAssignment& assignment,
                          const coordinator::Job& job) {
  Generation& generation = At(assignment.generation);
  newest_told_ = std::max(newest_told_, assignment.generation);
  if (!generation.is_durable) {
    Fail(Invariant::kMonotoneGenerations,
         absl::StrCat("generation ", assignment.generation,
                      " is assigned before its record is durable"));
    return;
  }
  const int n = generation.size;
  const auto is_at = [&](const coordinator::MemberIdentity& member, int rank) {
    return member.rank == rank && rank >= 0 && rank < n &&
           SlotOf(member.worker) == generation.slots[rank] &&
           member.incarnation == generation.lives[rank];
  };
  const bool all_can = std::all_of(
      generation.lives.begin(), generation.lives.begin() + n,
      [](uint64_t life) {
        return ProtocolOfLife(life) >= coordinator::kIntegrityProtocol;
      });
  if ((assignment.integrity == v1::FRAME_INTEGRITY_CRC32C) != all_can) {
    Fail(Invariant::kOneMembership,
         absl::StrCat("generation ", assignment.generation,
                      all_can ? " does not check frames, and all members can"
                              : " checks frames, which not all members can"));
  }
  const int rank = assignment.self.rank;
  const auto workers = static_cast<int>(
      std::count_if(job.members.begin(), job.members.end(),
                    [](const coordinator::Member& member) {
                      return member.identity.role == v1::ROLE_WORKER;
                    }));
  if (assignment.world_size != workers || !is_at(assignment.self, rank) ||
      static_cast<int>(job.members.size()) != n ||
      !std::all_of(job.members.begin(), job.members.end(),
                   [&](const coordinator::Member& member) {
                     return is_at(member.identity,
                                  static_cast<int>(&member - &job.members[0]));
                   })) {
    Fail(Invariant::kOneMembership,
         absl::StrCat("generation ", assignment.generation, " is assigned to ",
                      assignment.self.worker, " as rank ", rank, " of ",
                      assignment.world_size, ", unlike its record"));
  }
}

void Ledger::OnMemberLost(const v1::Event& event, int64_t now, bool is_alive) {
  const int slot = SlotOf(event.worker());
  const bool is_for_word =
      event.has_verdict() && !event.verdict().evidence().empty() &&
      event.verdict().evidence(0).kind() == v1::EVIDENCE_KIND_FALSE_REPORT;
  // One that is back without a rank has no verdict.
  if (step_liar_ >= 0 && slot == step_liar_ &&
      (is_for_word || !event.has_verdict())) {
    return;
  }
  if (is_for_word && step_liar_ >= 0) {
    Fail(Invariant::kEvictionsHaveCause,
         absl::StrCat(event.worker(),
                      " was evicted for true words: ", event.message()));
  }
  if (event.has_verdict() && event.verdict().evidence().empty()) {
    Fail(Invariant::kEvictionsHaveCause,
         absl::StrCat(event.worker(),
                      " was evicted without evidence: ", event.message()));
  }
  // Links that failed count together as long as no step is committed, even if
  // one of them has come back.
  const bool is_for_link =
      event.has_verdict() &&
      std::any_of(event.verdict().evidence().begin(),
                  event.verdict().evidence().end(),
                  [](const v1::Evidence& evidence) {
                    return evidence.kind() == v1::EVIDENCE_KIND_PEER_REPORT;
                  });
  const int64_t since = is_for_link ? std::min(now, last_commit_) : now;
  // That it closed its links again and again counts for a while.
  const bool was_mute =
      faults_.WasMute(
          slot, since,
          absl::ToInt64Nanoseconds(coordinator::LinkFaults::kClosedWindow)) &&
      absl::StrContains(event.message(), "times in short succession");
  if (slot >= 0 && is_alive && !faults_.IsTouched(slot, since) && !was_mute) {
    if (((is_for_link && faults_.IsSomeoneMute(since)) ||
         faults_.LiesBesideAnother(since)) &&
        ++innocents_ <= kMostInnocents) {
      return;
    }
    Fail(Invariant::kEvictionsHaveCause,
         absl::StrCat(event.worker(),
                      " was evicted, but is live, reachable and not slow: ",
                      event.message()));
  }
}

void Ledger::OnContradiction(const std::vector<int>& slots,
                             std::string_view text) {
  const bool is_explained =
      step_liar_ >= 0 && std::any_of(slots.begin(), slots.end(), [&](int slot) {
        // The coordinator may know of a step from the liar.
        return slot == step_liar_ || (slot < 0 && may_know_of_lie_);
      });
  if (is_explained) return;
  Fail(Invariant::kEvictionsHaveCause,
       absl::StrCat("true words were not believed: ",
                    absl::string_view(text.data(), text.size())));
}

void Ledger::CheckEnd(const coordinator::JobEndedRecord& record) {
  if (record.state != v1::JOB_STATE_SUCCEEDED) {
    Fail(Invariant::kProgress,
         absl::StrCat("the job ended as ", EnumName(record.state), ", code ",
                      record.exit_code, ": ", record.message));
    return;
  }
  if (best_step_ != job_.total_steps ||
      record.parameters_hash != hashes_.back()) {
    Fail(Invariant::kEachSampleOnce,
         absl::StrCat("the job ended after ", best_step_, " of ",
                      job_.total_steps,
                      " steps, or with other parameters than undisturbed"));
  }
}

// ---- Workers.

void Ledger::OnPrepare(int slot, uint32_t life, int generation, int rank,
                       int world_size) {
  auto& [last_life, last_generation] = prepared_[slot];
  if (last_life == life && generation <= last_generation) {
    Fail(Invariant::kNoStaleMessage,
         absl::StrCat(WorkerName(slot), " prepares for generation ", generation,
                      " after ", last_generation));
  }
  last_life = life;
  last_generation = generation;
  Generation& at = At(generation);
  if (rank < 0 || rank >= world_size || world_size > kWorkers) {
    Fail(Invariant::kUniqueRanks,
         absl::StrCat(WorkerName(slot), " is rank ", rank, " of ", world_size));
    return;
  }
  int& holder = at.prepared_slot[rank];
  if (holder >= 0 && holder != slot) {
    Fail(Invariant::kUniqueRanks,
         absl::StrCat(WorkerName(slot), " and ", WorkerName(holder),
                      " are both rank ", rank, " of generation ", generation));
  }
  holder = slot;
}

void Ledger::OnResumeRefused(int slot, int generation, int resume_step,
                             const Position& position) {
  if (slot == step_liar_) return;  // by its own word
  Fail(Invariant::kOneGenerationPerStep,
       absl::StrCat(WorkerName(slot), " is to go on after step ", resume_step,
                    " in generation ", generation, ", but applied ",
                    position.applied, " and holds ", position.complete));
}

void Ledger::OnStateHeld(int generation, int rank, int step) {
  At(generation).complete[rank] = step;
}

void Ledger::OnLoaded(int generation, int step) {
  if (At(generation).lineage == lineage_)
    best_step_ = std::max(best_step_, step);
}

void Ledger::OnUnneeded(int generation, int rank) {
  OnStateHeld(generation, rank, job_.total_steps);
}

void Ledger::OnPulled(int generation, int step, int64_t now) {
  if (At(generation).lineage != lineage_ || step <= best_step_) return;
  // The generation before has made it, though no worker came to apply it.
  best_step_ = step;
  own_failures_ = innocents_ = attempts_ = 0;
  last_commit_ = now;
}

void Ledger::OnFrameTaken(int slot, int frame_generation, int own_generation) {
  if (frame_generation == own_generation) return;
  Fail(Invariant::kNoStaleMessage,
       absl::StrCat(WorkerName(slot), " in generation ", own_generation,
                    " took a frame of generation ", frame_generation));
}

void Ledger::OnComplete(int generation, int rank, int step) {
  int& complete = At(generation).complete[rank];
  complete = std::max(complete, step);
}

void Ledger::CheckCommit(int slot, int run_generation,
                         const Position& position) {
  const int step = position.applied;
  if (run_generation != 0) {
    const Generation& run = At(run_generation);
    for (int rank = 0; rank < run.size; ++rank) {
      if (run.complete[rank] >= step) continue;
      Fail(Invariant::kOneGenerationPerStep,
           absl::StrCat(WorkerName(slot), " applied step ", step,
                        " in generation ", run_generation, ", but rank ", rank,
                        " holds only ", run.complete[rank]));
    }
    for (int64_t next = run_generation + 1; next <= newest_durable_; ++next) {
      const Generation& newer = At(next);
      if (newer.is_durable && newer.resume_step < step &&
          !newer.may_follow_lie) {
        Fail(
            Invariant::kOneGenerationPerStep,
            absl::StrCat(WorkerName(slot), " applied step ", step,
                         " in generation ", run_generation, ", but generation ",
                         next, " went on after ", newer.resume_step));
      }
    }
  }
  int& committed_in = committed_in_[step];
  if (committed_in == 0) committed_in = position.complete_generation;
  if (committed_in != position.complete_generation) {
    Fail(Invariant::kOneGenerationPerStep,
         absl::StrCat("step ", step, " committed under generations ",
                      committed_in, " and ", position.complete_generation));
  }
}

void Ledger::OnApply(int slot, int run_generation, const Position& position,
                     int64_t now) {
  const int step = position.applied;
  if (At(position.complete_generation).lineage == lineage_) {
    CheckCommit(slot, run_generation, position);
    if (step > best_step_) applied_by_ = 0;
    if (step >= best_step_) applied_by_ |= 1u << slot;
    if (step > best_step_) {
      best_step_ = step;
      own_failures_ = innocents_ = attempts_ = 0;
      ++commits_;
      Generation& run = At(run_generation != 0 ? run_generation
                                               : position.complete_generation);
      if (run_generation != 0 && !run.has_committed) {
        run.has_committed = true;
        if (last_commit_ != 0) interruptions_.push_back(now - last_commit_);
      }
      last_commit_ = now;
    }
  }
  if (position.hash != hashes_[step]) {
    Fail(Invariant::kEachSampleOnce,
         absl::StrCat(WorkerName(slot), " holds other parameters after step ",
                      step, " than the undisturbed run"));
  }
}

// ---- Holders of shards.

void Ledger::OnHolderLost(int slot) {
  if (shape_.IsHolder(slot)) lost_holders_ |= 1u << slot;
}

}  // namespace ringmaster::simulator
