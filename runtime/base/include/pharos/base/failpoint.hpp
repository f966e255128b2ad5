#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

#include <pharos/base/export.hpp>
#include <pharos/base/result.hpp>

/// A failpoint is a place in the code where a test can kill or stop the process, or make the step fail. Each module
/// declares its own failpoints in its header failpoints.hpp, with names that are unique in the whole program:
///
///   inline constexpr Failpoint kSlotBegun{"slot_begun"};  ///< a new object has a slot, but may have no memory
///
/// The code passes it with `failpoint(failpoints::kSlotBegun);`. A failpoint that no order names costs a load and a
/// branch. Tests give an order to their own process with order_failpoint(), and to a daemon with the variable
/// PHAROS_FAILPOINT.
///
/// Each process that acts at a failpoint adds its name to the file that the variable PHAROS_FAILPOINTS_REACHED names.
/// `./test` fails if no test has let a process act at one of them. The tests are store_deaths_test.cpp,
/// far_objects_test.cpp, head_deaths_test.cpp and run_command_test.cpp in tests/cluster,
/// tests/collective/failpoints_test.cpp for ranks, interrupted_test.cpp and saving_test.cpp in tests/checkpoint,
/// tests/trainer for trainings, and tests/process/keeper_test.cpp.
namespace pharos {

/// The identity of a failpoint: a hash of its name. A program and the libraries that it loads agree on it.
enum class FailpointId : std::uint64_t { kNone = 0 };

/// A place in the code. A constant.
class Failpoint {
 public:
  /// The name must outlive the failpoint, as a literal does.
  constexpr explicit Failpoint(std::string_view name) : name_{name}, id_{id_of(name)} {}

  /// The name in orders: "slot_begun".
  constexpr std::string_view name() const { return name_; }
  constexpr operator FailpointId() const { return id_; }

  static constexpr FailpointId id_of(std::string_view name) {
    std::uint64_t hash = 14695981039346656037U;  // FNV-1a
    for (const char each : name) hash = (hash ^ static_cast<unsigned char>(each)) * 1099511628211U;
    return FailpointId{hash};
  }

 private:
  std::string_view name_;
  FailpointId id_;
};

/// An order to do something at a failpoint. kStop sends SIGSTOP once. kFail makes every later pass fail, and kFailOnce
/// only one; both have an effect only where the code looks at the result of failpoint().
struct FailpointOrder {
  enum class Action : std::uint8_t { kKill, kStop, kFail, kFailOnce };

  FailpointId at = FailpointId::kNone;
  Action action = Action::kKill;
  std::uint32_t passes = 0;  ///< how often the process passes the failpoint before the action
};
/// Parses NAME:ACTION or NAME:ACTION:PASSES, such as "slot_begun:kill:3"; the action is kill, stop, fail or fail_once.
/// Returns kInvalidArgument for any other text. Does not know which names there are: an order with another name has no
/// effect.
PHAROS_API Result<FailpointOrder> parse_failpoint(std::string_view text);
/// Gives this process an order, which replaces the order before. An order with FailpointId::kNone cancels. Children
/// that are forked inherit the order. Any thread, but a thread that passes the failpoint of the order before at the
/// same moment may do what the new order says.
PHAROS_API void order_failpoint(const FailpointOrder& order);

namespace detail {
PHAROS_API extern std::atomic<FailpointId> ordered_failpoint;
/// Called at the ordered failpoint, which has this name. Returns true if the step must fail.
PHAROS_API bool reach(std::string_view name);
}  // namespace detail

/// Marks a place in the code as this failpoint. Returns true if the step must fail. Any thread.
inline bool failpoint(const Failpoint& at) {
  return detail::ordered_failpoint.load(std::memory_order_relaxed) == at && detail::reach(at.name());
}

}  // namespace pharos
