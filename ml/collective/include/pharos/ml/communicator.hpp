#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <pharos/base/clock.hpp>
#include <pharos/base/error.hpp>
#include <pharos/base/export.hpp>
#include <pharos/ml/communicator_options.hpp>
#include <pharos/ml/dtype.hpp>
#include <pharos/ml/elsewhere.hpp>

namespace pharos::ml {

class Communicator;
class ThreadMemory;
namespace detail {
class Core;
class Work;
struct Places;
using OnGpu = Communicator (*)(Communicator& ranks, int device, const CommunicatorOptions& options);
PHAROS_API Communicator over_gpu(Communicator& ranks, int device, OnGpu make);
}  // namespace detail

/// An operation that is under way, as Communicator's begin_all_reduce() and its likes return it. The caller owns it.
/// One thread at a time uses the communicator and its Pendings. The caller neither frees nor changes the operation's
/// memory before wait() has returned, done() has returned true, or one of them has thrown. After a failure the contents
/// of that memory are undefined. Once the operation has ended, or wait() has thrown, the Pending is empty: done()
/// returns true and wait() returns at once. A move assignment swaps the two operations. The destructor waits for the
/// end of the operation.
class PHAROS_API Pending {
 public:
  Pending(std::shared_ptr<detail::Core> core, std::shared_ptr<detail::Work> work)
      : core_{std::move(core)}, work_{std::move(work)} {}
  Pending(Pending&&) noexcept = default;
  Pending& operator=(Pending&& other) noexcept {
    std::swap(core_, other.core_);
    std::swap(work_, other.work_);
    return *this;
  }
  /// Waits like wait(), but does not throw: after a failure the communicator's next operation throws it.
  ~Pending();

  /// Continues the operation as far as possible without waiting. Returns true once it has ended. Throws what wait()
  /// throws, also when CommunicatorOptions::timeout has passed since the operation was begun.
  bool done();
  /// Waits until the operation has ended, at most for CommunicatorOptions::timeout. Other operations that are under way
  /// continue meanwhile, and may end earlier or later. Throws as described at Communicator.
  void wait();
  /// For ranks on GPUs: work that this thread gives to the GPU from now on comes after the operation, and the host does
  /// not wait. The Pending is empty then. The GPU may still use the operation's memory, so only such work may use it. A
  /// failure of the operation is thrown by wait() of a later operation; until then its results may be any numbers. For
  /// other ranks the same as wait().
  void join();

 private:
  std::shared_ptr<detail::Core> core_;
  std::shared_ptr<detail::Work> work_;
};

/// Memory of this rank in which large operations work without copies. Communicator::allocate() and allocate_for_all()
/// make it; the caller owns it. Each rank may destroy its Buffer when it likes, but not while an operation on it is
/// under way. The destructor frees this rank's memory, on the thread that uses the communicator. A Buffer keeps the
/// communicator's connections open. A move assignment swaps the two memories.
template <Element T>
class Buffer {
 public:
  Buffer(std::shared_ptr<detail::Core> core, std::span<T> elements) : core_{std::move(core)}, elements_{elements} {}
  Buffer(Buffer&& other) noexcept
      : core_{std::move(other.core_)}, elements_{std::exchange(other.elements_, std::span<T>{})} {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(core_, other.core_);
    std::swap(elements_, other.elements_);
    return *this;
  }
  ~Buffer();

  std::span<T> span() const { return elements_; }
  T* data() const { return elements_.data(); }
  std::size_t size() const { return elements_.size(); }
  T& operator[](std::size_t place) const { return elements_[place]; }

