#include "thrower.hpp"

#include <unwind.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <mutex>
#include <span>
#include <typeinfo>
#include <unordered_map>
#include <utility>

#include <pharos/base/export.hpp>
#include <pharos/base/thread_local.hpp>
#include <pharos/process/backtrace.hpp>

#include "function_table.hpp"
#include "running_call.hpp"

namespace pharos::actors {
namespace {

constexpr std::size_t kDepth = 32;  // of which the unwinder and the C++ library take some
constexpr std::size_t kPlacesMax = 4096;

struct Stack {
  std::array<process::StackAddress, kDepth> addresses;
  std::size_t depth = 0;

  /// This thread's, from the user's code on: below the call is the worker.
  void capture() {
    depth = process::capture_stack(addresses);
    const auto running = reinterpret_cast<std::uintptr_t>(RunningCall::stack_begin());
    while (running != 0 && depth != 0 && addresses[depth - 1].end > running) --depth;
  }
};

/// Of the exceptions of a thread.
struct Thrown {
  Stack uncaught;  // of the last that nobody caught
  Stack last;      // of the last of all, in a coroutine
  const void* last_object = nullptr;
};

Thrown& thrown() {
  thread_local Thrown instance;
  return instance;
}

// The exception that is being handled.
const void* current_object() {
  const std::exception_ptr current = std::current_exception();
  const void* object = nullptr;
  static_assert(sizeof current == sizeof object);
  std::memcpy(&object, static_cast<const void*>(&current), sizeof object);  // all that it is
  return object;
}

// "GNUCC++" and a null for one that is thrown for the first time.
constexpr _Unwind_Exception_Class kFirstThrow = 0x474e5543432b2b00;

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
    thrown().uncaught.capture();
    return false;
  }
};

// The compiler makes a class's type where its first virtual function is defined: it makes none for Thrower.
extern const ThrowerType kThrowerType __asm__("_ZTIN6pharos6actors7ThrowerE");
const ThrowerType kThrowerType{"N6pharos6actors7ThrowerE"};

std::string Thrower::place() {
  Thrown& now = thrown();
  const void* const last = std::exchange(now.last_object, nullptr);
  Stack& stack = last != nullptr && last == current_object() ? now.last : now.uncaught;
  const std::size_t depth = std::exchange(stack.depth, 0);
  for (std::size_t i = 0; i < depth; ++i) {
    Place place = place_of(stack.addresses[i].code);
    if (!place.text.empty()) return std::move(place.text);
    if (place.calls_user) return readable_name(RunningCall::of_this_thread()->function_name());
  }
  return {};
}

}  // namespace pharos::actors

namespace pharos::detail {

PHAROS_API void note_throw(const _Unwind_Exception* thrown);

void note_throw(const _Unwind_Exception* thrown) {
  const auto* const call = actors::RunningCall::of_this_thread();
  if (call == nullptr || !call->is_coroutine() || thrown->exception_class != actors::kFirstThrow) return;
  actors::Thrown& now = actors::thrown();
  now.last.capture();
  now.last_object = thrown + 1;
}

}  // namespace pharos::detail
