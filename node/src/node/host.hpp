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
#include "store/program_transfer.hpp"

namespace pharos::node {

/// The machine that a node runs on, as the node uses it: connections, processes and their output, memory, disks. A
/// daemon has a host over sockets and the kernel (ReactorHost), the simulator has another one.
/// Outlives the node. Called on the node's strand only, and calls back there; no function calls back from inside. Once
/// the host has begun to end (ReactorHost::close()), some callbacks do not run any more.
class Host {
 public:
  virtual ~Host() = default;

  // ---- Connections

  /// Makes both ends of a connection between two processes of this machine.
  virtual Result<net::SocketPair> make_connection() = 0;
  /// Makes a connection whose `second` end is inherited by a process that is still to be started. The process reads
  /// from it the key with which it proves that it is `child`. `name` is for the process list.
  virtual Result<net::SocketPair> make_inheritance(net::Identity child, std::string_view name) = 0;
  /// Waits until the process at the other end of an inheritance has proved that it is `child`. The socket stays the
  /// caller's. Fails with kDeadlineExceeded, kCancelled, kUnavailable if the process has ended, or an error of the
  /// handshake.
  virtual async::Async<Result<void>> prove(int inheritance, net::Identity child, async::Deadline deadline) = 0;
  /// Makes a link over a connection. `descriptors` says whether messages may bring descriptors.
  virtual std::shared_ptr<net::Link> make_link(Fd socket, net::Descriptors descriptors) = 0;
  /// Connects to another node. When this succeeds both nodes have proved themselves, and the other one has been sent
  /// the introduction. Fails with kInvalidArgument if the address makes no sense or names an unknown host,
  /// kDeadlineExceeded, kCancelled, an error of the system or of the handshake. The look-up of a host name blocks the
  /// strand, and does not end at the deadline.
  virtual async::Async<Result<Fd>> reach(std::string address, Introduction introduction, async::Deadline deadline) = 0;

  /// Takes the cluster's new token, if it is one that this node does not have.
  virtual void take_token(const wire::RotateToken& rotated) = 0;

  /// Returns the address of the machine at the other end of a connection from another node. Empty: this machine.
  virtual std::string machine_of(int socket) = 0;

  // ---- Processes

  /// Starts a zygote of this program, which is open as `executable`. Its end is reported by Node::on_child_ended(),
  /// which the owner of the host calls.
  virtual Result<pid_t> start_zygote(const wire::RegisterJob& program, int executable, Fd inheritance) = 0;
  /// Kills a zygote, if it lives. Its end is reported like any other.
  virtual void kill_zygote(pid_t pid) = 0;
  /// Opens the files of a program whose driver is at another node, or says which are not on this machine: see
  /// program_files.hpp.
  virtual void open_program(const wire::RegisterJob& program,
                            async::UniqueFunction<void(Result<ProgramHere> here)> done) = 0;
  /// Receives the missing files of a job's program from the node at this address, on another thread; then runs `done`
  /// on the node's strand: with an error of reach(), with kOverloaded if too many wait, or with the result of
  /// ArrivingProgram::receive().
  virtual void fetch_program(std::string address, JobId job, std::shared_ptr<ArrivingProgram> into,
                             async::UniqueFunction<void(Result<void>)> done) = 0;
  /// Sends the files of a program that the node at the other end asks for; without an executable, says that the job has
  /// ended. A failure only closes the connection.
  virtual void serve_program(Fd socket, Fd executable, const wire::RegisterJob& program) = 0;
  /// Removes the folder that open_program() made for a job, without waiting.
  virtual void remove_own_folder(std::string folder) = 0;
  /// Kills a worker, if it lives, and everything that it has left in its process group. Does not wait. `handle` is the
  /// pidfd that came with WorkerForked.
  virtual void kill_worker(int handle, pid_t pid) = 0;

  /// One of a worker's output streams, on its way to the driver. Owned by Process. It is read until drain(): the host
  /// may keep the stream, and call Ready and Sink, until then. Nothing here fails: an error of the stream counts as its
  /// end. While Ready returns false the stream is not read, so a worker that has filled the pipe waits in its write.
  class Output {
   public:
    /// Returns whether output can be taken now. If not, it is asked again later.
    using Ready = async::UniqueFunction<bool()>;
    /// Takes whole lines, or pieces of a line that is too long.
    using Sink = async::UniqueFunction<void(std::string lines)>;

    virtual ~Output() = default;
    /// Reads what is left, even if the driver does not keep up, and passes it to Sink inside this call. For a worker
    /// that has ended. Nothing is read after that.
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

  /// Tells when a process has stopped using the store: `ended` runs on the strand once all copies of the descriptor are
  /// closed, at the end of the process at the latest. It does not run after `watch` is gone. The host outlives `watch`.
  struct Life {
    Fd for_process;
    std::shared_ptr<void> watch;
  };
  virtual Result<Life> make_life(async::UniqueFunction<void()> ended) = 0;
  /// Makes an empty file without a name, for objects that have no room in memory. Fails with an error of the system.
  virtual Result<Fd> make_spill_file(const std::string& folder) = 0;
  /// Runs `work` on a thread where it may wait for a disk, then `done` on the node's strand. The node bounds how much
  /// it runs this way; a host may abort the process if a million works wait. `work` must not throw.
  virtual void run_blocking(async::UniqueFunction<void()> work, async::UniqueFunction<void()> done) = 0;

  /// The answer to another node that wants an object: the chunks, which are valid until `done` has run; or the node
  /// that is to be asked instead. The host runs `done` on the node's strand when the chunks are sent, or cannot be
  /// sent.
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
  /// strand: with an error of reach(), kOverloaded if too many wait, kUnavailable, kCorrupt, or kOwnerDied or
  /// kObjectLost if the other node does not have the object any more. Chunks that have come stay.
  virtual void pull(std::string address, const object_store::PullRequest& request,
                    std::shared_ptr<object_store::Chunks> into, Pulled done) = 0;
  /// Sends the object that the node at the other end wants, on another thread. `make` says on the node's strand what is
  /// sent. The other node is told an error of `make`, or kUnavailable if `make` does not answer in time (60 s in
  /// ReactorHost). Any other failure only closes the connection.
  virtual void serve_pull(Fd socket, MakePullAnswer make) = 0;
};

}  // namespace pharos::node