 private:
  std::shared_ptr<detail::Core> core_;
  std::span<T> elements_;
};

/// One rank's handle on a group of ranks: at most 64 processes or threads that reduce, gather and exchange numbers
/// together. Copies share the same connections, which are closed with the last copy, Pending and Buffer; other ranks
/// that wait for this rank after that fail with ActorDied. One thread at a time, but for failure().
///
/// All ranks call the same operations in the same order. Messages are the exception: only their two ranks call them.
///
/// Errors are exceptions. A call that is refused before it begins, such as one with wrong arguments (InvalidArgument),
/// throws on this rank only, and the communicator stays usable. After any other failure all ranks throw the same error
/// from then on, and the communicator is of no further use: InvalidArgument if ranks called different operations,
/// ActorDied if a rank has died, has left or cannot be reached any more, DeadlineExceeded if a rank did not come in
/// time, Cancelled if a rank called abort(), and the error of the rank that could not allocate or map memory. The
/// functions that begin an operation do not throw such a failure: wait(), done(), check() and the functions that wait
/// throw it.
///
/// Results are the same bits on every rank, and from run to run: data is summed in the order of the ranks (but see
/// CommunicatorOptions::sums_by_rank). Half-precision numbers are summed as floats and rounded once; where the sums of
/// machines are summed, they are rounded once on each machine and once at the end.
///
/// Where ranks share memory, a rank does its part of an operation only inside calls of the communicator or of a
/// Pending: a rank that calls nothing holds the others up. TCP connections have a thread of their own.
class PHAROS_API Communicator {
 public:
  explicit Communicator(std::shared_ptr<detail::Core> core) : core_{std::move(core)} {}

  /// A group of one rank.
  static Communicator alone();
  /// For programs that torchrun, mpirun or srun starts, once in each process. Reads the launcher's variables in the
  /// environment (RANK and WORLD_SIZE, or their counterparts), and waits until all ranks have come. The ranks first
  /// find each other and then connect; each of these steps waits at most for the timeout of `options`. Without a
  /// launcher the result is alone().
  ///
  /// On several machines rank 0 listens at MASTER_ADDR and MASTER_PORT (under torchrun, whose agent has that port, at
  /// the next one). Under srun both variables may be left out. PHAROS_TOKEN_FILE names a file of 32 bytes that all
  /// ranks have. Throws InvalidArgument if the variables are wrong or two processes have the same rank,
  /// FailedPrecondition if variables that several machines need are missing, NotFound if MASTER_ADDR cannot be
  /// resolved, PermissionDenied if the ranks have different tokens, AlreadyExists if another process listens at rank
  /// 0's address, DeadlineExceeded if a rank does not come, and ActorDied if a rank dies meanwhile.
  static Communicator from_environment(const CommunicatorOptions& options = {});
  /// Makes communicators for ranks that are threads of this process.
  class Threads;

  std::uint32_t rank() const;
  std::uint32_t size() const;
  /// Returns whether all ranks are on this machine and share memory.
  bool shares_memory() const;
  /// Returns whether operations and Buffers are in the memory of GPUs: see on_gpu().
  bool is_on_gpu() const;
  /// CommunicatorOptions::timeout.
  Duration timeout() const;
  /// The bytes that this rank has sent over TCP so far: the data of operations, and the ranks' messages about them. 0
  /// where all ranks share memory. Bytes that GPUs send to each other are not counted.
  std::uint64_t bytes_sent() const;

