#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <pharos/scheduler/resources.hpp>

#include "daemon/membership.hpp"
#include "node/host.hpp"
#include "simulator/kernel.hpp"
#include "simulator/simulated_disk.hpp"

namespace pharos::simulator {

/// A simulated machine, and the process of its node. Zygotes and workers are processes of the simulated kernel. The
/// object store is real memory, which they share because all run in one real process. No process prints anything.
class SimulatedHost final : public node::Host {
 public:
  struct Settings {
    std::string name;
    scheduler::Resources resources{};
    std::uint32_t gpus = 0;
    ByteCount object_store{};
    bool serves_only_driver = false;  ///< it offers nothing, and has no worker
    SimulatedHost* head = nullptr;    ///< the head's host; null if this one has the head
    SimulatedDisk* disk = nullptr;    ///< where the head keeps its records; null if it keeps none
  };
  /// Returns the host at an address; null if there is none.
  using Find = std::function<SimulatedHost*(const std::string& address)>;
  SimulatedHost(Kernel& kernel, Settings settings, Find find);
  SimulatedHost(SimulatedHost&&) = delete;

  Process& process() { return process_; }
  const Settings& settings() const { return settings_; }
  const std::string& address() const { return settings_.name; }
  /// Serves a driver over this connection. With `it_alone` the node first joins the cluster, and ends with the driver.
  void serve_driver(Fd socket, bool it_alone);
  /// Lists what node and head keep of things that have ended; empty if they keep nothing or their process has ended.
  std::string leftovers() const;
  /// Describes resources that are given twice or to nobody. Empty if there are none, if the process has ended, or if it
  /// has not run since the last check.
  std::string check();
  /// Null before the process has begun and after it has ended.
  const node::Membership* membership() const;
  /// Returns whether there is a head all of whose records are durable.
  bool has_written_all() const;
  /// Describes how the records on disk differ from the head's state; empty if they do not.
  std::string wrong_on_disk() const;
  NodeId node_id() const { return node_id_; }
  /// Returns whether the node has ended because it heard that the cluster has given it up. A real node would then join
  /// again as a new node.
  bool given_up() const { return given_up_; }

  Result<net::SocketPair> make_connection() override;
  Result<net::SocketPair> make_inheritance(net::Identity child, std::string_view name) override;
  async::Async<Result<void>> prove(int inheritance, net::Identity child, async::Deadline deadline) override;
  std::shared_ptr<net::Link> make_link(Fd socket, net::Descriptors descriptors) override;
  async::Async<Result<Fd>> reach(std::string address, node::Introduction introduction,
                                 async::Deadline deadline) override;

  /// Processes of a simulation prove nothing to each other.
  void take_token(const wire::RotateToken&) override {}
  std::string machine_of(int) override { return arrives_from_; }

  Result<pid_t> start_zygote(const wire::RegisterJob& program, int executable, Fd inheritance) override;
  void kill_zygote(pid_t pid) override { kill(pid); }
  void open_program(const wire::RegisterJob& program,
                    async::UniqueFunction<void(Result<node::ProgramHere> here)> done) override;
  void fetch_program(std::string, JobId, std::shared_ptr<node::ArrivingProgram>,
                     async::UniqueFunction<void(Result<void>)>) override {}
  void serve_program(Fd, Fd, const wire::RegisterJob&) override {}
  void remove_own_folder(std::string) override {}
  void kill_worker(int, pid_t pid) override { kill(pid); }
  Result<OutputPipe> make_output(Output::Ready may_send, Output::Sink sink) override;

  std::optional<MemoryUse> memory_use() override { return std::nullopt; }  // memory is unlimited
  ByteCount memory_of(pid_t) override { return {}; }

  Result<Life> make_life(async::UniqueFunction<void()> ended) override;
  Result<Fd> make_spill_file(const std::string& folder) override;
  void run_blocking(async::UniqueFunction<void()> work, async::UniqueFunction<void()> done) override;
  void pull(std::string address, const object_store::PullRequest& request, std::shared_ptr<object_store::Chunks> into,
            Pulled done) override;
  void serve_pull(Fd, MakePullAnswer) override {}

 private:
  class NodeProgram;
  class Transfer;

  node::Membership::OpenRecords open_records(Process& process) const;
  void kill(pid_t pid) {
    if (process_.alive()) kernel_.kill(pid);
  }
  async::Async<Result<Fd>> connect(std::string to, node::Introduction introduction, async::Deadline deadline);
  void serve_node(const std::string& from, const node::Introduction& introduction, Fd socket);

  Kernel& kernel_;
  Network& network_;
  const Settings settings_;
  const Find find_;
  NodeProgram* program_ = nullptr;  // null until the process has begun
  std::uint64_t checked_runs_ = 0;  // runs() of the process at the last check()
  NodeId node_id_;                  // set when the process has begun
  std::string arrives_from_;        // the machine whose connection is being served
  bool given_up_ = false;
  Process& process_;
};

}  // namespace pharos::simulator
