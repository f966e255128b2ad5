#pragma once

#include <optional>

#include <pharos/wire/message.hpp>

namespace pharos::actors {

/// The number of threads with which OpenMP and libtorch compute in the calls of a worker: the whole CPUs that its actor
/// or its task has reserved, at least one. Otherwise each worker of a machine would compute with all of its cores.
///
/// It is set by calls, because after the fork of a worker these libraries do not read variables any more. OpenMP has a
/// number for each thread, and the calls of a worker run on two threads, so each call looks at its own.
///
/// Owned by Workplace, in a worker process. Used on the strand. Never fails.
class ComputeThreads {
 public:
  /// nullopt if the program has neither library, or if it has the variable OMP_NUM_THREADS: then the user has chosen.
  static std::optional<ComputeThreads> of_process();

  /// Returns the number for these resources.
  static int number_for(const wire::WorkerResources& held);
  /// A call of the actor begins on this thread. If the actor's own code has set another number in an earlier call, on
  /// any thread, that number stays.
  void begin_of_actor(int number);
  /// A call of the actor ends.
  void end_of_actor();
  /// A task begins on this thread. What an earlier task has set is of no account.
  void begin_of_task(int number);

 private:
  using Set = void (*)(int);
  using Get = int (*)();

  ComputeThreads(Set set, Get get) : set_{set}, get_{get} {}
  void match(int number);

  Set set_;
  Get get_;
  int newest_ = 0;               // what was set last, on any thread; 0: nothing
  std::optional<int> actors_{};  // what the actor's last call has left
};

}  // namespace pharos::actors
