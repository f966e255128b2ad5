#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <pharos/actors/member.hpp>
#include <pharos/actors/options.hpp>
#include <pharos/actors/registered_function.hpp>
#include <pharos/net/peer.hpp>

#include "caller/caller.hpp"
#include "caller/flush_queue.hpp"
#include "program/platform.hpp"
#include "worker/compute_threads.hpp"
#include "worker/strand.hpp"
#include "worker/strand_executor.hpp"

namespace pharos::actors {

/// The actor that lives in this worker, if there is one. Owned by Workplace, and used on the strand. Only destroy()
/// deletes the object, on the thread that calls it; a destructor that throws ends the process.
struct Instance {
  void* object = nullptr;
  const detail::Function* constructor = nullptr;
  ActorId actor;
  std::uint32_t incarnation = 0;
  std::string name_space;
  wire::WorkerResources holding;
  int compute_threads = 1;  // ComputeThreads::number_for() what it holds
  Member member;            // its place, as its group said it last; group 0 if it is in no group

  void destroy() {
    if (object != nullptr) constructor->destroy(std::exchange(object, nullptr));
  }
};

/// What the calls of one worker share: their order (the strand), the actor that they run on, the Caller for the calls
/// that they make, and what the node is told about them. Owned by the CallServer, and in a worker process never
/// destroyed. Any thread, unless a function says otherwise.
class Workplace {
 public:
  explicit Workplace(const std::shared_ptr<Platform>& platform);

  /// Called once, when the node has registered the worker.
  void join(std::shared_ptr<net::Peer> node, const wire::JobRegistered& registered);
  Platform& platform() { return *platform_; }
  Strand& strand() { return strand_; }
  /// The executor whose work takes its turn among the calls.
  StrandExecutor& executor() { return executor_; }
  Instance& instance() { return instance_; }
  FlushQueue& flush_queue() { return *flush_queue_; }
  /// Called by a worker process before calls come: their code computes with as many threads as their CPUs.
  void match_compute_threads() { compute_threads_ = ComputeThreads::of_process(); }
  /// Returns null where nothing is matched: in a program without such libraries, and in the simulator, which shares its
  /// threads with the program that tests.
  ComputeThreads* compute_threads() { return compute_threads_ ? &*compute_threads_ : nullptr; }
  const std::shared_ptr<detail::Caller>& caller() const { return caller_; }

  /// From now on the instance is this actor, which is about to be constructed. On the strand.
  void take_actor(const detail::Function& constructor, const wire::ConstructActor& actor);
  /// Returns the context of code that runs as this actor (an Instance without an actor for a task), with these
  /// resources.
  Context context(const Instance& instance, const wire::WorkerResources& held) const;
  /// If this process is an actor's, returns the context for its threads that run no call; else nullopt. Any thread.
  static std::optional<Context> context_of_process();

  /// Begins the end without waiting: from now on calls are refused; tasks, and calls of an actor that moves to another
  /// node, are returned to their callers.
  void begin_stop(bool moves = false) {
    moves_.store(moves);
    stopping_.store(true);
  }
  bool stopping() const { return stopping_.load(std::memory_order_acquire); }
  bool moves() const { return moves_.load(std::memory_order_relaxed); }
  /// Ends the actor after the running call, because its own code asks for that (pharos::exit_actor()). Does not wait.
  /// kFailedPrecondition if there is no actor; does nothing if the worker stops already.
  Result<void> exit_actor();
  /// Returns the error of an exit_actor() by code that is no actor's.
  static Error no_actor_to_exit();

  /// Describes what runs and what waits in this worker.
  wire::Inspected inspect() const;
  /// Notes that a call begins on the strand. inspect() describes it until note_end().
  void note_begin(const detail::Function& function, TimePoint since, CallerId caller, std::uint64_t number,
                  bool may_run_again);
  void note_end() { runs_.function.store(nullptr, std::memory_order_release); }
  /// Ends this process if it is a child of fork(). To be called when user code has returned: if it called fork(), it
  /// returns in the child, too, but only the parent may answer. No destructors run.
  void end_if_child() const;

  /// Notes that the running task waits in get(), so that its CPU may go to other workers. Until unblock() the worker
  /// takes no other tasks. Returns false if another task had blocked the worker before; unblock() must follow all the
  /// same, because the worker counts its blocked tasks.
  bool block();
  void unblock();
  bool blocked() const { return blocked_.load() != 0; }

 private:
  const std::shared_ptr<Platform> platform_;
  const std::shared_ptr<FlushQueue> flush_queue_;
  const std::shared_ptr<detail::Caller> caller_;
  Strand strand_;
  StrandExecutor executor_;
  Instance instance_;
  std::optional<ComputeThreads> compute_threads_;
  std::shared_ptr<net::Peer> node_;
  WorkerId worker_;
  std::atomic<int> blocked_ = 0;
  std::atomic<bool> stopping_ = false;
  std::atomic<bool> moves_ = false;  // written before stopping_, and read by who has seen stopping_: hence relaxed
  // What the strand runs. `function` is written last, and publishes the others, which inspect() reads after it.
  struct {
    std::atomic<const detail::Function*> function = nullptr;
    std::atomic<std::int64_t> since = 0;
    std::atomic<std::uint64_t> caller = 0;
    std::atomic<std::uint64_t> number = 0;
    std::atomic<bool> may_run_again = false;
  } runs_;
};

}  // namespace pharos::actors
