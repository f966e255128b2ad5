#include "thrower.hpp"

#include <algorithm>
#include <array>
#include <mutex>
#include <span>
#include <typeinfo>
#include <unordered_map>
#include <utility>

#include <pharos/base/thread_local.hpp>
#include <pharos/process/backtrace.hpp>

#include "function_table.hpp"
#include "running_call.hpp"

namespace pharos::actors {
namespace {

constexpr std::size_t kDepth = 32;  // of which the unwinder and the C++ library take some
constexpr std::size_t kPlacesMax = 4096;

struct Thrown {
  std::array<process::StackAddress, kDepth> stack;
  std::size_t depth = 0;
};

Thrown& thrown() {
  thread_local Thrown instance;
  return instance;
}

/// What an address is for people.
struct Place {
  std::string text;         // empty for one of the runtime's
  bool calls_user = false;  // the compiler may have put the user's function into it
};

// Symbols are looked up once for each place: who throws in every call throws from few.
struct Places {
  std::mutex mutex;
  std::unordered_map<std::uintptr_t, Place> known;
};
Places& places() {
  static auto* const instance = new Places;  // threads of a dying process may still look
  return *instance;
}

Place place_of(std::uintptr_t address) {
  Places& all = places();
  const std::lock_guard lock{all.mutex};
  if (const auto found = all.known.find(address); found != all.known.end()) return found->second;
  Place place;
  for (const process::Frame& frame : process::symbolize(address)) {
    if (!frame.of_runtime() && place.text.empty()) place.text = frame.to_string();
    place.calls_user = place.calls_user || (!frame.of_pharos() && frame.name.starts_with("_ZN6pharos6detail"));
  }
  if (all.known.size() < kPlacesMax) all.known.emplace(address, place);
  return place;
}

}  // namespace

/// The type of Thrower, as the C++ library asks it whether it takes an exception: in the first of its two passes over
/// the stack, which only looks for a handler.
class ThrowerType final : public std::type_info {
 public:
  explicit ThrowerType(const char* name) : std::type_info{name} {}

  bool __do_catch(const std::type_info*, void**, unsigned) const override {
    Thrown& now = thrown();
    now.depth = process::capture_stack(now.stack);
    const auto running = reinterpret_cast<std::uintptr_t>(RunningCall::stack_begin());
    // Below the call is the worker.
    while (running != 0 && now.depth != 0 && now.stack[now.depth - 1].end > running) --now.depth;
    return false;
  }
};

// The compiler makes a class's type where its first virtual function is defined: it makes none for Thrower.
extern const ThrowerType kThrowerType __asm__("_ZTIN6pharos6actors7ThrowerE");
const ThrowerType kThrowerType{"N6pharos6actors7ThrowerE"};

std::string Thrower::place() {
  Thrown& now = thrown();
  const std::size_t depth = std::exchange(now.depth, 0);
  for (std::size_t i = 0; i < depth; ++i) {
    Place place = place_of(now.stack[i].code);
    if (!place.text.empty()) return std::move(place.text);
    if (place.calls_user) return readable_name(RunningCall::of_this_thread()->function_name());
  }
  return {};
}

}  // namespace pharos::actors
