#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include <pharos/base/clock.hpp>
#include <pharos/base/result.hpp>
#include <pharos/ml/trial_worker.hpp>

namespace pharos::ml {

/// The slots in which trials run; a slot runs one trial at a time. Owned by the caller of run_sweep(); one thread. What
/// goes wrong in a slot is a message of wait(). Errors that concern the whole sweep are exceptions, which end it:
/// workers cannot be made at all, or there is no room for a checkpoint.
class TrialSlots {
 public:
  struct Ready {};  // the slot can be given a trial
  /// Error: the slot's workers are gone, or the objective has thrown in a group (kUserError). The slot sends nothing
  /// more until it is replaced.
  using Heard = std::variant<Ready, std::vector<detail::TrialEvent>, Error>;
  struct Message {
    std::size_t slot;
    Heard heard;
  };

  TrialSlots() = default;
  TrialSlots(TrialSlots&&) = delete;
  virtual ~TrialSlots() = default;

  virtual TimePoint now() const = 0;
  /// The longest time between two looks at what does not come from slots: written files and Ctrl-C.
  virtual Duration look_time() const { return std::chrono::milliseconds{100}; }
  /// Says how many trials could run. Slots become ready when there is room for them. No slot goes away again.
  virtual void want(std::size_t slots) = 0;
  /// Starts a trial in a slot that is ready. Does not wait for it.
  virtual void start(std::size_t slot, detail::TrialStart start) = 0;
  /// Returns whether another trial may be started in the slot while one runs; it then begins when the first one ends.
  virtual bool takes_another(std::size_t slot) const = 0;
  /// Sends what the trial in the slot waits for: a parameter, or the verdict on its report.
  virtual void answer(std::size_t slot, detail::TrialOrder order) = 0;
  /// Tells the trial in the slot to stop at its next report.
  virtual void stop(std::size_t slot) = 0;
  /// Kills the workers of the slot, whatever they do, drops their messages, and makes new ones.
  virtual void replace(std::size_t slot) = 0;
  /// Waits for messages at most until that time. May return earlier without a message.
  virtual std::vector<Message> wait(TimePoint until) = 0;

  // The last checkpoint of each trial. kept() returns nullopt if there is none, or if it was lost.
  virtual void keep(std::uint64_t trial, const Bytes& checkpoint) = 0;
  virtual std::optional<Bytes> kept(std::uint64_t trial) = 0;
  virtual void forget(std::uint64_t trial) = 0;
};

}  // namespace pharos::ml
