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

/// Where trials run: slots, each of which runs one at a time. Owned by the tuner; one thread.
class TrialSlots {
 public:
  struct Ready {};  // it can be given a trial
  /// Error: what it had is gone. It says nothing more until it is replaced.
  using Heard = std::variant<Ready, std::vector<detail::TrialEvent>, Error>;
  struct Message {
    std::size_t slot;
    Heard heard;
  };

  TrialSlots() = default;
  TrialSlots(TrialSlots&&) = delete;
  virtual ~TrialSlots() = default;

  virtual TimePoint now() const = 0;
  /// Between two looks at what no slot tells: files, Ctrl-C.
  virtual Duration look_time() const { return std::chrono::milliseconds{100}; }
  /// That many trials could run. Slots come when there is room for them.
  virtual void want(std::size_t slots) = 0;
  virtual void start(std::size_t slot, detail::TrialStart start) = 0;
  /// Another one may be started there while one runs, and begins at once when that ends.
  virtual bool takes_another(std::size_t slot) const = 0;
  virtual void answer(std::size_t slot, detail::TrialOrder order) = 0;
  /// The trial there is to stop at its next report.
  virtual void stop(std::size_t slot) = 0;
  /// Ends what is there, whatever it does, and makes another one.
  virtual void replace(std::size_t slot) = 0;
  /// One message at least, unless the time comes first.
  virtual std::vector<Message> wait(TimePoint until) = 0;

  // What trials have saved.
  virtual void keep(std::uint64_t trial, const Bytes& checkpoint) = 0;
  virtual std::optional<Bytes> kept(std::uint64_t trial) = 0;
  virtual void forget(std::uint64_t trial) = 0;
};

}  // namespace pharos::ml
