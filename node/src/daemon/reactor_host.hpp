#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <pharos/async/async_group.hpp>
#include <pharos/async/blocking_pool.hpp>
#include <pharos/net/address.hpp>
#include <pharos/net/handshake.hpp>
#include <pharos/net/reactor.hpp>
#include <pharos/net/token_ring.hpp>

#include "node/host.hpp"
#include "store/transfers.hpp"

namespace pharos::node {

/// The real machine as a Host: sockets, processes, pipes, disks, and threads for transfers and for work that waits for
/// a disk. The look-up of a host name, in reach(), fetch_program() and pull(), blocks the thread that polls. Host says
/// how each function fails.
/// Owned by the daemon; used on the thread that polls the reactor, which outlives it. End: close(), then the reactor
/// has to be polled until closed() is true. The destructor waits for work of run_blocking() that runs; work that is
/// still in the queue is dropped without `done`.
class ReactorHost final : public Host {
 public:
  struct Settings {
    net::Identity node;
    /// The cluster's tokens, which outlive the host.
    const net::TokenRing* tokens = nullptr;
    /// Takes the token of a RotateToken.
    std::function<void(const wire::RotateToken& rotated)> take_token{};
    std::string programs_folder{};  ///< folder for files of programs that come from other nodes
  };
  ReactorHost(net::Reactor& reactor, const Settings& settings);
  /// Sets the address at which other nodes reach this one. Programs find it in PHAROS_NODE_HOST, and may listen there.
  void set_place(const std::string& host) { place_ = host; }

  Result<net::SocketPair> make_connection() override;
  Result<net::SocketPair> make_inheritance(net::Identity child, std::string_view name) override;
  async::Async<Result<void>> prove(int inheritance, net::Identity child, async::Deadline deadline) override;
  std::shared_ptr<net::Link> make_link(Fd socket, net::Descriptors descriptors) override;
  async::Async<Result<Fd>> reach(std::string address, Introduction introduction, async::Deadline deadline) override;

  std::string machine_of(int socket) override;
  void take_token(const wire::RotateToken& rotated) override { settings_.take_token(rotated); }

  Result<pid_t> start_zygote(const wire::RegisterJob& program, int executable, Fd inheritance) override;
  void kill_zygote(pid_t pid) override;
  void open_program(const wire::RegisterJob& program,
                    async::UniqueFunction<void(Result<ProgramHere> here)> done) override;
  void fetch_program(std::string address, JobId job, std::shared_ptr<ArrivingProgram> into,
                     async::UniqueFunction<void(Result<void>)> done) override;
  void serve_program(Fd socket, Fd executable, const wire::RegisterJob& program) override;
  void remove_own_folder(std::string folder) override;
  void kill_worker(int handle, pid_t pid) override;
  Result<OutputPipe> make_output(Output::Ready may_send, Output::Sink sink) override;

  std::optional<MemoryUse> memory_use() override { return limits_.memory_use(); }
  ByteCount memory_of(pid_t process) override;

  Result<Life> make_life(async::UniqueFunction<void()> ended) override;
  Result<Fd> make_spill_file(const std::string& folder) override;
  void run_blocking(async::UniqueFunction<void()> work, async::UniqueFunction<void()> done) override;
  void pull(std::string address, const object_store::PullRequest& request, std::shared_ptr<object_store::Chunks> into,
            Pulled done) override;
  void serve_pull(Fd socket, MakePullAnswer make) override;
  /// Breaks off all transfers to and from other nodes, and waits for their threads. Transfers that wait are dropped
  /// without a callback; those under way, and connections that are being made, end with an error.
  void close();
  bool closed() const;

 private:
  async::Async<Result<void>> prove_to(int socket, net::Identity child, async::Deadline deadline);
  async::Async<Result<Fd>> connect(std::string address, Introduction introduction, async::Deadline deadline);
  async::Async<Result<Fd>> connect_with(net::Key token, net::Address place, Introduction introduction,
                                        async::Deadline deadline);

  async::Async<void> connect_and_fetch(std::string address, JobId job, std::shared_ptr<ArrivingProgram> into,
                                       async::UniqueFunction<void(Result<void>)> done);
  async::Async<void> connect_and_pull(std::string address, object_store::PullRequest request,
                                      std::shared_ptr<object_store::Chunks> into, Pulled done);
  Transfers& transfers();

  net::Reactor& reactor_;
  const Settings settings_;
  const net::Key for_children_;  // from which the keys of this daemon's zygotes and workers are derived
  const MachineLimits limits_;
  std::string place_;
  std::unique_ptr<async::BlockingPool> blocking_;  // null until first needed
  std::unique_ptr<Transfers> transfers_;           // null until first needed
  async::AsyncGroup background_;
};

}  // namespace pharos::node
