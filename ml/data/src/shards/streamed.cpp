#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include <pharos/actors/exceptions.hpp>
#include <pharos/ml/shards.hpp>

#include "file_bytes.hpp"
#include "shard_cache.hpp"

namespace pharos::ml {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kOpenMax = 256;
constexpr std::size_t kExpectedMax = 64;
constexpr int kTries = 10;  // to open a shard that other processes remove from the cache

[[noreturn]] void refuse_stream(std::string why, std::string remedy = {}) {
  throw_error(Error{ErrorCode::kInvalidArgument, std::move(why), std::move(remedy)});
}

bool is_below(const fs::path& name) {
  return !name.empty() && name.is_relative() && std::ranges::find(name, fs::path{".."}) == name.end();
}

/// Fetches and opens shards, and keeps the last ones open. Any thread.
class OpenShards {
 public:
  explicit OpenShards(StreamOptions options) : options_{std::move(options)} {
    if (!options_.cache.empty()) cache_.emplace(options_.cache, options_.cache_bytes.bytes());
    if (!options_.open) options_.open = &open_shard;
    if (!options_.fetch) {
      options_.fetch = [folder = options_.folder](const Shard& shard, const fs::path& to) {
        std::error_code failed;
        fs::copy_file(folder / shard.name, to, failed);
        throw_if(failed, "copying " + (folder / shard.name).string() + " to " + to.string());
      };
    }
  }

  const Shard& shard(std::size_t number) const { return options_.shards[number]; }
  std::size_t count() const { return options_.shards.size(); }
  bool has_cache() const { return cache_.has_value(); }

  /// Waits if another thread is opening the shard.
  DatasetPtr get(std::size_t number) {
    std::unique_lock lock{mutex_};
    for (;;) {
      const auto found = open_.find(number);
      if (found != open_.end()) {
        found->second.used = ++uses_;
        return found->second.data;
      }
      if (opening_.insert(number).second) break;
      changed_.wait(lock);
    }
    lock.unlock();
    Opened opened;
    try {
      opened = open(number);
    } catch (...) {
      lock.lock();
      opening_.erase(number);
      changed_.notify_all();
      throw;
    }
    lock.lock();
    opening_.erase(number);
    open_.emplace(number, Open{opened.data, ++uses_, opened.bytes});
    bytes_ += opened.bytes;
    close_some(number);
    changed_.notify_all();
    return opened.data;
  }
  /// Fetches the shard if it is not in the cache.
  void fetch(std::size_t number) const { static_cast<void>(path_of(number)); }

 private:
  struct Opened {
    DatasetPtr data;
    std::uint64_t bytes = 0;
  };
  struct Open {
    DatasetPtr data;
    std::uint64_t used;
    std::uint64_t bytes;
  };

  /// A file that was removed from the cache takes its place on the disk until it is closed. Called with the lock.
  void close_some(std::size_t but) {
    while (open_.size() > kOpenMax || (cache_ && bytes_ > options_.cache_bytes.bytes())) {
      const auto oldest = std::ranges::min_element(open_, {}, [](const auto& each) { return each.second.used; });
      if (oldest->first == but) return;
      bytes_ -= oldest->second.bytes;
      open_.erase(oldest);
    }
  }

  fs::path path_of(std::size_t number) const {
    const Shard& its = shard(number);
    if (!cache_) return options_.folder / its.name;
    return cache_->get(its.name, [&](const fs::path& to) { options_.fetch(its, to); });
  }
  Opened open(std::size_t number) const {
    for (int tried = 1;; ++tried) {
      const fs::path path = path_of(number);
      try {
        DatasetPtr data = options_.open(path);
        std::error_code removed;
        const std::uint64_t bytes = fs::file_size(path, removed);
        if (data->size() == shard(number).samples) return {std::move(data), removed ? 0 : bytes};
        throw_corrupt(path, "it has " + std::to_string(data->size()) + " samples, and should have " +
                                std::to_string(shard(number).samples));
      } catch (const Exception& e) {
        if (cache_ && e.code() == ErrorCode::kCorrupt) cache_->forget(shard(number).name);
        if (!cache_ || e.code() != ErrorCode::kNotFound || fs::exists(path) || tried == kTries) throw;
      }
    }
  }

