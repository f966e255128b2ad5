#include "parallel/watch.hpp"

#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <utility>

namespace pharos::ml {

/// The watched memory by its address. It is immutable, because operators of several threads read it.
class Watch::Table {
 public:
  Table(Owner& owner, std::span<const Numbered> memory) : owner_{owner} {
    std::size_t places = 2;
    while (places <= 2 * memory.size()) places *= 2;
    places_.resize(places);
    for (const Numbered& each : memory) places_[place_of(each.first)] = each;
  }

  /// Returns nullptr if the memory is not watched.
  const std::uint32_t* find(const void* memory) const {
    const Numbered& place = places_[place_of(memory)];
    return place.first == memory && memory != nullptr ? &place.second : nullptr;
  }
  void tell(std::span<const std::uint32_t> numbers) const { owner_.touched(numbers); }

 private:
  /// The index at which the memory is, or would be inserted.
  std::size_t place_of(const void* memory) const {
    constexpr std::uint64_t kMix = 0x9E3779B97F4A7C15;
    const std::size_t mask = places_.size() - 1;
    std::size_t place = (reinterpret_cast<std::uintptr_t>(memory) * kMix >> 32) & mask;
    while (places_[place].first != nullptr && places_[place].first != memory) place = (place + 1) & mask;
    return place;
  }

  Owner& owner_;
  std::vector<Numbered> places_;  // open addressing: a power of two, less than half of it taken
};

namespace {

using Tables = std::vector<std::shared_ptr<const Watch::Table>>;

std::unique_ptr<at::ObserverContext> before_operator(const at::RecordFunction& function);

/// The tables of all watches of this process. Each thread has a copy of the list, and renews it when version() has
/// changed.
class All {
 public:
  void add(std::shared_ptr<const Watch::Table> table) {
    const std::lock_guard lock{mutex_};
    tables_.push_back(std::move(table));
    version_.fetch_add(1, std::memory_order_relaxed);
    if (tables_.size() > 1) return;
    // libtorch's header asks that no other thread runs operators when a callback is added. Its implementation allows
    // it; see decision 24.
    callback_ = at::addGlobalCallback(
        at::RecordFunctionCallback(&before_operator).needsInputs(true).scopes({at::RecordScope::FUNCTION}));
  }
  void remove(const std::shared_ptr<const Watch::Table>& table) {
    const std::lock_guard lock{mutex_};
    std::erase(tables_, table);
    version_.fetch_add(1, std::memory_order_relaxed);
    if (tables_.empty()) at::removeCallback(callback_);
  }

  std::uint64_t version() const { return version_.load(std::memory_order_relaxed); }
  Tables tables() const {
    const std::lock_guard lock{mutex_};
    return tables_;
  }

 private:
  mutable std::mutex mutex_;
  Tables tables_;
  std::atomic<std::uint64_t> version_ = 0;  // changed under the mutex, under which a thread renews its copy
  at::CallbackHandle callback_ = at::INVALID_CALLBACK_HANDLE;
};
/// It is never destroyed, because threads may run operators while the process ends.
All& all = *new All;

struct OfThread {
  Tables tables{};
  std::uint64_t version = 0;  // version() when the tables were copied
  bool is_quiet = false;
};
thread_local OfThread of_thread;

/// Collects the numbers of one watch's memory that an operator uses.
class Touched {
 public:
  explicit Touched(const Watch::Table& table) : table_{table} {}

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
    const std::uint32_t* const number = table_.find(tensor.unsafe_storage().unsafeGetStorageImpl());
    if (number == nullptr || std::find(numbers_.begin(), numbers_.end(), *number) != numbers_.end()) return;
    numbers_.push_back(*number);
  }

  const Watch::Table& table_;
  std::vector<std::uint32_t> numbers_;  // allocates nothing for most operators, because they use no watched memory
};

std::unique_ptr<at::ObserverContext> before_operator(const at::RecordFunction& function) {
  OfThread& own = of_thread;
  if (own.is_quiet) return nullptr;
  if (const std::uint64_t version = all.version(); own.version != version) {
    own.tables = all.tables();
    own.version = version;
  }
  for (const auto& table : own.tables) {
    Touched touched{*table};
    for (const c10::IValue& each : function.inputs()) touched.look_at(each);
    if (touched.numbers().empty()) continue;
    const Watch::Quiet quiet;
    table->tell(touched.numbers());
  }
  return nullptr;
}

}  // namespace

Watch::Quiet::Quiet() : before_{std::exchange(of_thread.is_quiet, true)} {}
Watch::Quiet::~Quiet() {
  of_thread.is_quiet = before_;
}

Watch::Watch(Owner& owner, std::span<const Numbered> memory) : table_{std::make_shared<const Table>(owner, memory)} {
  all.add(table_);
}
Watch::~Watch() {
  all.remove(table_);
}

}  // namespace pharos::ml
