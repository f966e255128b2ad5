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

/// What a head must not lose, in a store; and what it has to say, which is held back until what it rests on is durable.
///
/// 1. What one event changes is durable together or not at all.
/// 2. What a head says runs in the order in which it was said, after all changes before it are durable.
/// 3. After a write has failed nothing is said any more: the head is to be made anew of what is durable.
///
/// One write is under way at a time; what comes meanwhile is in the next one.
/// Owned by the head's owner, and outlives the head. Everything on the head's strand. End: close(), then whatever is
/// posted runs until closed().
class Records {
 public:
  using Effect = async::UniqueFunction<void()>;
  using WhenFailed = async::UniqueFunction<void(const Error& why)>;
  /// A key, and what it stands for.
  using Record = std::pair<std::string, wire::Message>;

  Records(async::Executor& executor, storage::KvStore& store, WhenFailed when_failed)
      : store_{store}, when_failed_{std::move(when_failed)}, background_{executor} {}
  Records(Records&&) = delete;

  /// All that is there. What makes no sense is put aside, below `aside/`, and counted.
  struct Found {
    std::vector<Record> records;
    std::size_t set_aside = 0;
  };
  static async::Async<Result<Found>> load(storage::KvStore* store);

  // ---- Of the event that is under way

  void put(std::string key, const wire::Message& record);
  void erase(std::string key) { batch_.erase(std::move(key)); }
  /// It makes no sense: it is kept for people to look at, and never read again.
  void set_aside(const Record& record);
  /// The event's end. `effect` is what the head says of it.
  void commit(Effect effect);

  /// What the store's disk has left.
  ByteCount free_space() const { return store_.free_space(); }

  /// All that it was told is durable.
  bool idle() const { return !failed_ && batch_.empty() && pending_.empty(); }

  /// close(), until it is closed and gone.
  static async::Async<void> end(std::unique_ptr<Records> records);
  /// Nothing more is said. What is under way may become durable or not.
  void close() {
    closed_ = true;
    background_.cancel();
  }
  bool closed() const { return background_.size() == 0; }

 private:
  struct Pending {
    storage::Batch batch;  // of one or more events
    std::vector<Effect> effects;
  };
  static async::Async<void> write(Records* self);

  storage::KvStore& store_;
  WhenFailed when_failed_;
  storage::Batch batch_;         // of the event that is under way
  std::deque<Pending> pending_;  // the first is being written
  bool failed_ = false;
  bool closed_ = false;
  async::AsyncGroup background_;
};

}  // namespace pharos::node
