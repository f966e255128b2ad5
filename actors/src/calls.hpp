#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <pharos/actors/function.hpp>
#include <pharos/actors/member.hpp>
#include <pharos/actors/options.hpp>
#include <pharos/net/peer.hpp>

#include "caller.hpp"
#include "flush_queue.hpp"
#include "platform.hpp"
#include "strand.hpp"
#include "strand_executor.hpp"

namespace pharos::actors {

/// The actor that lives here, if one does. The strand's.
struct Instance {
  void* object = nullptr;
  const detail::Function* constructor = nullptr;
  ActorId actor;
  std::uint32_t incarnation = 0;
  std::string name_space;
  wire::Holding holding;
  Member member;  // its place, as its group said it last; of a group 0: it is in none

  void destroy() {
    if (object != nullptr) constructor->destroy(std::exchange(object, nullptr));
  }
};

class CallerLink;
struct RemoteCaller;

/// What a worker does: serves callers, in an order that they share, and calls for the code that it runs.
/// Made and composed by whoever is the worker's process, which reads for it. Any thread.
class Calls {
 public:
  explicit Calls(const std::shared_ptr<Platform>& platform);

  Strand& strand() { return strand_; }
  /// What runs on it takes its turn among the calls.
  StrandExecutor& executor() { return executor_; }
  Instance& instance() { return instance_; }
  FlushQueue& flush_queue() { return *flush_queue_; }
  const std::shared_ptr<detail::Caller>& caller() const { return caller_; }
  WorkerId worker() const { return worker_; }
  /// Of code that this worker runs with that, as that actor if it is one.
  Context context(const Instance& instance, const wire::Holding& held) const;
  /// Where this process is one actor's: as its methods have it, for threads that run none of its calls.
  static std::optional<Context> context_of_process();
  Platform& platform() { return *platform_; }
  /// A task of this worker waits for something: it takes no others meanwhile.
  bool blocked() const { return blocked_.load() != 0; }

  /// What the node tells: whom to serve, which actor to be, what callers are told.
  void on_node_message(const std::shared_ptr<net::Peer>& node, net::Parcel parcel);
  /// No call begins any more; one that runs may go on for a while, and is told. False when it runs on then; else the
  /// actor's destructor has run.
  bool stop(Duration grace = {});
  /// The same, without waiting: calls that come are refused; tasks, and calls of an actor that moves, are given back.
  void begin_stop(bool moves = false) {
    moves_.store(moves);
    stopping_.store(true);
  }
  bool stopping() const { return stopping_.load(std::memory_order_acquire); }
  bool moves() const { return moves_.load(std::memory_order_relaxed); }
  /// The actor's own wish: it ends after this call.
  Result<void> exit_actor();
  /// After stop(), where the process does not end then: calls that are suspended are woken, and run to their end.
  void end_suspended();

  /// What runs and what waits, for whoever asks meanwhile. Any thread.
  wire::Inspected inspect() const;
  /// A call of the strand begins, which `inspect()` will tell of, until it ends.
  void note_begin(const detail::Function& function, TimePoint since, CallerId caller, std::uint64_t number,
                  bool may_run_again);
  void note_end() { runs_.function.store(nullptr, std::memory_order_release); }
  /// User code has come back twice, and this is a child of fork(): the answer is its parent's to give.
  void end_if_child() const;

  /// A caller's connection has ended. What it sent before still runs.
  void forget(const CallerLink& link);
  /// The running task, which came with `link`, waits: others may have its CPU, and the tasks behind it.
  void block(CallerLink& link);
  void unblock();

 private:
  void join(std::shared_ptr<net::Peer> node, const wire::JobRegistered& registered);
  void serve(wire::ServeCaller caller, Fd socket);
  void construct(wire::ConstructActor actor);
  std::optional<Error> run_constructor(const wire::ConstructActor& actor);
  void forget_if_away(const std::shared_ptr<RemoteCaller>& caller);

  const std::shared_ptr<Platform> platform_;
  const std::shared_ptr<FlushQueue> flush_queue_;
  const std::shared_ptr<detail::Caller> caller_;
  Strand strand_;
  StrandExecutor executor_;
  Instance instance_;
  std::shared_ptr<net::Peer> node_;
  WorkerId worker_;
  std::atomic<int> blocked_ = 0;
  std::atomic<bool> stopping_ = false;
  std::atomic<bool> moves_ = false;
  struct {
    std::atomic<const detail::Function*> function = nullptr;
    std::atomic<std::int64_t> since = 0;
    std::atomic<std::uint64_t> caller = 0;
    std::atomic<std::uint64_t> number = 0;
    std::atomic<bool> may_run_again = false;
  } runs_;
  std::mutex links_mutex_;
  std::vector<std::shared_ptr<CallerLink>> links_;
  std::unordered_map<CallerId, std::shared_ptr<RemoteCaller>> remote_callers_;
  std::unordered_map<CallerId, std::uint64_t>
      forgotten_callers_;  // all that were ever here and are not: their next call
};

}  // namespace pharos::actors
