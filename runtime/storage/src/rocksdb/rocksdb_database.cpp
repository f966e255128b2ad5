#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/file_checksum.h>
#include <rocksdb/options.h>
#include <rocksdb/sst_file_reader.h>
#include <rocksdb/write_batch.h>

#include <cstdarg>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "database.hpp"

namespace pharos::storage {
namespace {

/// Hands RocksDB's log lines on, instead of writing LOG files that grow in the folder. RocksDB also returns the
/// failures of calls, and the code that handles them logs them, so errors are lowered to warnings here. The errors of
/// its background threads are reported in no other way.
class LogLines final : public rocksdb::Logger {
 public:
  LogLines(std::string folder, DatabaseLog log)
      : rocksdb::Logger{rocksdb::InfoLogLevel::WARN_LEVEL}, folder_{std::move(folder)}, log_{log} {}

  using rocksdb::Logger::Logv;
  void Logv(const rocksdb::InfoLogLevel level, const char* format, std::va_list arguments) override {
    if (level < rocksdb::InfoLogLevel::WARN_LEVEL) return;
    char line[512];
    std::vsnprintf(line, sizeof line, format, arguments);
    log_(level >= rocksdb::InfoLogLevel::ERROR_LEVEL, folder_, line);
  }

 private:
  std::string folder_;
  DatabaseLog log_;
};

rocksdb::Options make_options(const std::string& folder, DatabaseLog log) {
  rocksdb::Options options;
  options.create_if_missing = true;
  options.info_log = std::make_shared<LogLines>(folder, log);

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

DatabaseFailure failure_of(const rocksdb::Status& status) {
  using Kind = DatabaseFailure::Kind;
  const std::string text = status.ToString();
  // A call that waits for a failed compaction gets the reason only as text.
  const bool had_no_room = status.IsIncomplete() && text.find("No space left on device") != std::string::npos;
  if (status.IsNoSpace() || had_no_room) return {Kind::kNoRoom, text};
  if (status.IsCorruption() || status.IsPathNotFound()) return {Kind::kCorrupt, text};
  if (status.IsMemoryLimit()) return {Kind::kNoMemory, text};
  if (status.IsInvalidArgument() || status.IsNotSupported()) return {Kind::kOtherVersion, text};
  if (status.IsIOError()) return {Kind::kDiskFails, text};
  return {Kind::kOther, text};
}

class RocksDatabase final : public Database {
 public:
  explicit RocksDatabase(std::unique_ptr<rocksdb::DB> db) : db_{std::move(db)} {}

  DatabaseResult<std::optional<std::string>> read(const std::string& key) const override {
    std::string value;
    const auto status = db_->Get(read_options(), key, &value);
    if (status.IsNotFound()) return std::optional<std::string>{};
    if (!status.ok()) return failure_of(status);
    return std::optional<std::string>{std::move(value)};
  }

  DatabaseResult<std::vector<KeyValue>> read_page(const std::string& prefix, const std::optional<std::string>& after,
                                                  std::size_t limit) const override {
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
    if (!pair->status().ok()) return failure_of(pair->status());
    return found;
  }

  /// Invariant 2 of committer.hpp: one write, one record of the log, one sync.
  std::optional<DatabaseFailure> commit(std::span<const Batch* const> batches) override {
    rocksdb::WriteBatch group;
    for (const Batch* batch : batches) {
      for (const auto& change : batch->changes()) {
        const auto status = change.value ? group.Put(change.key, *change.value) : group.Delete(change.key);
        if (!status.ok()) return failure_of(status);
      }
    }
    rocksdb::WriteOptions options;
    options.sync = true;
    const auto status = db_->Write(options, &group);
    if (!status.ok()) return failure_of(status);
    return std::nullopt;
  }

 private:
  static rocksdb::ReadOptions read_options() {
    rocksdb::ReadOptions options;
    options.verify_checksums = true;
    return options;
  }

  const std::unique_ptr<rocksdb::DB> db_;
};

/// RocksDB reports some damage to a table as damage to the manifest. This function returns the first table that cannot
/// be read, with the reason; an empty string if all tables can be read.
std::string damaged_table(const rocksdb::Options& options, const std::string& folder) {
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

DatabaseResult<std::unique_ptr<Database>> open(const std::string& folder, DatabaseLog log) {
  const auto options = make_options(folder, log);
  rocksdb::DB* opened = nullptr;
  auto status = rocksdb::DB::Open(options, folder, &opened);
  std::unique_ptr<rocksdb::DB> db{opened};
  // By default RocksDB checks a block of a table only when it reads the block, and some blocks are never read.
  if (status.ok()) status = db->VerifyFileChecksums({});
  if (status.ok()) return std::make_unique<RocksDatabase>(std::move(db));
  DatabaseFailure failure = failure_of(status);
  if (status.IsCorruption()) {
    db.reset();
    if (const std::string table = damaged_table(options, folder); !table.empty()) failure.text += "; " + table;
  }
  return failure;
}

}  // namespace
}  // namespace pharos::storage

extern "C" __attribute__((visibility("default"))) void pharos_open_database(
    const std::string& folder, pharos::storage::DatabaseLog log,
    pharos::storage::DatabaseResult<std::unique_ptr<pharos::storage::Database>>& opened) {
  opened = pharos::storage::open(folder, log);
}
