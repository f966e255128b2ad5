#include <map>
#include <mutex>
#include <string_view>
#include <utility>

#include <pharos/storage/memory_kv_store.hpp>

namespace pharos::storage {
namespace {

// std::string compares its characters as unsigned char, which is the order that KvStore promises.
class MemoryKvStore final : public KvStore {
 public:
  async::Async<Result<std::optional<std::string>>> get(std::string key, Deadline) override {
    const bool too_late = co_await async::cancelled();
    if (too_late) co_return cancelled_error();
    std::lock_guard lock{mutex_};
    const auto found = pairs_.find(key);
    if (found == pairs_.end()) co_return std::optional<std::string>{};
    co_return std::optional<std::string>{found->second};
  }

  async::Async<Result<std::vector<KeyValue>>> scan_after(std::string prefix, std::optional<std::string> after,
                                                         std::size_t limit, Deadline) override {
    const bool too_late = co_await async::cancelled();
    if (too_late) co_return cancelled_error();
    std::lock_guard lock{mutex_};
    std::vector<KeyValue> found;
    auto pair = after && *after >= prefix ? pairs_.upper_bound(*after) : pairs_.lower_bound(prefix);
    for (; pair != pairs_.end() && found.size() < limit && pair->first.starts_with(prefix); ++pair) {
      found.push_back({pair->first, pair->second});
    }
    co_return found;
  }

  async::Async<Result<void>> write(Batch batch, Deadline) override {
    const bool too_late = co_await async::cancelled();
    if (too_late) co_return cancelled_error();
    std::lock_guard lock{mutex_};
    for (const auto& change : batch.changes()) {
      if (change.value) {
        pairs_.insert_or_assign(change.key, *change.value);
      } else {
        pairs_.erase(change.key);
      }
    }
    co_return {};
  }

 private:
  static Error cancelled_error() {
    return Error{ErrorCode::kCancelled, "cancelled before calling the store"}.with_outcome(Outcome::kNotStarted);
  }

  std::mutex mutex_;
  std::map<std::string, std::string> pairs_;
};

}  // namespace

std::unique_ptr<KvStore> make_memory_kv_store() {
  return std::make_unique<MemoryKvStore>();
}

}  // namespace pharos::storage
