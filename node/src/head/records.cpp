#include "head/records.hpp"

#include <span>

#include <pharos/base/log.hpp>
#include <pharos/node/failpoints.hpp>

namespace pharos::node {
namespace {

constexpr std::string_view kAside = "aside/";
constexpr std::size_t kPage = 1024;
constexpr ByteCount kWriteBytesMax{1u << 20};  // a larger write takes no further events

std::string bytes_of(const wire::Message& record) {
  const std::vector<std::byte> bytes = wire::encode(record);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

async::Async<Result<Records::Found>> Records::load(storage::KvStore* store) {
  Found found;
  std::optional<std::string> last;
  storage::Batch aside;
  for (bool more = true; more;) {
    PHAROS_CO_TRY(auto page, co_await store->scan_after("", last, kPage, async::Deadline::never()));
    more = page.size() == kPage;
    for (storage::KeyValue& each : page) {
      last = each.key;
      if (each.key.starts_with(kAside)) {
        ++found.set_aside;
        continue;
      }
      auto record = wire::decode(std::as_bytes(std::span{each.value}));
      if (record) {
        found.records.emplace_back(std::move(each.key), *std::move(record));
        continue;
      }
      if (record.error().code() == ErrorCode::kUnsupported) {
        co_return Error{ErrorCode::kUnsupported, "another version of Pharos has written the head's records",
                        "Start that version, or give another folder to --state: a new cluster begins there."};
      }
      log(LogLevel::kError, "a record of the head cannot be decoded, and is set aside",
          {kv("key", each.key), kv("error", record.error())});
      aside.erase(each.key).put(std::string{kAside} + each.key, std::move(each.value));
      ++found.set_aside;
    }
  }
  if (!aside.empty()) PHAROS_CO_TRY_VOID(co_await store->write(std::move(aside), async::Deadline::never()));
  co_return found;
}

async::Async<void> Records::end(std::unique_ptr<Records> records) {
  records->close();
  [[maybe_unused]] const auto joined = co_await records->background_.join(async::Deadline::never());
}

void Records::put(std::string key, const wire::Message& record) {
  batch_.put(std::move(key), bytes_of(record));
}

void Records::set_aside(const Record& record) {
  log(LogLevel::kError, "a record of the head does not fit the others, and is set aside", {kv("key", record.first)});
  batch_.erase(record.first).put(std::string{kAside} + record.first, bytes_of(record.second));
}

void Records::commit(Effect effect) {
  if (failed_) return;
  if (batch_.empty() && pending_.empty()) return effect();
  const bool writes = !pending_.empty();
  // The first batch is being written, so nothing can be added to it. An event without changes waits for the last batch.
  if (!batch_.empty() && (pending_.size() < 2 || pending_.back().batch.bytes() > kWriteBytesMax)) {
    pending_.emplace_back();
  }
  Pending& last = pending_.back();
  for (const auto& change : batch_.changes()) {
    change.value ? last.batch.put(change.key, *change.value) : last.batch.erase(change.key);
  }
  batch_ = {};
  last.effects.push_back(std::move(effect));
  if (!writes) background_.spawn(write());
}

async::Async<void> Records::write() {
  while (!pending_.empty()) {
    Result<void> written = Error{ErrorCode::kExhausted, "a failpoint says that the disk is full"};
    if (!failpoint(failpoints::kRecordsReady)) {
      written = co_await store_.write(pending_.front().batch, async::Deadline::never());
    }
    if (closed_) co_return;
    failpoint(failpoints::kRecordsWritten);
    if (!written) {
      failed_ = true;
      pending_.clear();
      when_failed_(written.error());
      co_return;
    }
    Pending done = std::move(pending_.front());
    pending_.pop_front();
    for (Effect& effect : done.effects) {
      effect();
      failpoint(failpoints::kRecordsSaid);
    }
  }
}

}  // namespace pharos::node
