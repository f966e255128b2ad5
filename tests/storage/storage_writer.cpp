#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>

#include <pharos/async/async_group.hpp>
#include <pharos/async/channel.hpp>
#include <pharos/async/thread_executor.hpp>
#include <pharos/storage/rocksdb_kv_store.hpp>

// storage_writer FOLDER FIRST: writes batches FIRST, FIRST + 1, … until it is killed, a hundred at a time, and writes
// the number of each to its standard output once it has been acknowledged. kill_test.cpp reads and kills it.

namespace pharos::storage {
namespace {

async::Async<void> write_in_turn(KvStore* store, std::uint64_t* next) {
  while (true) {
    const std::uint64_t number = (*next)++;
    const auto text = std::to_string(number);
    Batch batch;
    batch.put("a/" + text, std::string(100, 'a')).put("b/" + text, std::string(number % 3000, 'b'));
    const auto written = co_await store->write(std::move(batch), Deadline::never());
    if (!written.ok()) {
      std::fprintf(stderr, "%s\n", written.error().to_string().c_str());
      ::_exit(1);
    }
    // A write of eight bytes to a pipe is atomic.
    if (::write(STDOUT_FILENO, &number, sizeof number) != sizeof number) ::_exit(1);
  }
}

int write_until_killed(const std::string& folder, std::uint64_t next) {
  auto store = open_rocksdb(folder);
  if (!store.ok()) {
    std::fprintf(stderr, "%s\n", store.error().to_string().c_str());
    return 1;
  }
  async::ThreadExecutor executor{"writer"};
  async::AsyncGroup writers{executor};
  constexpr int kAtOnce = 100;
  for (int i = 0; i < kAtOnce; ++i) writers.spawn(write_in_turn(store->get(), &next));
  static_cast<void>(writers.join_blocking(Deadline::never()));
  return 0;
}

}  // namespace
}  // namespace pharos::storage

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  return pharos::storage::write_until_killed(argv[1], std::stoull(argv[2]));
}
