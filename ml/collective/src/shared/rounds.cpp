#include "shared/rounds.hpp"

#include <algorithm>
#include <utility>

#include <pharos/ml/collective/failpoints.hpp>

namespace pharos::ml {

using Phase = Meeting::Phase;

Rounds::Rounds(Meeting& meeting, const SharedWindows& windows, std::size_t sets)
    : meeting_{meeting}, windows_{windows}, sets_(sets) {}

std::shared_ptr<RoundOperation> Rounds::begin(const detail::Step& step, const detail::Places& places, bool is_held) {
  auto operation = std::make_shared<RoundOperation>(step, places, meeting_.rank(), meeting_.ranks());
  operation->is_held = is_held;
  operation->staging_set = is_held ? 1 : 0;
  if (const auto bytes = operation->may_be_in_place(); !bytes.empty()) {
    if (const std::uint32_t window = windows_.window_of(bytes.data(), bytes.size()); window != 0) {
      const std::byte* const own = windows_.places(window)[meeting_.rank()];
      operation->go_in_place(window, static_cast<std::size_t>(bytes.data() - own));
    }
  }
  running_.push_back(operation);
  operation->first_round = last_round_ + 1;
  last_round_ += operation->rounds();
  return operation;
}

Result<void> Rounds::advance() {
  for (const auto& each : running_) PHAROS_TRY_VOID(advance(*each));
  std::erase_if(running_, [](const auto& each) { return each->ended; });
  return {};
}

/// Returns when the operation has ended or waits for other ranks.
Result<void> Rounds::advance(RoundOperation& operation) {
  while (!operation.ended) {
    if (!operation.phase && !enter(operation)) return {};
    if (!meeting_.all_have(operation.round(), *operation.phase)) return {};
    if (operation.phase == Phase::kEntered) {
      PHAROS_TRY_VOID(meeting_.check_agreement(operation.round()));
      do_work(operation);
    } else {
      if (operation.way() == RoundOperation::Way::kTwoShot) operation.take_reduced(operation.staging);
      meeting_.reach(operation.round(), Phase::kLeft);
      operation.next_round();
    }
  }
  return {};
}

bool Rounds::enter(RoundOperation& operation) {
  if (operation.is_held) return false;
  if (operation.uses_staging() && !is_next_to_stage(operation)) return false;
  if (!meeting_.is_there(awaited(operation))) return false;
  Said said = operation.said();
  if (operation.uses_staging()) {
    StagingSet& set = sets_[operation.staging_set];
    const std::size_t buffer = set.given++ % kStagings;
    set.rounds[buffer] = operation.round();
    said.offset = (operation.staging_set * kStagings + buffer) * RoundOperation::kStagingBytes;
    operation.staging = windows_.places(kStagingWindow)[meeting_.rank()] + said.offset;
    operation.stage(operation.staging);
  }
  failpoint(failpoints::kDataGiven);
  meeting_.enter(operation.round(), said);
  operation.phase = Phase::kEntered;
  return true;
}

/// Staging buffers are given in the order of the operations. Otherwise an operation that other ranks have not begun
/// could hold a buffer that an earlier operation needs, for which the other ranks wait.
bool Rounds::is_next_to_stage(const RoundOperation& operation) const {
  for (const auto& each : running_) {
    if (&*each == &operation) return true;
    const bool has_to_stage = !each->ended && (!each->phase || !each->is_last_round());
    if (each->staging_set == operation.staging_set && each->uses_staging() && has_to_stage) return false;
  }
  return true;
}

/// All ranks have entered the round: does this rank's work in it.
void Rounds::do_work(RoundOperation& operation) {
  if (operation.way() != RoundOperation::Way::kOneShot) {
    if (operation.way() == RoundOperation::Way::kInPlace) {
      operation.reduce_part(windows_.places(operation.window()));
    } else {
      operation.reduce_part(staging_of_all(operation));
    }
    failpoint(failpoints::kPartReduced);
    meeting_.reach(operation.round(), Phase::kReduced);
    operation.phase = Phase::kReduced;
    return;
  }
  if (operation.is_small()) {
    std::vector<Said> said;
    for (std::uint32_t each = 0; each < meeting_.ranks(); ++each) {
      said.push_back(meeting_.said(operation.round(), each));
    }
    operation.take_said(said);
  } else if (operation.uses_staging()) {
    operation.take_staged(staging_of_all(operation));
  }
  failpoint(failpoints::kResultTaken);
  meeting_.reach(operation.round(), Phase::kLeft);
  operation.next_round();
}

/// The staging buffers of all ranks for the present round. They have the same offset on every rank, because all ranks
/// give their buffers in the same order.
std::vector<std::byte*> Rounds::staging_of_all(const RoundOperation& operation) const {
  const auto places = windows_.places(kStagingWindow);
  const auto offset = static_cast<std::size_t>(operation.staging - places[meeting_.rank()]);
  std::vector<std::byte*> all;
  for (std::byte* const place : places) all.push_back(place + offset);
  return all;
}

// ---- Waiting

Meeting::Awaited Rounds::awaited(const RoundOperation& operation) const {
  if (operation.phase) return {.number = operation.round(), .phase = *operation.phase};
  if (operation.round() > Meeting::kSlots) {
    const std::uint64_t before = operation.round() - Meeting::kSlots;
    if (!meeting_.all_have(before, Phase::kLeft)) return {.number = before};
  }
  const StagingSet& set = sets_[operation.staging_set];
  return {.number = operation.uses_staging() ? set.rounds[set.given % kStagings] : 0};
}

void Rounds::add_awaited(std::vector<Meeting::Awaited>& all) const {
  for (const auto& each : running_) {
    const bool has_its_turn = each->phase || !each->uses_staging() || is_next_to_stage(*each);
    if (!each->is_held && has_its_turn) all.push_back(awaited(*each));
  }
}

}  // namespace pharos::ml
