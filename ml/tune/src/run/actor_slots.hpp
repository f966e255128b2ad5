#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include <pharos/actors/wait.hpp>
#include <pharos/ml/trial_workers.hpp>

#include "run/slots.hpp"

namespace pharos::ml {

/// Slots that are groups of actors, one group for each slot. There are as many slots as trials want and as the cluster
/// has room for: some more groups are requested than are ready, and become ready when there is room. Owned by
/// Tuner::run(); one thread. The Runtime must outlive it. want() and replace() throw what Runtime::spawn_group()
/// throws, and keep() throws Exhausted if the object store is full. wait() connects the actors of a group that has
/// become ready, and takes no other messages meanwhile. The destructor ends the actors of idle slots and kills all
/// others, without a wait; the checkpoints that it keeps in the object store are dropped.
class ActorSlots final : public TrialSlots {
 public:
  struct Limits {
    std::size_t at_once = 0;    // 0: as many slots as there is room for
    bool shares_cores = false;  // running trials may use the cores of idle slots; each trial must have one worker
  };
  ActorSlots(Runtime& runtime, detail::MakeTrialWorkers make, ActorGroupOptions group, Limits limits);
  ~ActorSlots() override;

  TimePoint now() const override { return std::chrono::steady_clock::now(); }
  void want(std::size_t slots) override;
  void start(std::size_t slot, detail::TrialStart start) override;
  bool takes_another(std::size_t slot) const override {
    return group_.size == 1 && !slots_[slot].workers->may_report();
  }
  void answer(std::size_t slot, detail::TrialOrder order) override;
  void stop(std::size_t slot) override;
  void replace(std::size_t slot) override;
  std::vector<Message> wait(TimePoint until) override;

  void keep(std::uint64_t trial, const Bytes& checkpoint) override;
  std::optional<Bytes> kept(std::uint64_t trial) override;
  void forget(std::uint64_t trial) override { kept_.erase(trial); }

 private:
  struct Slot {
    std::unique_ptr<detail::TrialWorkers> workers;
    bool ready = false;
    bool lost = false;
    std::size_t to_end = 0;                  // objectives that have not returned: one for each worker of each trial
    std::optional<detail::TrialEnds> end{};  // the first worker's end, until all workers have returned
    std::optional<Error> threw{};  // the first exception in a group; another worker's death may have caused it
    TimePoint threw_at{};
    std::uint64_t node = 0;   // 0: not known yet
    std::uint32_t cores = 0;  // number of cores that the worker was told; 0: it has only its own
  };
  /// The call to which an awaited result belongs.
  struct Awaited {
    enum class What : std::uint8_t { kReady, kNode, kEvents };
    std::size_t slot;
    What what;
    std::size_t worker = 0;
  };

  void make(std::size_t slot);
  void await(pharos::detail::CellHandle cell, Awaited what);
  void next(std::size_t slot, std::size_t worker, const detail::TrialOrder& order);
  void share_cores();
  std::optional<Heard> heard(const pharos::detail::CellHandle& cell, const Awaited& from);
  Heard lose(Slot& slot, Error why);
  void take_throws(std::vector<Message>& messages);
  std::optional<Heard> take(Slot& slot, const Awaited& from, std::vector<detail::TrialEvent> events);
  std::optional<Heard> take_end(Slot& slot, std::size_t worker, const detail::TrialEnds& end,
                                std::vector<detail::TrialEvent> before);

  Runtime& runtime_;
  const detail::MakeTrialWorkers make_;
  const ActorGroupOptions group_;
  const Limits limits_;
  std::vector<Slot> slots_;
  std::size_t ready_ = 0;
  bool any_threw_ = false;
  TimePoint shares_at_{};
  std::map<std::uint64_t, Ref<Bytes>> kept_;
  std::unordered_map<const pharos::detail::ResultCell*, Awaited> awaited_;
  pharos::detail::ReadyQueue queue_;
};

}  // namespace pharos::ml
