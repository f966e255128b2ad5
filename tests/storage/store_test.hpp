#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <latch>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <pharos/async/block_on.hpp>
#include <pharos/async/thread_executor.hpp>
#include <pharos/storage/kv_store.hpp>
#include <pharos/storage/rocksdb_kv_store.hpp>

namespace pharos::storage {

using Contents = std::map<std::string, std::string>;

/// Base of all tests of stores: it has an executor for calls, and a deadline that is never reached.
class StoreTest : public testing::Test {
 protected:
  template <class T>
  T run(async::Async<T> call) {
    return async::block_on(executor_, std::move(call));
  }
  /// Returns when all coroutines that were spawned before have run to their first wait.
  void settle() {
    std::latch settled{1};
    executor_.post([&settled] { settled.count_down(); });
    settled.wait();
  }
  static Deadline soon() { return Deadline::after(std::chrono::seconds{60}, SteadyClock{}); }

  Result<void> put(KvStore& store, std::string key, std::string value) {
    Batch batch;
    batch.put(std::move(key), std::move(value));
    return run(store.write(std::move(batch), soon()));
  }
  std::optional<std::string> get(KvStore& store, std::string key) {
    return run(store.get(std::move(key), soon())).value();
  }
  Contents contents(KvStore& store) {
    const std::size_t all = 1'000'000;
    Contents found;
    for (auto& [key, value] : run(store.scan("", all, soon())).value()) found.emplace(key, value);
    return found;
  }

  async::ThreadExecutor executor_{"store-test"};
};

inline std::unique_ptr<KvStore> must_open(const std::filesystem::path& folder, RocksDbOptions options = {}) {
  auto opened = open_rocksdb(folder, options);
  PHAROS_CHECK(opened.ok(), opened.error());
  return std::move(opened).value();
}

}  // namespace pharos::storage
