#pragma once

#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <pharos/async/async_group.hpp>
#include <pharos/async/executor.hpp>
#include <pharos/async/unique_function.hpp>
#include <pharos/storage/kv_store.hpp>
#include <pharos/wire/message.hpp>

namespace pharos::node {

/// The head's durable state, in a store. Also holds the head's messages back until the changes that they rest on are
/// durable.
///
/// 1. The changes of one event become durable together or not at all.
/// 2. Effects (the messages of events) run in the order in which they were committed, each after all changes before it
///    are durable.
/// 3. After a failed write no effect runs any more, and later changes are dropped. WhenFailed is told, once, on the
///    strand, and the head has to be replaced by one that is made from what is durable.
///
/// One write is under way at a time; changes that come meanwhile are in the next one. There is no bound: if the disk is
/// slow, changes pile up in memory.
/// Owned by HeadHere, and outlives the head. The store outlives the records. Everything is on the head's strand. End:
/// close(); then the executor has to run what is posted until closed() is true. The destructor aborts the process if a
/// write is still under way.
class Records {
 public:
  using Effect = async::UniqueFunction<void()>;
  using WhenFailed = async::UniqueFunction<void(const Error& why)>;
  /// A key and its record.
  using Record = std::pair<std::string, wire::Message>;

  Records(async::Executor& executor, storage::KvStore& store, WhenFailed when_failed)
      : store_{store}, when_failed_{std::move(when_failed)}, background_{executor} {}
  Records(Records&&) = delete;

  /// All records of a store. A record that cannot be decoded is moved below `aside/`, and counted.
  struct Found {
    std::vector<Record> records;
    std::size_t set_aside = 0;
  };
  /// Reads the store. Fails with kUnsupported if another version of Pharos has written it, or with an error of the
  /// store.
  static async::Async<Result<Found>> load(storage::KvStore* store);

  // ---- Changes of the event that is under way

  void put(std::string key, const wire::Message& record);
  void erase(std::string key) { batch_.erase(std::move(key)); }
  /// Moves a record that does not fit the others below `aside/`: users can look at it there, and it is never read
  /// again.
  void set_aside(const Record& record);
  /// Ends the event. `effect` runs once the changes of this event and those before are durable; at once, inside this
  /// call, if there are none to wait for.
  void commit(Effect effect);

  /// Bytes that are left on the store's disk.
  ByteCount free_space() const { return store_.free_space(); }

  /// Returns whether all changes so far are durable.
  bool idle() const { return !failed_ && batch_.empty() && pending_.empty(); }

  /// Closes the records, waits until they are closed, and destroys them.
  static async::Async<void> end(std::unique_ptr<Records> records);
  /// No effect runs any more. The write under way may become durable or not; the changes behind it are lost.
  void close() {
    closed_ = true;
    background_.cancel();
  }
  bool closed() const { return background_.size() == 0; }

 private:
  struct Pending {
    storage::Batch batch;  // changes of one or more events
    std::vector<Effect> effects;
  };
  async::Async<void> write();

  storage::KvStore& store_;
  WhenFailed when_failed_;
  storage::Batch batch_;         // changes of the event that is under way
  std::deque<Pending> pending_;  // the first is being written
  bool failed_ = false;
  bool closed_ = false;
  async::AsyncGroup background_;
};

}  // namespace pharos::node
