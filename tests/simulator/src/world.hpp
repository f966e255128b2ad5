#pragma once

#include <cstdint>
#include <queue>
#include <string_view>
#include <vector>

#include <pharos/async/unique_function.hpp>
#include <pharos/base/clock.hpp>

#include "lots.hpp"
#include "trace.hpp"

namespace pharos::simulator {

/// One clock, one queue of events, one seed: all that happens in a simulated cluster happens here, one after the other,
/// by time and then as the seed draws. Time goes on only from event to event.
/// One at a time in a process, and one thread.
class World final : public Clock {
 public:
  explicit World(std::uint64_t seed);
  World(World&&) = delete;
  ~World() override;

  /// The one that there is.
  static World& of_this_program();

  TimePoint now() const override { return now_; }
  Lots& lots() { return lots_; }
  Trace& trace() { return trace_; }
  void note(std::string_view who, std::string_view what, std::uint64_t a = 0, std::uint64_t b = 0) {
    trace_.note(now_, who, what, a, b);
  }

  void at(TimePoint when, async::Callback happen);
  void after(Duration time, async::Callback happen) { at(now_ + time, std::move(happen)); }

  /// Lets the next event happen. False when there is none.
  bool step();
  /// Until nothing is left or that much time has passed.
  void run_for(Duration time);
  std::uint64_t steps() const { return steps_; }
  /// Nothing that was to happen will.
  void forget_events() { events_ = {}; }

 private:
  struct Event {
    TimePoint when;
    std::uint64_t lot;
    std::uint64_t number;
    mutable async::Callback happen;
    bool operator>(const Event& other) const;
  };

  Lots lots_;
  Trace trace_;
  TimePoint now_{std::chrono::hours{1}};
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::uint64_t last_number_ = 0;
  std::uint64_t steps_ = 0;
};

}  // namespace pharos::simulator
