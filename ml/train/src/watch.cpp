#include "watch.hpp"

#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <memory>
#include <optional>

namespace pharos::ml {
namespace {

struct OfThread {
  std::vector<Watch*> watches{};
  at::CallbackHandle callback = at::INVALID_CALLBACK_HANDLE;
  bool is_quiet = false;
};
thread_local OfThread of_thread;

/// What an operator works on: the numbers of one watch.
class Touched {
 public:
  explicit Touched(const Watch& watch) : watch_{watch} {}

  void look_at(const c10::IValue& value) {
    if (value.isTensor()) return look_at(*value.unsafeToTensorImpl());
    if (!value.isList()) return;
    for (const c10::IValue& each : value.toListRef()) {
      if (each.isTensor()) look_at(*each.unsafeToTensorImpl());
    }
  }
  std::span<const std::uint32_t> numbers() const { return numbers_; }

 private:
  void look_at(const c10::TensorImpl& tensor) {
    if (!tensor.has_storage()) return;
    const std::uint32_t* const number = watch_.find(tensor.unsafe_storage().unsafeGetStorageImpl());
    if (number == nullptr || std::find(numbers_.begin(), numbers_.end(), *number) != numbers_.end()) return;
    numbers_.push_back(*number);
  }

  const Watch& watch_;
  std::vector<std::uint32_t> numbers_;  // most operators work on none of them: nothing is allocated then
};

std::unique_ptr<at::ObserverContext> before_operator(const at::RecordFunction& function) {
  if (of_thread.is_quiet) return nullptr;
  for (Watch* const watch : of_thread.watches) {
    Touched touched{*watch};
    for (const c10::IValue& each : function.inputs()) touched.look_at(each);
    if (touched.numbers().empty()) continue;
    const Watch::Quiet quiet;
    watch->tell(touched.numbers());
  }
  return nullptr;
}

constexpr std::size_t kFirstPlaces = 16;

}  // namespace

Watch::Quiet::Quiet() : before_{std::exchange(of_thread.is_quiet, true)} {}
Watch::Quiet::~Quiet() {
  of_thread.is_quiet = before_;
}

Watch::Watch(Owner& owner) : owner_{owner}, places_(kFirstPlaces) {
  if (of_thread.watches.empty()) {
    of_thread.callback = at::addThreadLocalCallback(
        at::RecordFunctionCallback(&before_operator).needsInputs(true).scopes({at::RecordScope::FUNCTION}));
  }
  of_thread.watches.push_back(this);
}

Watch::~Watch() {
  std::erase(of_thread.watches, this);
  if (of_thread.watches.empty()) at::removeCallback(of_thread.callback);
}

void Watch::add(const void* memory, std::uint32_t number) {
  if (2 * ++taken_ > places_.size()) {
    std::vector<Place> before = std::exchange(places_, std::vector<Place>(2 * places_.size()));
    for (const Place& each : before) {
      if (each.first != nullptr) places_[place_of(each.first)] = each;
    }
  }
  places_[place_of(memory)] = {memory, number};
}

const std::uint32_t* Watch::find(const void* memory) const {
  const Place& place = places_[place_of(memory)];
  return place.first == memory && memory != nullptr ? &place.second : nullptr;
}

/// Where it is, or would be.
std::size_t Watch::place_of(const void* memory) const {
  constexpr std::uint64_t kMix = 0x9E3779B97F4A7C15;
  const std::size_t mask = places_.size() - 1;
  std::size_t place = (reinterpret_cast<std::uintptr_t>(memory) * kMix >> 32) & mask;
  while (places_[place].first != nullptr && places_[place].first != memory) place = (place + 1) & mask;
  return place;
}

}  // namespace pharos::ml
