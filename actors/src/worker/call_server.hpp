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

#include "caller/caller.hpp"
#include "caller/flush_queue.hpp"
#include "program/platform.hpp"
#include "worker/strand.hpp"
#include "worker/strand_executor.hpp"

namespace pharos::actors {

/// The actor that lives in this worker, if there is one. Used on the strand.
struct Instance {
  void* object = nullptr;
  const detail::Function* constructor = nullptr;
  ActorId actor;
  std::uint32_t incarnation = 0;
  std::string name_space;
  wire::Holding holding;
  Member member;  // its place, as its group said it last; group 0 if it is in no group

  void destroy() {
    if (object != nullptr) constructor->destroy(std::exchange(object, nullptr));
  }
};

class IncomingCalls;
struct RemoteCaller;

/// The work of a worker: it serves callers, whose calls share one order (the strand), and makes calls for the code that
/// it runs (Caller). Made by the worker process, which reads the messages of the node for it. Any thread, unless a
/// function says otherwise. End: stop() ends the calls. In a worker process it is never destroyed.
class CallServer {
 public:
  explicit CallServer(const std::shared_ptr<Platform>& platform);

  Strand& strand() { return strand_; }
  /// The executor whose work takes its turn among the calls.
  StrandExecutor& executor() { return executor_; }
  Instance& instance() { return instance_; }
  FlushQueue& flush_queue() { return *flush_queue_; }
  const std::shared_ptr<detail::Caller>& caller() const { return caller_; }
  WorkerId worker() const { return worker_; }
  /// Returns the context of code that runs as this actor (an Instance without an actor for a task), with these
  /// resources.
  Context context(const Instance& instance, const wire::Holding& held) const;
  /// If this process is an actor's, returns the context for its threads that run no call; else nullopt.
  static std::optional<Context> context_of_process();
  Platform& platform() { return *platform_; }
  /// Returns whether a task of this worker waits in get(). Until it goes on, the worker takes no other tasks.
  bool blocked() const { return blocked_.load() != 0; }

  /// Handles a message of the node: a caller to serve, an actor to construct, or a message for Caller.
  void on_node_message(const std::shared_ptr<net::Peer>& node, net::Parcel parcel);
  /// Ends the work: no call begins any more, and calls that have begun see stopping() and may go on for `grace`. Then
  /// the actor's destructor runs. Returns false if a call still runs; then the destructor has not run.
  bool stop(Duration grace = {});
  /// Begins the end without waiting: from now on calls are refused; tasks, and calls of an actor that moves to another
  /// node, are returned to their callers.
  void begin_stop(bool moves = false) {
    moves_.store(moves);
    stopping_.store(true);
  }
  bool stopping() const { return stopping_.load(std::memory_order_acquire); }
  bool moves() const { return moves_.load(std::memory_order_relaxed); }
  /// Ends the actor after the running call, because its own code asks for that (pharos::exit_actor()).
  Result<void> exit_actor();
  /// For a process that does not end after stop() (the simulator): wakes the suspended calls, which then run to their
  /// end.
  void end_suspended();

  /// Describes what runs and what waits in this worker. Any thread.
  wire::Inspected inspect() const;
  /// Notes that a call begins on the strand. inspect() describes it until note_end().
  void note_begin(const detail::Function& function, TimePoint since, CallerId caller, std::uint64_t number,
                  bool may_run_again);
  void note_end() { runs_.function.store(nullptr, std::memory_order_release); }
  /// Ends this process if it is a child of fork(). To be called when user code has returned: if it called fork(), it
  /// returns in the child, too, but only the parent may answer.
  void end_if_child() const;

  /// Removes a caller's connection, which has ended. Calls that came before still run.
  void forget(const IncomingCalls& incoming);
  /// Notes that the running task, which came with `incoming`, waits. Its CPU, and the tasks behind it, may go to other
  /// workers.
  void block(IncomingCalls& incoming);
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
  std::mutex connections_mutex_;
  std::vector<std::shared_ptr<IncomingCalls>> connections_;
  std::unordered_map<CallerId, std::shared_ptr<RemoteCaller>> remote_callers_;
  std::unordered_map<CallerId, std::uint64_t>
      forgotten_callers_;  // remote callers that were forgotten, with the number of their next call
};

}  // namespace pharos::actors
