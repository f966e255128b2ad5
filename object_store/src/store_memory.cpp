#include <map>
#include <mutex>

#include <pharos/object_store/shared_file.hpp>
#include <pharos/object_store/store_memory.hpp>

namespace pharos::object_store {
namespace {

class MappedMemory final : public StoreMemory {
 public:
  MappedMemory(SharedFile ledger_file, Mapping ledger_memory, const ObjectLedger& ledger, SharedFile objects,
               Mapping readable)
      : ledger_file_{std::move(ledger_file)},
        ledger_memory_{std::move(ledger_memory)},
        ledger_{ledger},
        objects_{std::move(objects)},
        readable_{std::move(readable)} {}

  const ObjectLedger& ledger() const override { return ledger_; }
  std::span<const std::byte> objects() const override { return readable_.memory(); }

  Result<std::byte*> open(const Slab& slab) override {
    PHAROS_TRY(Mapping writable, Mapping::make(objects_, slab.offset, slab.bytes(), Mapping::Access::kReadAndWrite));
    std::byte* const at = writable.memory().data();
    const std::lock_guard lock{mutex_};
    open_.insert_or_assign(slab.first_slot, std::move(writable));
    return at;
  }
  void close(const Slab& slab) override {
    const std::lock_guard lock{mutex_};
    open_.erase(slab.first_slot);
  }
  Result<void> provide(const Slab& slab, std::uint64_t begin, std::uint64_t bytes) override {
    return objects_.allocate(slab.offset + begin, bytes);
  }
  void populate(std::span<std::byte> memory) override { enter_pages(memory); }
  Result<void> provide_pins(std::uint32_t table, std::uint32_t pins) override {
    const auto stretch = ledger_.stretch_of_pins(table, pins);
    return ledger_file_.allocate(stretch.begin, stretch.bytes);
  }

 private:
  const SharedFile ledger_file_;
  const Mapping ledger_memory_;
  const ObjectLedger ledger_;
  const SharedFile objects_;
  const Mapping readable_;
  std::mutex mutex_;
  std::map<std::uint32_t, Mapping> open_;  // by first slot
};

}  // namespace

Result<std::unique_ptr<StoreMemory>> map_store(Fd ledger_fd, Fd objects_fd) {
  using Access = Mapping::Access;
  PHAROS_TRY(SharedFile ledger_file, SharedFile::adopt(std::move(ledger_fd)));
  PHAROS_TRY(SharedFile objects, SharedFile::adopt(std::move(objects_fd)));
  PHAROS_TRY(Mapping ledger_memory, Mapping::make(ledger_file, 0, ledger_file.length().bytes(), Access::kReadAndWrite));
  PHAROS_TRY(const ObjectLedger ledger, ObjectLedger::attach(ledger_memory.memory()));
  PHAROS_TRY(Mapping readable, Mapping::make(objects, 0, objects.length().bytes(), Access::kRead));
  std::unique_ptr<StoreMemory> memory = std::make_unique<MappedMemory>(std::move(ledger_file), std::move(ledger_memory),
                                                                       ledger, std::move(objects), std::move(readable));
  return memory;
}

}  // namespace pharos::object_store
