#include "simulator/simulated_disk.hpp"

#include <algorithm>
#include <chrono>
#include <span>
#include <utility>

#include <pharos/async/async.hpp>
#include <pharos/async/sleep.hpp>

#include "simulator/lots.hpp"
#include "simulator/world.hpp"

namespace pharos::simulator {
namespace {

using namespace std::chrono_literals;

constexpr Duration kWriteMin = 30us;
constexpr Duration kWriteMax = 2ms;
constexpr Duration kSlowMax = 40ms;
constexpr Duration kSayMax = 300us;  // longest time from a durable write to its acknowledgement
constexpr std::uint64_t kSlowOneIn = 30;

}  // namespace

class SimulatedDisk::Store final : public storage::KvStore {
 public:
  Store(SimulatedDisk& disk, Process& process) : disk_{disk}, process_{process} {}

  async::Async<Result<std::optional<std::string>>> get(std::string key, async::Deadline) override {
    const auto found = disk_.pairs_.find(key);
    if (found == disk_.pairs_.end()) co_return std::optional<std::string>{};
    co_return std::optional{found->second};
  }
  async::Async<Result<std::vector<storage::KeyValue>>> scan_after(std::string prefix, std::optional<std::string> after,
                                                                  std::size_t limit, async::Deadline) override {
    PHAROS_CO_TRY_VOID(co_await async::sleep(draw(kWriteMin, kWriteMax)));
    const auto& pairs = disk_.pairs_;
    std::vector<storage::KeyValue> found;
    auto pair = after && *after >= prefix ? pairs.upper_bound(*after) : pairs.lower_bound(prefix);
    for (; pair != pairs.end() && found.size() < limit && pair->first.starts_with(prefix); ++pair) {
      found.push_back({pair->first, pair->second});
    }
    co_return found;
  }
  async::Async<Result<void>> write(storage::Batch batch, async::Deadline) override {
    SimulatedDisk& disk = disk_;
    if (!disk.lies_) {
      const bool is_slow = process_.world().lots().one_in(kSlowOneIn);
      PHAROS_CO_TRY_VOID(co_await async::sleep(draw(kWriteMin, is_slow ? kSlowMax : kWriteMax)));
    }
    if (!process_.alive()) co_return Error{ErrorCode::kCancelled, "the process has ended"};
    ++disk.writes_;
    if (failed_ || (disk.fails_one_in_ != 0 && process_.world().lots().one_in(disk.fails_one_in_))) {
      failed_ = true;
      co_return Error{ErrorCode::kExhausted, "the simulated disk is full"};
    }
    if (disk.lies_) {
      const Duration later = draw(kWriteMin, kSlowMax);
      process_.at(process_.now() + later, [&disk, batch = std::move(batch)] { apply(disk, batch); });
      co_return {};
    }
    apply(disk, batch);
    PHAROS_CO_TRY_VOID(co_await async::sleep(draw(Duration{0}, kSayMax)));
    co_return {};
  }

 private:
  static void apply(SimulatedDisk& disk, const storage::Batch& batch) {
    for (const auto& change : batch.changes()) {
      if (change.value) {
        disk.pairs_.insert_or_assign(change.key, *change.value);
      } else {
        disk.pairs_.erase(change.key);
      }
    }
  }
  Duration draw(Duration least, Duration most) { return process_.world().lots().between(least, most); }

  SimulatedDisk& disk_;
  Process& process_;
  bool failed_ = false;
};

Result<std::unique_ptr<storage::KvStore>> SimulatedDisk::open(Process& process) {
  return std::unique_ptr<storage::KvStore>{std::make_unique<Store>(*this, process)};
}

std::size_t SimulatedDisk::count(std::string_view prefix) const {
  return static_cast<std::size_t>(std::count_if(pairs_.begin(), pairs_.end(),
                                                [prefix](const auto& pair) { return pair.first.starts_with(prefix); }));
}

std::string SimulatedDisk::difference_from(const std::map<std::string, std::optional<wire::Message>>& expected) const {
  std::string text;
  for (const auto& [key, record] : expected) {
    const auto pair = pairs_.find(key);
    if (pair == pairs_.end()) {
      text += "not on disk: " + key + '\n';
    } else if (record) {
      const auto bytes = wire::encode(*record);
      if (!std::ranges::equal(bytes, std::as_bytes(std::span{pair->second}))) text += "another on disk: " + key + '\n';
    }
  }
  for (const auto& [key, value] : pairs_) {
    if (!expected.contains(key) && !key.starts_with("aside/")) text += "on disk: " + key + '\n';
  }
  return text;
}

}  // namespace pharos::simulator
