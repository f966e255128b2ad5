#include <sys/statvfs.h>

#include <utility>

#include <pharos/async/blocking_pool.hpp>
#include <pharos/base/fd.hpp>
#include <pharos/storage/rocksdb_kv_store.hpp>

#include "committer.hpp"
#include "file_check.hpp"
#include "folder_lock.hpp"
#include "open_database.hpp"

namespace pharos::storage {
namespace {

class RocksDbKvStore final : public KvStore {
 public:
  RocksDbKvStore(std::string folder, Fd lock, std::unique_ptr<Database> database, const RocksDbOptions& options)
      : folder_{std::move(folder)},
        lock_{std::move(lock)},
        database_{std::move(database)},
        readers_{options.read_threads, options.queued_reads_max},
        committer_{folder_, [this](std::span<const Batch* const> batches) { return commit(batches); },
                   options.queued_writes_max, options.queued_bytes_max} {}

  async::Async<Result<std::optional<std::string>>> get(std::string key, Deadline deadline) override {
    return async::run_blocking(
        readers_, [this, key = std::move(key)] { return value_of(database_->read(key)); }, deadline);
  }
  async::Async<Result<std::vector<KeyValue>>> scan_after(std::string prefix, std::optional<std::string> after,
                                                         std::size_t limit, Deadline deadline) override {
    return async::run_blocking(
        readers_,
        [this, prefix = std::move(prefix), after = std::move(after), limit] {
          return value_of(database_->read_page(prefix, after, limit));
        },
        deadline);
  }
  async::Async<Result<void>> write(Batch batch, Deadline deadline) override {
    return committer_.write(std::move(batch), deadline);
  }
  ByteCount free_space() const override {
    struct statvfs disk {};
    if (::statvfs(folder_.c_str(), &disk) != 0) return ByteCount{};
    return ByteCount{static_cast<std::uint64_t>(disk.f_bavail) * disk.f_frsize};
  }

 private:
  template <class T>
  Result<T> value_of(DatabaseResult<T> read) const {
    if (const auto* failed = std::get_if<DatabaseFailure>(&read)) {
      return to_error(*failed, "reading from the store in " + folder_);
    }
    return std::get<T>(std::move(read));
  }
  Result<void> commit(std::span<const Batch* const> batches) {
    if (const auto failed = database_->commit(batches)) return to_error(*failed, "writing to the store in " + folder_);
    return {};
  }

  const std::string folder_;
  const Fd lock_;
  const std::unique_ptr<Database> database_;
  // Last members, so that they are destroyed before the members that they use.
  async::BlockingPool readers_;
  Committer committer_;
};

}  // namespace

Result<std::unique_ptr<KvStore>> open_rocksdb(std::filesystem::path folder, RocksDbOptions options) {
  PHAROS_TRY(Fd lock, lock_folder(folder));
  PHAROS_TRY_VOID(check_files(folder));
  PHAROS_TRY(auto database, open_database(folder));
  return std::unique_ptr<KvStore>{
      std::make_unique<RocksDbKvStore>(folder.string(), std::move(lock), std::move(database), options)};
}

}  // namespace pharos::storage
