#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <pharos/base/fd.hpp>
#include <pharos/net/reactor.hpp>

#include "node/host.hpp"

namespace pharos::node {

/// One of a worker's output streams: reads the pipe, and hands over whole lines.
/// Owned by Process, for each worker; on the thread that polls the reactor. Bound: holds at most `kLineMax` bytes of a
/// line that is not complete; a longer line is handed over in pieces. While the driver does not keep up the pipe is not
/// read, so the worker blocks in its write. End: drain(), or the destructor, which loses what was not read.
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
