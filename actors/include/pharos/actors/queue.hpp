#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include <pharos/actors/actor.hpp>
#include <pharos/actors/exceptions.hpp>
#include <pharos/actors/options.hpp>
#include <pharos/actors/runtime.hpp>
#include <pharos/async/async.hpp>
#include <pharos/async/completion.hpp>
#include <pharos/base/error.hpp>

/// A queue that tasks, actors and programs share.
namespace pharos {

/// How a queue is made. A value.
struct QueueOptions {
  /// The most items that the queue holds; at least 1. Puts beyond it wait for room.
  std::size_t capacity = 1000;
  /// The actor that holds the items. With a name and a namespace, Queue::find() finds it.
  ActorOptions actor{};
};

namespace detail {

/// The actor behind a Queue. Its calls run one at a time, and go on where they wait. Those that wait are served first
/// in, first out, so a call that finds nobody before it is done at once.
template <class T>
class QueueServer {
 public:
  explicit QueueServer(std::size_t capacity) : capacity_{capacity} {}

  Async<void> put(T item) {
    if (must_wait(putters_, can_put())) co_await turn(putters_, &QueueServer::can_put, Place::kLast);
    refuse_if_closed();
    items_.push_back(std::move(item));
    wake();
  }
  Async<void> put_all(std::vector<T> items) {
    Place place = Place::kLast;
    for (auto next = items.begin(); next != items.end(); place = Place::kFirst) {
      if (place == Place::kFirst || must_wait(putters_, can_put())) {
        co_await turn(putters_, &QueueServer::can_put, place);
      }
      refuse_if_closed();
      const auto count = std::min<std::ptrdiff_t>(items.end() - next, room());
      items_.insert(items_.end(), std::move_iterator{next}, std::move_iterator{next + count});
      next += count;
      wake();
    }
  }
  Async<T> get() {
    if (must_wait(getters_, can_get())) co_await turn(getters_, &QueueServer::can_get, Place::kLast);
    if (items_.empty()) refuse_if_closed();
    T item = std::move(items_.front());
    items_.pop_front();
    wake();
    co_return item;
  }
  Async<std::vector<T>> get_some(std::size_t most) {
    if (most == 0) {
      throw_error(Error{ErrorCode::kInvalidArgument, "get_some() was asked for no item",
                        "Ask for at least one: an empty list means that the queue is closed."});
    }
    if (must_wait(getters_, can_get())) co_await turn(getters_, &QueueServer::can_get, Place::kLast);
    const auto end = items_.begin() + static_cast<std::ptrdiff_t>(std::min(most, items_.size()));
    std::vector<T> taken{std::move_iterator{items_.begin()}, std::move_iterator{end}};
    items_.erase(items_.begin(), end);
    wake();
    co_return taken;
  }
  std::size_t size() const { return items_.size(); }
  void close() {
    closed_ = true;
    wake();
  }

 private:
  using Line = std::deque<async::Completion<void>*>;
  enum class Place : bool { kFirst, kLast };

  std::ptrdiff_t room() const {
    return static_cast<std::ptrdiff_t>(capacity_) - static_cast<std::ptrdiff_t>(items_.size());
  }
  bool can_put() const { return closed_ || room() > 0; }
  bool can_get() const { return closed_ || !items_.empty(); }
  static bool must_wait(const Line& line, bool can) { return !line.empty() || !can; }

  void refuse_if_closed() const {
    if (!closed_) return;
    throw_error(Error{ErrorCode::kFailedPrecondition, "the queue is closed", "Somebody has called Queue::close()."});
  }

  /// Waits until this call is the first of the line and may go on. It stays in the line until then, so that nobody
  /// overtakes it. If it gives up, the next one has its turn.
  Async<void> turn(Line& line, bool (QueueServer::*can)() const, Place place) {
    async::Completion<void> own;
    if (place == Place::kFirst) {
      line.push_front(&own);
    } else {
      line.push_back(&own);
    }
    if (line.front() == &own && (this->*can)()) own.complete();
    const auto woken = co_await own.wait(context().deadline);
    if (line.front() == &own) {
      line.pop_front();  // without a look at the others, which may be many
    } else {
      std::erase(line, &own);
    }
    // The caller may have given up although the wait has ended well: its deadline has passed in this moment.
    const bool gives_up = !woken || cancelled();
    if (gives_up || closed_) wake();  // this call changes nothing, but others may go on
    if (!woken) throw_error(woken.error());
    if (gives_up) throw_error(Error{ErrorCode::kCancelled, "the caller does not wait any more"});
  }
  void wake() {
    if (!getters_.empty() && can_get()) getters_.front()->complete();
    if (!putters_.empty() && can_put()) putters_.front()->complete();
  }

