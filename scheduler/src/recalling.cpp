#include <algorithm>
#include <compare>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include <pharos/scheduler/leases.hpp>

namespace pharos::scheduler {
namespace {

/// How much of a node these amounts are, for comparing programs. Never 0.
std::int64_t weight_of(const Resources& amounts) {
  return amounts.cpus() + amounts.gpus() + 1;
}

/// Returns whether `held` would bring a request for `wanted` nearer to what it needs, when `left` is left.
bool helps(const Allotment& wanted, const Allotment& held, const ResourceLedger& left) {
  const auto& names = wanted.amounts.amounts();
  const bool brings_what_is_short = std::any_of(names.begin(), names.end(), [&](const auto& entry) {
    const auto& [name, amount] = entry;
    return name != "gpu" && amount > left.left().of(name) && held.amounts.of(name) > 0;
  });
  if (brings_what_is_short) return true;
  if (wanted.gpus.empty()) return wanted.amounts.gpus() != 0 && !held.gpus.empty();
  return std::any_of(held.gpus.begin(), held.gpus.end(), [&](const GpuShare& share) {
    return std::any_of(wanted.gpus.begin(), wanted.gpus.end(),
                       [&](const GpuShare& each) { return each.index == share.index; });
  });
}

}  // namespace

/// One pass over the requests that wait, in their order, and over the leases that could be recalled for them.
class Leases::Recalling {
 public:
  Recalling(Leases& leases, TimePoint now);

  void look_at(const Reserving& reserving);
  /// Returns true if leases are recalled for this request and it must move to the front of the queue.
  bool look_at(const Resources& demand, const Waiting& waiting);
  void recall_all();
  LeaseEffects effects();

 private:
  struct Lease {
    TimePoint since;
    WorkerId worker;
    const Allotment* allotment;
    friend auto operator<=>(const Lease& a, const Lease& b) {
      return std::tuple{a.since, a.worker.value()} <=> std::tuple{b.since, b.worker.value()};
    }
  };
  struct Alike {
    Lessee lessee;
    std::vector<Lease> leases;  // of workers that are not blocked, the oldest first
    std::size_t recalled = 0;   // how many are recalled: the first ones
    bool is_told = false;       // its lessee must be told
  };
  struct Share {
    std::int64_t of_job = 0;
    std::int64_t of_caller = 0;
    friend auto operator<=>(const Share&, const Share&) = default;
  };

  void gather();
  bool is_patient(TimePoint since) const { return now_ - since < kWaitBeforeRecall; }
  void count(const Lessee& lessee, std::int64_t weight);
  bool may_have(const Lessee& who, std::int64_t weight, const Alike& from);
  Alike* choose(const Lessee* who, const Allotment& wanted);
  void recall_one(Alike& from);
  void take_back(Alike& from);
  void set_aside(const Resources& demand);
  bool is_needed(const Kind& kind) const;

