#pragma once

#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <pharos/object_store/lender.hpp>
#include <pharos/object_store/lessee.hpp>

namespace pharos::object_store {

/// Memory that is there from the beginning, for processes that are threads, or nothing but objects.
class PlainMemory final : public StoreMemory {
 public:
  PlainMemory(const Ledger& ledger, std::span<std::byte> objects) : ledger_{ledger}, objects_{objects} {}

  const Ledger& ledger() const override { return ledger_; }
  std::span<const std::byte> objects() const override { return objects_; }
  Result<std::byte*> open(const Slab& slab) override { return objects_.data() + slab.offset; }
  void close(const Slab&) override {}
  Result<void> provide(const Slab&, std::uint64_t, std::uint64_t) override { return {}; }

 private:
  const Ledger ledger_;
  const std::span<std::byte> objects_;
};

/// A whole store in this process: the node's side, and as many lessees as are wanted.
class PlainStore {
 public:
  static constexpr std::uint32_t kTables = 8;

  explicit PlainStore(ByteCount capacity)
      : ledger_memory_{allocate(Ledger::bytes_for(slots_for(capacity), kTables))},
        objects_memory_{allocate(capacity.bytes())},
        objects_{objects_memory_.get(), capacity.bytes()},
        ledger_{Ledger::format({ledger_memory_.get(), Ledger::bytes_for(slots_for(capacity), kTables)},
                               slots_for(capacity), kTables)},
        lessor_{std::make_shared<Direct>(ledger_, capacity)} {}

  struct Process {
    std::uint32_t table = 0;
    std::shared_ptr<Lessor> lessor;
    std::shared_ptr<Lessee> lessee;
  };
  Process start(CallerId id) {
    Process process;
    {
      const std::lock_guard lock{lessor_->mutex};
      process.table = lessor_->lender.open(id).value();
    }
    process.lessor = std::make_shared<Leasing>(lessor_, process.table);
    process.lessee = Lessee::make(id, process.table, std::make_unique<PlainMemory>(ledger_, objects_), process.lessor);
    return process;
  }
  /// The process is no more. Whatever of it is left in this one does nothing.
  void end(const Process& process) {
    process.lessee->abandon();
    const std::lock_guard lock{lessor_->mutex};
    const auto left = lessor_->lender.process_ended(process.table);
    unclaimed_.insert(unclaimed_.end(), left.begin(), left.end());
  }
  /// Nobody waits any longer for results of processes that have ended.
  void end_unclaimed() {
    const std::lock_guard lock{lessor_->mutex};
    lessor_->lender.end_unclaimed(std::exchange(unclaimed_, {}));
  }
  Lender& lender() { return lessor_->lender; }
  const Ledger& ledger() const { return ledger_; }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  using Memory = std::unique_ptr<std::byte[], Free>;
  static Memory allocate(std::size_t bytes) {
    bytes = (bytes + 4095) / 4096 * 4096;
    auto* const memory = static_cast<std::byte*>(std::aligned_alloc(4096, bytes));
    std::memset(memory, 0, bytes);
    return Memory{memory};
  }
  static std::uint32_t slots_for(ByteCount capacity) {
    return static_cast<std::uint32_t>(capacity.bytes() / kSlotBytesMin);
  }

  struct Direct {
    Direct(const Ledger& ledger, ByteCount capacity) : lender{ledger, capacity} {}
    std::mutex mutex;
    Lender lender;
  };
  class Leasing final : public Lessor {
   public:
    Leasing(std::shared_ptr<Direct> direct, std::uint32_t table) : direct_{std::move(direct)}, table_{table} {}
    Result<Slab> lease(std::uint64_t slot_bytes) override {
      const std::lock_guard lock{direct_->mutex};
      direct_->lender.reclaim();
      return direct_->lender.lease(table_, slot_bytes);
    }
    void give_back(std::uint32_t first_slot) override {
      const std::lock_guard lock{direct_->mutex};
      direct_->lender.give_back(table_, first_slot);
    }

   private:
    const std::shared_ptr<Direct> direct_;
    const std::uint32_t table_;
  };

  const Memory ledger_memory_;
  const Memory objects_memory_;
  const std::span<std::byte> objects_;
  const Ledger ledger_;
  const std::shared_ptr<Direct> lessor_;
  std::vector<Lender::Unclaimed> unclaimed_;
};

/// What an object of this number holds: words that count up from it.
inline void fill(std::span<std::byte> bytes, std::uint64_t number) {
  for (std::size_t at = 0; at + sizeof number <= bytes.size(); at += sizeof number) {
    const std::uint64_t word = number + at;
    std::memcpy(bytes.data() + at, &word, sizeof word);
  }
}
inline bool holds(std::span<const std::byte> bytes, std::uint64_t number) {
  for (std::size_t at = 0; at + sizeof number <= bytes.size(); at += sizeof number) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, sizeof word);
    if (word != number + at) return false;
  }
  return true;
}
inline std::shared_ptr<Object> put(Lessee& lessee, std::size_t bytes, std::uint64_t number, CallerId heir = {}) {
  auto object = lessee.create(bytes, heir);
  if (!object) return nullptr;
  fill(object->bytes(), number);
  return std::move(*object).seal();
}

}  // namespace pharos::object_store
