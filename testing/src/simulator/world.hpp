#pragma once

#include <cstdint>
#include <queue>
#include <string_view>
#include <vector>

#include <pharos/async/unique_function.hpp>
#include <pharos/base/clock.hpp>

#include "simulator/lots.hpp"
#include "simulator/trace.hpp"

namespace pharos::simulator {

/// One clock, one queue of events and one seed. All events of a simulated cluster run here one after the other, ordered
/// by time; the seed draws the order of events at the same time. The clock moves only from event to event.
/// A real process has one World at a time, and uses it from one thread.
class World final : public Clock {
 public:
  explicit World(std::uint64_t seed);
  World(World&&) = delete;
  ~World() override;

  /// The present World; there must be one.
  static World& of_this_program();

  TimePoint now() const override { return now_; }
  Lots& lots() { return lots_; }
  Trace& trace() { return trace_; }
  void note(std::string_view who, std::string_view what, std::uint64_t a = 0, std::uint64_t b = 0) {
    trace_.note(now_, who, what, a, b);
  }

  void at(TimePoint when, async::Callback happen);
  void after(Duration time, async::Callback happen) { at(now_ + time, std::move(happen)); }

  /// Runs the next event. Returns false if there is none.
  bool step();
  /// Runs events until none is left or `time` has passed.
  void run_for(Duration time);
  std::uint64_t steps() const { return steps_; }
  /// Drops all events that have not run.
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
