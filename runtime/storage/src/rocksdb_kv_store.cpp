#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/file_checksum.h>
#include <rocksdb/options.h>
#include <rocksdb/sst_file_reader.h>
#include <rocksdb/write_batch.h>
#include <sys/statvfs.h>

#include <cstdarg>
#include <cstdio>
#include <system_error>
#include <utility>

#include <pharos/async/blocking_pool.hpp>
#include <pharos/base/fd.hpp>
#include <pharos/base/log.hpp>
#include <pharos/storage/rocksdb_kv_store.hpp>

#include "committer.hpp"
#include "file_check.hpp"
#include "folder_lock.hpp"
#include "status.hpp"

namespace pharos::storage {
namespace {

/// Writes RocksDB's log lines to the log of this process, instead of LOG files that grow in the folder. RocksDB also
/// returns the failures of calls, and the code that handles them logs them, so errors are lowered to warnings here. The
/// errors of its background threads are reported in no other way.
class LogLines final : public rocksdb::Logger {
 public:
  explicit LogLines(std::string folder)
      : rocksdb::Logger{rocksdb::InfoLogLevel::WARN_LEVEL}, folder_{std::move(folder)} {}

  using rocksdb::Logger::Logv;
  void Logv(const rocksdb::InfoLogLevel level, const char* format, std::va_list arguments) override {
    if (level < rocksdb::InfoLogLevel::WARN_LEVEL) return;
    char line[512];
    std::vsnprintf(line, sizeof line, format, arguments);
    log(level >= rocksdb::InfoLogLevel::ERROR_LEVEL ? LogLevel::kWarn : LogLevel::kDebug, "rocksdb",
        {{"folder", folder_}, {"line", line}});
  }

 private:
  std::string folder_;
};

rocksdb::Options make_options(const std::string& folder) {
  rocksdb::Options options;
  options.create_if_missing = true;
  options.info_log = std::make_shared<LogLines>(folder);

  // This mode keeps every acknowledged record, and can start after a crash in the middle of a write. log_check.hpp has
  // the reasons, and the checks that must come before.
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords;
  // A recycled log ends with old records, which cannot be distinguished from a torn tail.
  options.recycle_log_file_num = 0;
  // RocksDB then checks that each closed log exists and has its full length.
  options.track_and_verify_wals_in_manifest = true;
  options.paranoid_checks = true;
  options.paranoid_file_checks = true;
  options.file_checksum_gen_factory = rocksdb::GetFileChecksumGenCrc32cFactory();
  // After a failed write or sync RocksDB must not retry by itself.
  options.max_bgerror_resume_count = 0;

  // The state is small and is read completely at the start, so these options favour a fast restart.
  options.write_buffer_size = 4u << 20;
  options.max_total_wal_size = 16u << 20;
  options.compression = rocksdb::kNoCompression;
  options.stats_dump_period_sec = 0;
  options.stats_persist_period_sec = 0;
  return options;
}

class RocksDbKvStore final : public KvStore {
 public:
  RocksDbKvStore(std::string folder, Fd lock, std::unique_ptr<rocksdb::DB> db, const RocksDbOptions& options)
      : folder_{std::move(folder)},
        lock_{std::move(lock)},
        db_{std::move(db)},
        readers_{options.read_threads, options.queued_reads_max},
        committer_{folder_, [this](std::span<const Batch* const> batches) { return commit(batches); },
                   options.queued_writes_max, options.queued_bytes_max} {}

