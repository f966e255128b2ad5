#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <pharos/async/async.hpp>
#include <pharos/async/deadline.hpp>
#include <pharos/async/unique_function.hpp>
#include <pharos/base/byte_count.hpp>
#include <pharos/base/fd.hpp>
#include <pharos/base/machine_limits.hpp>
#include <pharos/base/result.hpp>
#include <pharos/net/blocking_io.hpp>
#include <pharos/net/handshake.hpp>
#include <pharos/net/peer.hpp>
#include <pharos/net/socket_link.hpp>
#include <pharos/node/introduction.hpp>
#include <pharos/object_store/transfer.hpp>

#include "store/program_files.hpp"

namespace pharos::node {

/// The machine that a node runs on, as the node uses it: connections, processes and their output, memory, disks. A
/// daemon has a host over sockets and the kernel (ReactorHost), the simulator has another one.
/// Outlives the node. Called on the node's strand only, and calls back there; no function calls back from inside.
class Host {
 public:
  virtual ~Host() = default;

  // ---- Connections

  /// Makes both ends of a connection between two processes of this machine.
  virtual Result<net::SocketPair> make_connection() = 0;
  /// Makes a connection whose `second` end is inherited by a process that is still to be started. The process reads
  /// from it the key with which it proves that it is `child`. `name` is for the process list.
  virtual Result<net::SocketPair> make_inheritance(net::Identity child, std::string_view name) = 0;
  /// Waits until the process at the other end of an inheritance has proved that it is `child`.
  virtual async::Async<Result<void>> prove(int inheritance, net::Identity child, async::Deadline deadline) = 0;
  /// Makes a link over a connection. `descriptors` says whether messages may bring descriptors.
  virtual std::shared_ptr<net::Link> make_link(Fd socket, net::Descriptors descriptors) = 0;
  /// Connects to another node. When this succeeds both nodes have proved themselves, and the other one has been sent
  /// the introduction.
  virtual async::Async<Result<Fd>> reach(std::string address, Introduction introduction, async::Deadline deadline) = 0;

  /// Returns the address of the machine at the other end of a connection from another node. Empty: this machine.
  virtual std::string machine_of(int socket) = 0;

  // ---- Processes

  /// Starts a zygote of this program, which is open as `executable`. Its end is reported by Node::on_child_ended(),
  /// which the owner of the host calls.
  virtual Result<pid_t> start_zygote(const wire::RegisterJob& program, int executable, Fd inheritance) = 0;
  virtual void kill_zygote(pid_t pid) = 0;
  /// Opens the executable of a program whose driver is at another node, if it is on this machine: see
  /// program_files.hpp.
  virtual void open_program(const wire::RegisterJob& program,
                            async::UniqueFunction<void(Result<ProgramHere> here)> done) = 0;
  /// Receives the executable of a job from the node at this address, on another thread; then runs `done` on the node's
  /// strand.
  virtual void fetch_program(std::string address, JobId job, std::shared_ptr<ArrivingProgram> into,
                             async::UniqueFunction<void(Result<void>)> done) = 0;
  /// Sends an executable to the node at the other end; without an executable, says that the job has ended.
  virtual void serve_program(Fd socket, Fd executable) = 0;
  /// Kills a worker and everything that it has left in its process group. `handle` is the pidfd that came with
  /// WorkerForked.
  virtual void kill_worker(int handle, pid_t pid) = 0;

  /// One of a worker's output streams, on its way to the driver. It is read until this object is destroyed.
  class Output {
   public:
    /// Returns whether output can be taken now. If not, it is asked again later.
    using Ready = async::UniqueFunction<bool()>;
    /// Takes whole lines, or pieces of a line that is too long.
    using Sink = async::UniqueFunction<void(std::string lines)>;

    virtual ~Output() = default;
    /// Reads what is left, even if the driver does not keep up. For a worker that has ended.
    virtual void drain() = 0;
  };
  struct OutputPipe {
    Fd for_worker;  ///< the end that the worker writes to
    std::shared_ptr<Output> output;
  };
  virtual Result<OutputPipe> make_output(Output::Ready may_send, Output::Sink sink) = 0;

  // ---- Memory

  using MemoryUse = MachineLimits::MemoryUse;
  /// The memory use of this machine or of the node's cgroup, whichever has the larger part in use. nullopt if it is not
  /// known.
  virtual std::optional<MemoryUse> memory_use() = 0;
  /// Memory that a process does not share with others. 0 if the process is gone.
  virtual ByteCount memory_of(pid_t process) = 0;

  // ---- The object store

  /// Tells when a process has stopped using the store: `ended` runs once the process has closed the descriptor, at its
  /// end at the latest. It does not run after `watch` is gone.
  struct Life {
    Fd for_process;
    std::shared_ptr<void> watch;
  };
  virtual Result<Life> make_life(async::UniqueFunction<void()> ended) = 0;
  /// Makes an empty file without a name, for objects that have no room in memory.
  virtual Result<Fd> make_spill_file(const std::string& folder) = 0;
  /// Runs `work` on a thread where it may wait for a disk, then `done` on the node's strand. The node bounds how much
  /// it runs this way.
  virtual void run_blocking(async::UniqueFunction<void()> work, async::UniqueFunction<void()> done) = 0;

  /// The answer to another node that wants an object: the chunks, which are valid until `done` has run; or the node
  /// that is to be asked instead.
  struct PullAnswer {
    std::shared_ptr<object_store::Chunks> chunks{};
    NodeId instead{};
    async::UniqueFunction<void()> done{};
  };
  using TakePullAnswer = async::UniqueFunction<void(Result<PullAnswer> answer)>;
  using MakePullAnswer = std::function<void(const object_store::PullRequest& request, TakePullAnswer take)>;
  /// Takes the end of a pull: nullopt if all bytes have come, else the node that is to be asked instead.
  using Pulled = async::UniqueFunction<void(Result<std::optional<NodeId>> instead)>;
  /// Receives the missing chunks from the node at this address, on another thread; then runs `done` on the node's
  /// strand.
  virtual void pull(std::string address, const object_store::PullRequest& request,
                    std::shared_ptr<object_store::Chunks> into, Pulled done) = 0;
  /// Sends the object that the node at the other end wants, on another thread. `make` says on the node's strand what is
  /// sent.
  virtual void serve_pull(Fd socket, MakePullAnswer make) = 0;
};

}  // namespace pharos::node
