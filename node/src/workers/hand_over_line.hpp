#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include <pharos/async/async.hpp>
#include <pharos/async/unique_function.hpp>
#include <pharos/base/fd.hpp>
#include <pharos/scheduler/hand_overs.hpp>
#include <pharos/wire/message.hpp>

#include "node/client.hpp"
#include "node/site.hpp"
#include "workers/worker.hpp"

namespace pharos::node {

/// Sockets on their way to workers. scheduler::HandOvers says how many may be on their way at once; the others wait,
/// without a limit. A socket is on its way until the worker says that it has it, or has ended.
/// Owned by Node; on its strand. Its coroutines run in the node's background group, and its timers use it: the executor
/// has to stop before the destructor. End: close(), after which no socket is made any more; what waits is dropped
/// without a call of Make.
class HandOverLine {
 public:
  /// A socket for a worker, and what it is told of it.
  struct Served {
    wire::ServeCaller serve;
    Fd socket;
  };
  /// Makes a socket for a worker when the turn of this hand-over has come, perhaps inside add(). nullopt: no caller
  /// wants it any more. `worker` is null if the worker is gone, and then this has to return nullopt.
  using Make = async::UniqueFunction<std::optional<Served>(const std::shared_ptr<Worker>& worker)>;
  using Find = std::function<std::shared_ptr<Worker>(WorkerId worker)>;

  HandOverLine(Site& site, Find find) : site_{site}, find_{std::move(find)} {}

  /// Returns false, and drops `make`, if too many wait.
  bool add(WorkerId worker, Make make);
  void close() { waiting_.clear(); }
  /// The number of sockets that wait or are on their way.
  std::size_t size() const { return waiting_.size() + hand_overs_.under_way(); }

 private:
  struct HandOver {
    WorkerId worker;
    Make make;
  };
  void begin(std::uint64_t number);
  void begin_later(const std::vector<std::uint64_t>& numbers);
  async::Async<void> serve(std::shared_ptr<Worker> worker, Served served);
  void end(WorkerId worker);
  void look_for_slow_workers();

  Site& site_;
  const Find find_;
  scheduler::HandOvers hand_overs_;
  std::unordered_map<std::uint64_t, HandOver> waiting_;
  bool looks_for_slow_workers_ = false;
};

/// Connects a worker with a user of this machine, whose request is answered. `alive` says more of an actor. Returns the
/// worker's end; nullopt if no connection could be made, and the user got the error of the system. For the callbacks of
/// HandOverLine.
std::optional<HandOverLine::Served> connect(Host& host, const Worker& worker, const Client& user, std::uint64_t request,
                                            const wire::ActorAlive& alive, wire::WorkerResources holding);

}  // namespace pharos::node