  /// Reduces the data of all ranks element by element, and writes the result to `data` of every rank.
  template <Element T>
  void all_reduce(std::span<T> data, Reduction reduction = Reduction::kSum) {
    begin_all_reduce(data, reduction).wait();
  }
  template <Element T>
  [[nodiscard]] Pending begin_all_reduce(std::span<T> data, Reduction reduction = Reduction::kSum) {
    return begin_all_reduce(kDTypeOf<T>, std::as_writable_bytes(data), reduction);
  }
  /// The same for elements whose type is known only at run time.
  [[nodiscard]] Pending begin_all_reduce(DType dtype, std::span<std::byte> data, Reduction reduction = Reduction::kSum);
  /// `from` holds size() pieces of the length of `to`. Each piece is reduced over all ranks, and rank k receives piece
  /// k in `to`.
  template <Element T>
  void reduce_scatter(std::span<const T> from, std::span<T> to, Reduction reduction = Reduction::kSum) {
    begin_reduce_scatter(from, to, reduction).wait();
  }
  template <Element T>
  [[nodiscard]] Pending begin_reduce_scatter(std::span<const T> from, std::span<T> to,
                                             Reduction reduction = Reduction::kSum) {
    return begin_reduce_scatter(kDTypeOf<T>, std::as_bytes(from), std::as_writable_bytes(to), reduction);
  }
  /// The same for elements whose type is known only at run time.
  [[nodiscard]] Pending begin_reduce_scatter(DType dtype, std::span<const std::byte> from, std::span<std::byte> to,
                                             Reduction reduction = Reduction::kSum);
  /// The same where parts of this rank's own piece lie outside of `from`. `own` has these parts in the order of their
  /// places in the piece, without overlaps. The caller keeps the list and the parts unchanged until the operation has
  /// ended. Where ranks reduce `from` in place (more than 8 KiB of a Buffer in shared memory), the parts are read from
  /// where they are. Otherwise they are first copied to `from`.
  [[nodiscard]] Pending begin_reduce_scatter(DType dtype, std::span<std::byte> from, std::span<const Elsewhere> own,
                                             std::span<std::byte> to, Reduction reduction = Reduction::kSum);
  /// `to` holds size() pieces of the length of `from`, and receives `from` of all ranks, in the order of the ranks.
  template <Element T>
  void all_gather(std::span<const T> from, std::span<T> to) {
    begin_all_gather(from, to).wait();
  }
  template <Element T>
  [[nodiscard]] Pending begin_all_gather(std::span<const T> from, std::span<T> to) {
    return begin_all_gather(kDTypeOf<T>, std::as_bytes(from), std::as_writable_bytes(to));
  }
  /// The same for elements whose type is known only at run time.
  [[nodiscard]] Pending begin_all_gather(DType dtype, std::span<const std::byte> from, std::span<std::byte> to);
  /// Copies the data of rank `root` to all ranks.
  template <Element T>
  void broadcast(std::span<T> data, std::uint32_t root) {
    begin_broadcast(data, root).wait();
  }
  template <Element T>
  [[nodiscard]] Pending begin_broadcast(std::span<T> data, std::uint32_t root) {
    return begin_broadcast(kDTypeOf<T>, std::as_writable_bytes(data), root);
  }
  /// The same for elements whose type is known only at run time.
  [[nodiscard]] Pending begin_broadcast(DType dtype, std::span<std::byte> data, std::uint32_t root);
  /// `from` and `to` hold size() pieces of one length each. Piece k of `from` goes to rank k, and piece k of `to` comes
  /// from rank k. The two spans must not overlap.
  template <Element T>
  void all_to_all(std::span<const T> from, std::span<T> to) {
    begin_all_to_all(from, to).wait();
  }
  template <Element T>
  [[nodiscard]] Pending begin_all_to_all(std::span<const T> from, std::span<T> to) {
    return begin_all_to_all(kDTypeOf<T>, std::as_bytes(from), std::as_writable_bytes(to));
  }
  /// The same for elements whose type is known only at run time.
  [[nodiscard]] Pending begin_all_to_all(DType dtype, std::span<const std::byte> from, std::span<std::byte> to);
  /// Sends a message from this rank to rank `to`, another rank, which must receive the same number of elements of the
  /// same type. It may return before the other rank has received the message. Messages from one rank to another arrive
  /// in the order in which they were sent. Their order in relation to messages with other ranks, and to operations of
  /// all ranks, is free.
  template <Element T>
  void send(std::span<const T> data, std::uint32_t to) {
    begin_send(data, to).wait();
  }
  template <Element T>
  [[nodiscard]] Pending begin_send(std::span<const T> data, std::uint32_t to) {
    return begin_send(kDTypeOf<T>, std::as_bytes(data), to);
  }
  /// Receives the next message that rank `from` sends to this rank.
  template <Element T>
  void receive(std::span<T> data, std::uint32_t from) {
    begin_receive(data, from).wait();
  }
  template <Element T>
  [[nodiscard]] Pending begin_receive(std::span<T> data, std::uint32_t from) {
    return begin_receive(kDTypeOf<T>, std::as_writable_bytes(data), from);
  }
  /// The same for elements whose type is known only at run time.
  [[nodiscard]] Pending begin_send(DType dtype, std::span<const std::byte> data, std::uint32_t to);
  [[nodiscard]] Pending begin_receive(DType dtype, std::span<std::byte> data, std::uint32_t from);
  /// Returns when all ranks have called it.
  void barrier();

