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

#include "program_files.hpp"

namespace pharos::node {

/// What a node asks of the machine that it runs on: connections, processes, what they write. A daemon has one over
/// sockets and the kernel (ReactorHost), the simulator has another.
/// Outlives the node. Everything on the node's strand; nothing here calls back from inside.
class Host {
 public:
  virtual ~Host() = default;

  // ---- Connections

  /// Both ends of one between two processes of this machine.
  virtual Result<net::SocketPair> make_connection() = 0;
  /// One whose `second` end a process is to inherit that will be started: it finds there what it can prove with that it
  /// is `child`. `name` is for the process list.
  virtual Result<net::SocketPair> make_inheritance(net::Identity child, std::string_view name) = 0;
  /// Until whoever has the other end of an inheritance has proved to be `child`.
  virtual async::Async<Result<void>> prove(int inheritance, net::Identity child, async::Deadline deadline) = 0;
  virtual std::shared_ptr<net::Link> make_link(Fd socket, net::Descriptors descriptors) = 0;
  /// Connects to another node. Both have proved themselves, and it knows what this is for.
  virtual async::Async<Result<Fd>> reach(std::string address, Introduction introduction, async::Deadline deadline) = 0;

  /// Which machine is at the other end of a connection from another node. Empty: this one.
  virtual std::string machine_of(int socket) = 0;

  // ---- Processes

  /// Of this program, which is open as `executable`. Whoever waits for children tells the node of its end.
  virtual Result<pid_t> start_zygote(const wire::RegisterJob& program, int executable, Fd inheritance) = 0;
  virtual void kill_zygote(pid_t pid) = 0;
  /// One of another node's: see program_files.hpp.
  virtual void open_program(const wire::RegisterJob& program,
                            async::UniqueFunction<void(Result<ProgramHere> here)> done) = 0;
  /// Receives its executable from the node there, on a thread of its own; then `done` on the node's strand.
  virtual void fetch_program(std::string address, JobId job, std::shared_ptr<ArrivingProgram> into,
                             async::UniqueFunction<void(Result<void>)> done) = 0;
  /// Sends it to the node at the other end; without one, word that the job has ended.
  virtual void serve_program(Fd socket, Fd executable) = 0;
  /// And what it has left in its process group. `handle` is what came with WorkerForked.
  virtual void kill_worker(int handle, pid_t pid) = 0;

  /// One of a worker's output streams, on its way to the driver. Read until it is gone.
  class Output {
   public:
    /// False when nothing more can be taken now; it is then offered again.
    using Ready = async::UniqueFunction<bool()>;
    using Sink = async::UniqueFunction<void(std::string lines)>;

    virtual ~Output() = default;
    /// Reads what is there, also when the driver does not keep up: the worker has ended.
    virtual void drain() = 0;
  };
  struct OutputPipe {
    Fd for_worker;
    std::shared_ptr<Output> output;
  };
  virtual Result<OutputPipe> make_output(Output::Ready may_send, Output::Sink sink) = 0;

  // ---- Memory

  using MemoryUse = MachineLimits::MemoryUse;
  /// Of this machine, or of the cgroup that the node is in. Nothing: nobody knows.
  virtual std::optional<MemoryUse> memory_use() = 0;
  /// What a process has for itself. 0: it is gone.
  virtual ByteCount memory_of(pid_t process) = 0;

  // ---- The object store

  /// Something that a process holds for as long as it uses the store. `ended` runs once it has let go of it, by its end
  /// at the latest, unless the watch is gone.
  struct Life {
    Fd for_process;
    std::shared_ptr<void> watch;
  };
  virtual Result<Life> make_life(async::UniqueFunction<void()> ended) = 0;
  /// An empty file without a name, for objects that have no room in memory.
  virtual Result<Fd> make_spill_file(const std::string& folder) = 0;
  /// Runs `work` on a thread where it may wait for a disk, then `done` on the node's strand. Bounded by the node.
  virtual void run_aside(async::UniqueFunction<void()> work, async::UniqueFunction<void()> done) = 0;

  /// What a node gives to another one that wants an object: its chunks, for as long as `done` has not run; or the node
  /// that is to be asked instead.
  struct Offer {
    std::shared_ptr<object_store::Chunks> chunks{};
    NodeId instead{};
    async::UniqueFunction<void()> done{};
  };
  using TakeOffer = async::UniqueFunction<void(Result<Offer> offer)>;
  using MakeOffer = std::function<void(const object_store::Wish& wish, TakeOffer take)>;
  /// None: all has come. Else which node is to be asked instead.
  using Pulled = async::UniqueFunction<void(Result<std::optional<NodeId>> instead)>;
  /// Receives what is missing from the node there, on a thread of its own; then `done` on the node's strand.
  virtual void pull(std::string address, const object_store::Wish& wish, std::shared_ptr<object_store::Chunks> into,
                    Pulled done) = 0;
  /// Sends what the node at the other end wants; the node's strand says what.
  virtual void serve_pull(Fd socket, MakeOffer make) = 0;
};

}  // namespace pharos::node