  async::Async<Result<std::optional<std::string>>> get(std::string key, Deadline deadline) override {
    return async::run_blocking(
        readers_, [this, key = std::move(key)] { return read(key); }, deadline);
  }
  async::Async<Result<std::vector<KeyValue>>> scan_after(std::string prefix, std::optional<std::string> after,
                                                         std::size_t limit, Deadline deadline) override {
    return async::run_blocking(
        readers_,
        [this, prefix = std::move(prefix), after = std::move(after), limit] { return read_page(prefix, after, limit); },
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
  Result<std::optional<std::string>> read(const std::string& key) const {
    std::string value;
    const auto status = db_->Get(read_options(), key, &value);
    if (status.IsNotFound()) return std::optional<std::string>{};
    if (!status.ok()) return to_error(status, "reading from the store in " + folder_);
    return std::optional<std::string>{std::move(value)};
  }

  Result<std::vector<KeyValue>> read_page(const std::string& prefix, const std::optional<std::string>& after,
                                          std::size_t limit) const {
    std::vector<KeyValue> found;
    const std::unique_ptr<rocksdb::Iterator> pair{db_->NewIterator(read_options())};
    if (after && *after >= prefix) {
      // The smallest key that is larger than `after`.
      pair->Seek(*after + '\0');
    } else {
      pair->Seek(prefix);
    }
    for (; found.size() < limit && pair->Valid() && pair->key().starts_with(prefix); pair->Next()) {
      found.push_back({pair->key().ToString(), pair->value().ToString()});
    }
    // Valid() is false both at the end and after a failure.
    if (!pair->status().ok()) return to_error(pair->status(), "reading from the store in " + folder_);
    return found;
  }

  static rocksdb::ReadOptions read_options() {
    rocksdb::ReadOptions options;
    options.verify_checksums = true;
    return options;
  }

  /// Invariant 2 of committer.hpp: one write, one record of the log, one sync.
  Result<void> commit(std::span<const Batch* const> batches) {
    rocksdb::WriteBatch group;
    for (const Batch* batch : batches) {
      for (const auto& change : batch->changes()) {
        const auto status = change.value ? group.Put(change.key, *change.value) : group.Delete(change.key);
        if (!status.ok()) return to_error(status, "preparing a write to the store in " + folder_);
      }
    }
    rocksdb::WriteOptions options;
    options.sync = true;
    const auto status = db_->Write(options, &group);
    if (!status.ok()) return to_error(status, "writing to the store in " + folder_);
    return {};
  }

  const std::string folder_;
  const Fd lock_;
  const std::unique_ptr<rocksdb::DB> db_;
  // Last members, so that they are destroyed before the members that they use.
  async::BlockingPool readers_;
  Committer committer_;
};

/// RocksDB reports some damage to a table as damage to the manifest. This function returns the first table that cannot
/// be read, with the reason; an empty string if all tables can be read.
std::string damaged_table(const rocksdb::Options& options, const std::filesystem::path& folder) {
  std::error_code ignored;  // this search only adds detail to a failure that is reported anyway
  for (const auto& entry : std::filesystem::directory_iterator{folder, ignored}) {
    if (entry.path().extension() != ".sst") continue;
    rocksdb::SstFileReader reader{options};
    auto status = reader.Open(entry.path().string());
    if (status.ok()) status = reader.VerifyChecksum();
    if (!status.ok()) return entry.path().string() + " cannot be read: " + status.ToString();
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<KvStore>> open_rocksdb(std::filesystem::path folder, RocksDbOptions options) {
  PHAROS_TRY(Fd lock, lock_folder(folder));
  PHAROS_TRY_VOID(check_files(folder));
  const auto database_options = make_options(folder.string());
  rocksdb::DB* opened = nullptr;
  auto status = rocksdb::DB::Open(database_options, folder.string(), &opened);
  std::unique_ptr<rocksdb::DB> db{opened};
  // By default RocksDB checks a block of a table only when it reads the block, and some blocks are never read.
  if (status.ok()) status = db->VerifyFileChecksums({});
  if (!status.ok()) {
    Error error = to_error(status, "opening the store in " + folder.string());
    if (!status.IsCorruption()) return error;
    db.reset();
    const auto table = damaged_table(database_options, folder);
    if (table.empty()) return error;
    return std::move(error).with(table);
  }
  return std::unique_ptr<KvStore>{
      std::make_unique<RocksDbKvStore>(folder.string(), std::move(lock), std::move(db), options)};
}

}  // namespace pharos::storage