  /// Allocates memory of this rank, filled with zeros. An operation like the others: all ranks call it at the same
  /// place, with the same size. Earlier operations may be finished first, each within CommunicatorOptions::timeout. If
  /// a rank has too little memory, all ranks fail with Exhausted.
  template <Element T>
  Buffer<T> allocate(std::size_t elements) {
    return Buffer<T>{core_, {static_cast<T*>(allocate_bytes(elements, sizeof(T), Whose::kOwn)), elements}};
  }
  /// Allocates one memory for all ranks, filled with zeros: data that one rank writes there can be read by the others
  /// after a barrier(). An equal part of it is charged to each rank's process. It must not be used as the data of
  /// operations. All ranks call this at the same place, with the same size. Throws FailedPrecondition unless
  /// shares_memory().
  template <Element T>
  Buffer<T> allocate_for_all(std::size_t elements) {
    return Buffer<T>{core_, {static_cast<T*>(allocate_bytes(elements, sizeof(T), Whose::kOfAll)), elements}};
  }

  /// Throws the failure, if an operation has failed or a rank has died, also when no operation is under way.
  void check();
  /// The failure that check() throws, if there is one. On any thread, also while another one uses the communicator.
  std::optional<Error> failure() const;
  /// Makes the operations of all ranks fail: they throw Cancelled with the text that this rank has given up, and `why`.
  /// Returns when this rank's operations have failed; that takes up to 0.2 seconds where ranks use TCP. Does nothing if
  /// there was a failure before. Other ranks may get a shortened text: 479 bytes where they share memory, 4096 bytes
  /// over TCP.
  void abort(const std::string& why);
  /// The same, but all ranks throw the error `why` unchanged.
  void abort(const Error& why);
  /// The last 1000 operations that this rank has begun, one in a line: its number, its description, and the time that
  /// it took ("under way" if it has not ended).
  std::string recent_operations() const;

 private:
  friend Communicator detail::over_gpu(Communicator& ranks, int device, detail::OnGpu make);
  enum class Whose : std::uint8_t { kOwn, kOfAll };
  void* allocate_bytes(std::size_t elements, std::size_t size, Whose whose);

  std::shared_ptr<detail::Core> core_;
};

/// A group of ranks that are threads of one process: for tests, and for processes with several devices. The
/// communicators stay usable when this object has been destroyed. join() may be called on several threads at the same
/// time.
class PHAROS_API Communicator::Threads {
 public:
  /// Throws InvalidArgument unless `ranks` is between 1 and 64.
  explicit Threads(std::uint32_t ranks, const CommunicatorOptions& options = {});
  Threads(Threads&&) = delete;
  ~Threads();

  /// The thread of each rank calls this once. Returns when all ranks have called it, and throws DeadlineExceeded if a
  /// rank does not call it in time; later calls throw the same. Throws InvalidArgument if there is no such rank.
  Communicator join(std::uint32_t rank);

 private:
  const CommunicatorOptions options_;
  const std::uint32_t ranks_;
  std::shared_ptr<ThreadMemory> memory_;
};

namespace detail {
PHAROS_API void free_shared(Core& core, void* memory);

/// OnGpu is the type of on_gpu(), which makes a communicator over GPUs. Its library, libpharos_nccl.so, calls
/// register_on_gpu() when it is loaded. Both functions may be called on any thread.
PHAROS_API void register_on_gpu(OnGpu make);
/// Returns the registered function; nullptr if no such library is loaded.
PHAROS_API OnGpu registered_on_gpu();
/// The stream on which a thread gives work to that GPU now, as CUDA's handle. ml/device registers what libtorch says.
/// Where nothing is registered it is nullptr: the default stream. Both functions may be called on any thread.
using StreamOfWork = void* (*)(int device);
PHAROS_API void register_stream_of_work(StreamOfWork stream);
PHAROS_API void* stream_of_work(int device);
/// The communicator that `make` has made of `ranks` for this GPU, if something on each rank still uses it. Otherwise
/// makes it, with the options of `ranks`. All ranks call this together; throws what `make` throws.
PHAROS_API Communicator over_gpu(Communicator& ranks, int device, OnGpu make);
}  // namespace detail

template <Element T>
Buffer<T>::~Buffer() {
  if (core_ != nullptr) detail::free_shared(*core_, elements_.data());
}

}  // namespace pharos::ml