  Leases& leases_;
  const TimePoint now_;
  // The resources that are left when all recalled leases have been returned and all earlier requests have been served.
  ResourceLedger left_;
  std::map<Kind, Alike> all_;
  std::map<JobId, std::int64_t> of_jobs_;  // weight of what runs
  // Also counts workers that wait for other tasks, because those may be tasks of the same caller.
  std::map<CallerId, std::int64_t> of_callers_;
};

Leases::Recalling::Recalling(Leases& leases, TimePoint now) : leases_{leases}, now_{now}, left_{leases.ledger_} {
  gather();
  for (const auto& [worker, allotment] : leases_.ending_) left_.give_back(allotment);
  for (auto& [kind, alike] : all_) {
    std::sort(alike.leases.begin(), alike.leases.end());
    const auto recalled = leases_.recalled_.find(kind);
    if (recalled == leases_.recalled_.end()) continue;
    auto& [how_many, since] = recalled->second;
    alike.recalled = how_many = std::min(how_many, alike.leases.size());
    if (now_ - since >= kSayAgainTime && how_many == alike.leases.size()) alike.is_told = true;
    if (now_ - since >= kAnswerTime) continue;  // they take long, so other leases are recalled too
    for (std::size_t i = 0; i < how_many; ++i) {
      left_.give_back(*alike.leases[i].allotment);
      count(alike.lessee, -weight_of(kind.second));
    }
  }
}

void Leases::Recalling::gather() {
  for (const auto& [request, leased] : leases_.starting_) count(leased.lessee, weight_of(leased.allotment.amounts));
  for (const auto& [worker, leased] : leases_.leased_) {
    const std::int64_t weight = weight_of(leased.allotment.amounts);
    if (leased.blocked) {
      of_callers_[leased.lessee.caller] += weight;
      continue;
    }
    count(leased.lessee, weight);
    Alike& alike = all_[{leased.lessee.caller, leased.allotment.amounts}];
    alike.lessee = leased.lessee;
    alike.leases.push_back({leased.since, worker, &leased.allotment});
  }
}

void Leases::Recalling::count(const Lessee& lessee, std::int64_t weight) {
  of_jobs_[lessee.job] += weight;
  of_callers_[lessee.caller] += weight;
}

// The head has checked that the reservation has room if all tasks give back what they have.
void Leases::Recalling::look_at(const Reserving& reserving) {
  while (!is_patient(reserving.since) && !left_.fits(reserving.allotment)) {
    Alike* const from = choose(nullptr, reserving.allotment);
    if (from == nullptr) break;
    recall_one(*from);
    from->is_told = true;
  }
  left_.take(reserving.allotment);
}

bool Leases::Recalling::look_at(const Resources& demand, const Waiting& waiting) {
  const Allotment wanted{demand, {}};
  std::vector<Alike*> recalled;
  while (!left_.fits(demand)) {
    Alike* const from = waiting.first || !is_patient(waiting.since) ? choose(&waiting.lessee, wanted) : nullptr;
    if (from == nullptr) {  // recalls that do not make enough room are cancelled
      for (auto each = recalled.rbegin(); each != recalled.rend(); ++each) take_back(**each);
      set_aside(demand);
      return false;
    }
    recall_one(*from);
    recalled.push_back(from);
  }
  left_.take(demand);
  count(waiting.lessee, weight_of(demand));
  for (Alike* const each : recalled) each->is_told = true;
  return !recalled.empty() && !waiting.first;
}

void Leases::Recalling::recall_all() {
  for (auto& [kind, alike] : all_) {
    if (alike.recalled == alike.leases.size()) continue;
    alike.recalled = alike.leases.size();
    alike.is_told = true;
  }
}

// Sets aside from the requests behind only as much as is left.
void Leases::Recalling::set_aside(const Resources& demand) {
  Resources::Amounts amounts;
  for (const auto& [name, amount] : demand.amounts()) {
    const std::int64_t there = std::min(amount, left_.left().of(name));
    if (there > 0) amounts.emplace(name, there);
  }
  left_.take(Allotment{Resources{std::move(amounts)}, {}});
}

// Returns whether `who` may have a lease of `from`. A lessee that has no more than `who` keeps its leases, and leases
// do not move back and forth: after the move `who` may have at most as much as the other lessee then has, unless `who`
// has nothing yet.
bool Leases::Recalling::may_have(const Lessee& who, std::int64_t weight, const Alike& from) {
  const bool other_job = who.job != from.lessee.job;
  if (!other_job && who.caller == from.lessee.caller) return false;
  const std::int64_t mine = other_job ? of_jobs_[who.job] : of_callers_[who.caller];
  const std::int64_t theirs = other_job ? of_jobs_[from.lessee.job] : of_callers_[from.lessee.caller];
  const std::int64_t less = weight_of(from.leases.front().allotment->amounts);
  return mine == 0 || mine + weight <= theirs - less;
}

/// Chooses the lessee of which a lease is recalled: the one with the largest share, and of equals the one with the
/// oldest lease. Returns nullptr if no lease that may be recalled would help.
Leases::Recalling::Alike* Leases::Recalling::choose(const Lessee* who, const Allotment& wanted) {
  Alike* best = nullptr;
  Share most;
  for (auto& [kind, alike] : all_) {
    if (alike.recalled == alike.leases.size()) continue;
    const Lease& next = alike.leases[alike.recalled];
    const Duration least = next.allotment->gpus.empty() ? kLeaseMin : kGpuLeaseMin;
    if (now_ - next.since < least || !helps(wanted, *next.allotment, left_)) continue;
    if (who != nullptr && !may_have(*who, weight_of(wanted.amounts), alike)) continue;
    const Share share{of_jobs_[alike.lessee.job], of_callers_[alike.lessee.caller]};
    const bool is_better = best == nullptr || share > most || (share == most && next < best->leases[best->recalled]);
    if (!is_better) continue;
    best = &alike;
    most = share;
  }
  return best;
}

void Leases::Recalling::recall_one(Alike& from) {
  const Allotment& allotment = *from.leases[from.recalled++].allotment;
  left_.give_back(allotment);
  count(from.lessee, -weight_of(allotment.amounts));
}

void Leases::Recalling::take_back(Alike& from) {
  const Allotment& allotment = *from.leases[--from.recalled].allotment;
  left_.take(allotment);
  count(from.lessee, weight_of(allotment.amounts));
}

/// Returns whether a reservation or a request of another caller still waits.
bool Leases::Recalling::is_needed(const Kind& kind) const {
  const auto is_other = [&](const Waiting& waiting) { return waiting.lessee.caller != kind.first; };
  return leases_.closed_ || !leases_.reserving_.empty() || leases_.waiting_.any_of(is_other);
}

LeaseEffects Leases::Recalling::effects() {
  LeaseEffects effects;
  std::erase_if(leases_.recalled_, [this](const auto& recalled) { return !all_.contains(recalled.first); });
  for (auto& [kind, alike] : all_) {
    if (alike.recalled != 0 && !is_needed(kind)) {
      alike.recalled = 0;
      alike.is_told = true;
    }
    Recalled& recalled = leases_.recalled_[kind];
    if (alike.is_told) {
      recalled = {alike.recalled, now_};
      Recall recall{{}, alike.recalled};
      for (const Lease& lease : alike.leases) recall.workers.push_back(lease.worker);
      effects.emplace_back(std::move(recall));
    }
    if (recalled.count == 0) leases_.recalled_.erase(kind);
  }
  return effects;
}

LeaseEffects Leases::recall(TimePoint now) {
  now_ = now;
  if (!has_to_recall()) return {};
  Recalling recalling{*this, now};
  for (const Reserving& each : reserving_) recalling.look_at(each);
  waiting_.put_first_if([&](const Resources& demand, Waiting& waiting) {
    const bool goes_first = recalling.look_at(demand, waiting);
    waiting.first = waiting.first || goes_first;
    return goes_first;
  });
  if (closed_) recalling.recall_all();
  return recalling.effects();
}

bool Leases::others_wait() const {
  if (!reserving_.empty() || (closed_ && !leased_.empty())) return true;
  if (waiting_.empty() || leased_.empty()) return false;
  const CallerId some = leased_.begin()->second.lessee.caller;
  const auto is_other = [some](const auto& each) { return each.lessee.caller != some; };
  return std::any_of(leased_.begin(), leased_.end(), [&](const auto& entry) { return is_other(entry.second); }) ||
         waiting_.any_of(is_other);
}

bool Leases::has_to_recall() const {
  return !recalled_.empty() || others_wait();
}

void Leases::note_returned(const Leased& leased) {
  if (leased.blocked) return;  // blocked workers are never recalled
  const auto recalled = recalled_.find({leased.lessee.caller, leased.allotment.amounts});
  if (recalled != recalled_.end() && --recalled->second.count == 0) recalled_.erase(recalled);
}

}  // namespace pharos::scheduler