  const std::size_t capacity_;
  std::deque<T> items_;
  bool closed_ = false;
  Line putters_;
  Line getters_;
};

}  // namespace detail

/// A bounded queue, first in, first out, for any number of producers and consumers in any processes:
///
///   const auto queue = Queue<Job>::make(runtime, {.capacity = 100});
///   queue.put(job).get();                  // waits while the queue is full
///   const Job next = queue.get().get();    // waits while it is empty
///
/// An actor holds the items. A value; copies are handles of the same queue, which may be arguments and results. The
/// queue lives as long as a handle, like any actor. Any thread may use it.
///
/// Calls that wait are served in the order in which they came. A call that is cancelled, or whose deadline passes while
/// it waits, has no effect. For many items, make many calls before you wait for the first one, or use put_all() and
/// get_some(): the queue's process then answers many at a time.
///
/// Failure: the Refs throw FailedPrecondition after close(), and ActorDied when the queue's process has died, with
/// which its items are lost. An item is also lost if its consumer dies before the item arrives.
template <class T>
class Queue {
 public:
  /// Makes a queue. Throws InvalidArgument if the capacity is 0, and what Runtime::spawn() throws.
  static Queue make(Runtime& runtime, const QueueOptions& options = {}) {
    if (options.capacity == 0) {
      throw_error(Error{ErrorCode::kInvalidArgument, "a queue of capacity 0 can hold nothing",
                        "Set QueueOptions::capacity to at least 1."});
    }
    return Queue{runtime.spawn<Server>(options.actor, options.capacity)};
  }
  /// Finds a queue of that name, which a program of the same build has made. Throws what Runtime::actor() throws.
  static Queue find(Runtime& runtime, const std::string& name, const std::string& name_space = {}) {
    return Queue{runtime.actor<Server>(name, name_space)};
  }
  explicit Queue(Actor<detail::QueueServer<T>> server) : server_{std::move(server)} {}

  /// The Ref is ready when the queue has the item.
  Ref<void> put(T item, const CallOptions& options = {}) const {
    return server_.template call<&Server::put>(options, std::move(item));
  }
  /// Puts items one after the other, with no others between them as long as there is room. The Ref is ready when the
  /// queue has them all. If it throws, the queue may have some of them.
  Ref<void> put_all(std::vector<T> items, const CallOptions& options = {}) const {
    return server_.template call<&Server::put_all>(options, std::move(items));
  }
  /// Takes the first item. After close() and the last item the Ref throws FailedPrecondition.
  Ref<T> get(const CallOptions& options = {}) const { return server_.template call<&Server::get>(options); }
  /// Takes all items that are there, but at most so many; waits until there is one. After close() and the last item
  /// the list is empty. `most` is at least 1.
  Ref<std::vector<T>> get_some(std::size_t most, const CallOptions& options = {}) const {
    return server_.template call<&Server::get_some>(options, most);
  }
  /// The number of items, which may be another one when the answer comes.
  Ref<std::size_t> size() const { return server_.template call<&Server::size>(); }
  /// From now on puts fail, also those that wait. Consumers get the items that are left.
  Ref<void> close() const { return server_.template call<&Server::close>(); }

  const Actor<detail::QueueServer<T>>& actor() const { return server_; }

 private:
  using Server = detail::QueueServer<T>;
  Actor<Server> server_;
};

template <class T>
struct Codec<Queue<T>> {
  static void encode(const Queue<T>& queue, Encoder& to) {
    Codec<Actor<detail::QueueServer<T>>>::encode(queue.actor(), to);
  }
  static Queue<T> decode(Decoder& from) { return Queue<T>{Codec<Actor<detail::QueueServer<T>>>::decode(from)}; }
};

}  // namespace pharos