  StreamOptions options_;
  std::optional<ShardCache> cache_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::size_t, Open> open_;
  std::set<std::size_t> opening_;
  std::uint64_t bytes_ = 0;  // of the open shards
  std::uint64_t uses_ = 0;
};

/// Fetches shards that will be needed, on a thread of its own.
class Fetcher {
 public:
  explicit Fetcher(OpenShards& shards) : shards_{shards}, thread_{[this] { run(); }} {}
  Fetcher(Fetcher&&) = delete;
  /// Waits for the shard that is being fetched.
  ~Fetcher() {
    {
      const std::lock_guard lock{mutex_};
      ends_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  void expect(std::size_t shard) {
    const std::lock_guard lock{mutex_};
    if (std::ranges::count(known_, shard) != 0 || expected_.size() == kExpectedMax) return;
    known_.push_back(shard);
    if (known_.size() > kExpectedMax) known_.pop_front();
    expected_.push_back(shard);
    changed_.notify_all();
  }

 private:
  void run() {
    std::unique_lock lock{mutex_};
    for (;;) {
      changed_.wait(lock, [this] { return ends_ || !expected_.empty(); });
      if (ends_) return;
      const std::size_t next = expected_.front();
      expected_.pop_front();
      lock.unlock();
      try {
        shards_.fetch(next);
      } catch (...) {  // read() tries again, and throws what is wrong
      }
      lock.lock();
    }
  }

  OpenShards& shards_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::size_t> expected_;
  std::deque<std::size_t> known_;  // the last ones that were expected
  bool ends_ = false;
  std::thread thread_;  // the last member, because it uses the others
};

class Streamed final : public Dataset {
 public:
  explicit Streamed(StreamOptions options) : ahead_{options.ahead}, shards_{std::move(options)} {
    std::uint64_t largest = 0;
    for (std::size_t i = 0; i < shards_.count(); ++i) {
      begins_.push_back(begins_.back() + shards_.shard(i).samples);
      largest = std::max(largest, shards_.shard(i).samples);
    }
    if (ahead_ == 0) ahead_ = 2 * largest;
    fields_ = shards_.get(0)->fields();
    if (shards_.has_cache()) fetcher_.emplace(shards_);
  }
  std::uint64_t size() const override { return begins_.back(); }
  const std::vector<Field>& fields() const override { return fields_; }
  std::int64_t length(std::uint64_t sample, std::size_t field) const override {
    const auto [data, number] = place_of(sample);
    return data->length(number, field);
  }
  void read(std::uint64_t sample, std::uint64_t chance, std::span<const std::span<std::byte>> to) const override {
    const auto [data, number] = place_of(sample);
    data->read(number, chance, to);
  }
  std::uint64_t ahead() const override { return fetcher_ ? ahead_ : 0; }
  void expect(std::span<const std::uint64_t> samples) const override {
    if (!fetcher_) return;
    for (const std::uint64_t sample : samples) fetcher_->expect(shard_of(sample));
  }

 private:
  std::size_t shard_of(std::uint64_t sample) const {
    return static_cast<std::size_t>(std::ranges::upper_bound(begins_, sample) - begins_.begin()) - 1;
  }
  std::pair<DatasetPtr, std::uint64_t> place_of(std::uint64_t sample) const {
    const std::size_t shard = shard_of(sample);
    DatasetPtr data = shards_.get(shard);
    const auto is_same = [](const Field& one, const Field& other) {
      return one.name == other.name && one.dtype == other.dtype && one.shape == other.shape;
    };
    if (!std::ranges::equal(data->fields(), fields_, is_same)) {
      throw_corrupt(shards_.shard(shard).name, "its samples have other fields than those of " + shards_.shard(0).name);
    }
    return {std::move(data), sample - begins_[shard]};
  }

  std::uint64_t ahead_;
  std::vector<std::uint64_t> begins_{0};  // and the end of the last shard
  std::vector<Field> fields_;
  mutable OpenShards shards_;
  mutable std::optional<Fetcher> fetcher_;
};

}  // namespace

DatasetPtr streamed(StreamOptions options) {
  if (options.shards.empty()) refuse_stream("a stream of no shards was asked for");
  if (options.cache.empty() && (options.folder.empty() || options.fetch)) {
    refuse_stream("shards that are fetched need a place", "Set StreamOptions::cache.");
  }
  if (options.folder.empty() && !options.fetch) {
    refuse_stream("nothing says where the shards are", "Set StreamOptions::folder or fetch.");
  }
  std::uint64_t samples = 0;
  for (const Shard& each : options.shards) {
    if (!is_below(each.name)) refuse_stream("\"" + each.name + "\" is no name of a shard");
    if (each.samples == 0 || __builtin_add_overflow(samples, each.samples, &samples)) {
      refuse_stream("the shard " + each.name + " has " + std::to_string(each.samples) + " samples");
    }
  }
  return std::make_shared<const Streamed>(std::move(options));
}

std::vector<std::uint64_t> sizes_of(const std::vector<Shard>& shards) {
  std::vector<std::uint64_t> sizes;
  for (const Shard& each : shards) sizes.push_back(each.samples);
  return sizes;
}

}  // namespace pharos::ml
