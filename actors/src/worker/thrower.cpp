#include "worker/thrower.hpp"

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

#include "program/function_table.hpp"
#include "worker/running_call.hpp"

namespace pharos::actors {
namespace {

constexpr std::size_t kDepth = 32;  // frames; some of them belong to the unwinder and the C++ library
constexpr std::size_t kPlacesMax = 4096;

struct Stack {
  std::array<process::StackAddress, kDepth> addresses;
  std::size_t depth = 0;

  /// Records this thread's stack, without the frames of the worker's own code that runs the call.
  void capture() {
    depth = process::capture_stack(addresses);
    const auto running = reinterpret_cast<std::uintptr_t>(RunningCall::stack_begin());
    while (running != 0 && depth != 0 && addresses[depth - 1].end > running) --depth;
  }
};

/// The stacks of a thread's exceptions.
struct Thrown {
  Stack uncaught;  // stack of the last exception that the user's code did not catch
  Stack last;      // stack of the last exception that was thrown in a coroutine, whose address is `last_object`
  const void* last_object = nullptr;
};

Thrown& thrown() {
  thread_local Thrown instance;
  return instance;
}

// Returns the address of the exception that is being handled.
const void* current_object() {
  const std::exception_ptr current = std::current_exception();
  const void* object = nullptr;
  static_assert(sizeof current == sizeof object);
  std::memcpy(&object, static_cast<const void*>(&current), sizeof object);  // the address is its only member
  return object;
}

// The class of an exception that is thrown for the first time: "GNUCC++" and a null.
constexpr _Unwind_Exception_Class kFirstThrow = 0x474e5543432b2b00;

/// Describes an address for people.
struct Place {
  std::string text;         // empty for an address in the runtime's own code
  bool calls_user = false;  // the address is in a function into which the compiler may have inlined the user's function
};

// Symbols are looked up once for each place, because a function that throws in every call throws from few places.
struct Places {
  std::mutex mutex;
  std::unordered_map<std::uintptr_t, Place> known;
};
Places& places() {
  static auto* const instance = new Places;  // never destroyed: threads may still read it while the process ends
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

/// The type_info of Thrower. The C++ library asks it whether a handler of this type catches an exception. It does so in
/// the first of its two passes over the stack, which only looks for a handler and unwinds nothing.
class ThrowerType final : public std::type_info {
 public:
  explicit ThrowerType(const char* name) : std::type_info{name} {}

  bool __do_catch(const std::type_info*, void**, unsigned) const override {
    thrown().uncaught.capture();
    return false;
  }
};

// The compiler emits the type_info of a class where the first virtual function is defined. For Thrower that is nowhere,
// so this object takes the place of its type_info, under the same symbol.
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
