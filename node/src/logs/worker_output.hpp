#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <pharos/base/fd.hpp>
#include <pharos/net/reactor.hpp>

#include "node/host.hpp"

namespace pharos::node {

/// One of a worker's output streams: reads the pipe, and hands over whole lines.
/// Owned by Process, for each worker, and by the reactor until drain(); on the thread that polls the reactor. Bound:
/// holds about `kLineMax` bytes of a line that is not complete; a longer line is handed over in pieces. While the
/// driver does not keep up the pipe is not read, so the worker blocks in its write; every 10 ms `may_send` is asked
/// again.
/// Failure: an error of the pipe counts as its end.
/// End: drain() reads what the pipe can hold, hands it over with the last piece of a line, and closes the pipe. Without
/// drain() the reactor keeps this object and goes on calling `may_send` and `sink`, also if Process lets it go.
class WorkerOutput final : public Host::Output,
                           public net::Reactor::Watcher,
                           public std::enable_shared_from_this<WorkerOutput> {
 public:
  static constexpr std::size_t kLineMax = 64 << 10;

  static std::shared_ptr<WorkerOutput> make(net::Reactor& reactor, Fd pipe, Ready may_send, Sink sink);
  ~WorkerOutput() override;

  void drain() override;
  void on_ready(std::uint32_t events) override;

 private:
  WorkerOutput(net::Reactor& reactor, Fd pipe, Ready may_send, Sink sink);
  void read_what_may_be_sent();
  bool read_some();
  void hand_over(bool all);

  net::Reactor& reactor_;
  Fd pipe_;
  Ready may_send_;
  Sink sink_;
  std::string text_;
  bool tries_again_ = false;  // a timer for the next attempt is set
};

}  // namespace pharos::node
