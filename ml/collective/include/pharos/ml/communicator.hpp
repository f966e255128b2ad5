#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <pharos/base/clock.hpp>
#include <pharos/base/export.hpp>
#include <pharos/ml/dtype.hpp>

namespace pharos {
class Error;
}

namespace pharos::ml {

class ThreadMemory;
namespace detail {
class Core;
class Work;
struct Places;
}  // namespace detail

/// A part of a rank's data that is not where the rest of it is.
struct Elsewhere {
  std::size_t begin = 0;  ///< where it belongs: bytes
  std::span<const std::byte> bytes{};
};

/// A collective operation that is under way. Its memory stays as it is until wait() has come back.
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
  /// Waits. What has gone wrong is thrown by the communicator's next operation.
  ~Pending();

  /// Goes on with it as far as that is without waiting. True: it has ended. Throws what wait() throws.
  bool done();
  /// Others that have been begun go on meanwhile, and may end before it or later.
  void wait();

 private:
  std::shared_ptr<detail::Core> core_;
  std::shared_ptr<detail::Work> work_;
};

/// Memory of this rank in which large operations work without copies: all ranks have allocated as much at the same
/// time.
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

struct CommunicatorOptions {
  /// No wait takes longer. Then the operation fails on all ranks, and the error names the rank that did not come.
  Duration timeout = std::chrono::seconds{30};
  /// Ranks of one machine share memory. False: they use TCP, as if each had a machine of its own; to see how that is.
  bool share_memory = true;
  /// On several machines with as many ranks each, one behind the other, sums are those of each machine, summed up: its
  /// ranks share their work that way. True: in the order of the ranks, whatever machine they are on, and slower.
  bool sums_by_rank = false;
  /// What reduces floats sends them over TCP as bfloat16: half the bytes, three digits. They are summed as floats.
  bool bf16_over_tcp = false;
  /// A rank sends no more than that a second over TCP. 0: as much as goes.
  std::uint64_t bytes_per_second = 0;
};

/// Ranks that reduce, gather and pass on numbers together. All of them call the same operations in the same order, but
/// for messages, which are of two ranks alone; when they do not, when one dies or does not come in time, all of them
/// throw, with the same reason, and the communicator is of no use any more. Results are the same bits on every rank,
/// and from run to run: sums are in rank order (see CommunicatorOptions::sums_by_rank). Half-precision numbers are
/// summed as floats and rounded once; where machines' sums are summed up, once on each machine and once more. One
/// thread at a time. What a rank has to do it does while it is in one of these calls.
class PHAROS_API Communicator {
 public:
  explicit Communicator(std::shared_ptr<detail::Core> core) : core_{std::move(core)} {}

  /// A world of one.
  static Communicator alone();
  /// For programs that torchrun, mpirun or srun has started, once in each process: reads what they say in the
  /// environment (RANK and WORLD_SIZE, or the like), and waits until all ranks have come. Started by none of them:
  /// alone. On several machines rank 0 listens at MASTER_ADDR and MASTER_PORT (under torchrun at the next port; under
  /// srun both may be left out), and PHAROS_TOKEN_FILE names a file of 32 bytes that all of them have.
  static Communicator from_environment(const CommunicatorOptions& options = {});
  /// For each of so many ranks that are threads of this process. Each thread takes its own by join().
  class Threads;

  std::uint32_t rank() const;
  std::uint32_t size() const;
  /// All ranks are on this machine.
  bool shares_memory() const;
  /// Its operations work on memory of GPUs, and so do its buffers: see on_gpu().
  bool is_on_gpu() const;
  /// CommunicatorOptions::timeout.
  Duration timeout() const;
  /// What this rank has sent over TCP so far: data of operations, and what ranks say to each other about them. 0 where
  /// all ranks share memory; what GPUs send each other is not in it.
  std::uint64_t bytes_sent() const;

  /// Every rank's data is reduced, element by element, and every rank has the result in place.
  template <Element T>
  void all_reduce(std::span<T> data, Reduction reduction = Reduction::kSum) {
    begin_all_reduce(data, reduction).wait();
  }
  template <Element T>
  [[nodiscard]] Pending begin_all_reduce(std::span<T> data, Reduction reduction = Reduction::kSum) {
    return all_reduce(kDTypeOf<T>, reduction, bytes_of(data), data.size());
  }
  /// Of elements whose type is known at run time only.
  [[nodiscard]] Pending begin_all_reduce(DType dtype, std::span<std::byte> data,
                                         Reduction reduction = Reduction::kSum) {
    return all_reduce(dtype, reduction, data.data(), elements_in(dtype, data.size()));
  }
  /// `from` holds size() pieces of the length of `to`; this rank receives the piece of its number, reduced.
  template <Element T>
  void reduce_scatter(std::span<const T> from, std::span<T> to, Reduction reduction = Reduction::kSum) {
    begin_reduce_scatter(from, to, reduction).wait();
  }
  template <Element T>
  [[nodiscard]] Pending begin_reduce_scatter(std::span<const T> from, std::span<T> to,
                                             Reduction reduction = Reduction::kSum) {
    return reduce_scatter(kDTypeOf<T>, reduction, bytes_of(from), from.size(), bytes_of(to), to.size());
  }
  /// Of elements whose type is known at run time only.
  [[nodiscard]] Pending begin_reduce_scatter(DType dtype, std::span<const std::byte> from, std::span<std::byte> to,
                                             Reduction reduction = Reduction::kSum) {
    return reduce_scatter(dtype, reduction, from.data(), elements_in(dtype, from.size()), to.data(),
                          elements_in(dtype, to.size()));
  }
  /// Parts of this rank's own piece are elsewhere, in the order in which they belong there; both lists and memory stay
  /// until it has ended. Between ranks that share `from` they are reduced from where they are, and copied nowhere;
  /// between others they come to `from` first.
  [[nodiscard]] Pending begin_reduce_scatter(DType dtype, std::span<std::byte> from, std::span<const Elsewhere> own,
                                             std::span<std::byte> to, Reduction reduction = Reduction::kSum);
  /// `to` holds size() pieces of the length of `from`: all ranks', in their order.
  template <Element T>
  void all_gather(std::span<const T> from, std::span<T> to) {
    begin_all_gather(from, to).wait();
  }
  template <Element T>
  [[nodiscard]] Pending begin_all_gather(std::span<const T> from, std::span<T> to) {
    return all_gather(kDTypeOf<T>, bytes_of(from), from.size(), bytes_of(to), to.size());
  }
  /// Every rank has what `root` had.
  template <Element T>
  void broadcast(std::span<T> data, std::uint32_t root) {
    begin_broadcast(data, root).wait();
  }
  template <Element T>
  [[nodiscard]] Pending begin_broadcast(std::span<T> data, std::uint32_t root) {
    return broadcast(kDTypeOf<T>, bytes_of(data), data.size(), root);
  }
  /// Of elements whose type is known at run time only.
  [[nodiscard]] Pending begin_broadcast(DType dtype, std::span<std::byte> data, std::uint32_t root) {
    return broadcast(dtype, data.data(), elements_in(dtype, data.size()), root);
  }
  /// Both hold size() pieces of one length: piece k of `from` goes to rank k, piece k of `to` comes from it. They are
  /// not the same memory.
  template <Element T>
  void all_to_all(std::span<const T> from, std::span<T> to) {
    begin_all_to_all(from, to).wait();
  }
  template <Element T>
  [[nodiscard]] Pending begin_all_to_all(std::span<const T> from, std::span<T> to) {
    return all_to_all(kDTypeOf<T>, bytes_of(from), from.size(), bytes_of(to), to.size());
  }
  /// A message from this rank to another, which receives as many of the same type. Messages from one rank to another
  /// arrive in the order in which they were sent; in between, both may do what they like with others.
  template <Element T>
  void send(std::span<const T> data, std::uint32_t to) {
    begin_send(data, to).wait();
  }
  template <Element T>
  [[nodiscard]] Pending begin_send(std::span<const T> data, std::uint32_t to) {
    return send(kDTypeOf<T>, bytes_of(data), data.size(), to);
  }
  template <Element T>
  void receive(std::span<T> data, std::uint32_t from) {
    begin_receive(data, from).wait();
  }
  template <Element T>
  [[nodiscard]] Pending begin_receive(std::span<T> data, std::uint32_t from) {
    return receive(kDTypeOf<T>, bytes_of(data), data.size(), from);
  }
  /// Of elements whose type is known at run time only.
  [[nodiscard]] Pending begin_send(DType dtype, std::span<const std::byte> data, std::uint32_t to) {
    return send(dtype, data.data(), elements_in(dtype, data.size()), to);
  }
  [[nodiscard]] Pending begin_receive(DType dtype, std::span<std::byte> data, std::uint32_t from) {
    return receive(dtype, data.data(), elements_in(dtype, data.size()), from);
  }
  /// Comes back when all have come.
  void barrier();

  /// Zeros. All ranks allocate as much at the same time.
  template <Element T>
  Buffer<T> allocate(std::size_t elements) {
    return Buffer<T>{core_, {static_cast<T*>(allocate_bytes(elements, sizeof(T))), elements}};
  }
  /// Zeros, which are all ranks': what one writes the others read there after a barrier(). Each of them pays for a part
  /// of the memory. No place for an operation's data. All ranks allocate as much at the same time, and share memory.
  template <Element T>
  Buffer<T> allocate_for_all(std::size_t elements) {
    return Buffer<T>{core_, {static_cast<T*>(allocate_bytes_for_all(elements, sizeof(T))), elements}};
  }

  /// Throws what has failed, if something has; also that a rank has died, though nobody waits for it.
  void check();
  /// Ends what others wait for here: their operations throw that this rank has given up, and why.
  void abort(const std::string& why);
  /// The same, with an error that all ranks throw as it is.
  void abort(const Error& why);
  /// The last 1000 operations that this rank has begun, one in a line: number, what, how long it took.
  std::string recent_operations() const;

 private:
  template <class T>
  static const std::byte* bytes_of(std::span<const T> data) {
    return reinterpret_cast<const std::byte*>(data.data());
  }
  template <class T>
  static std::byte* bytes_of(std::span<T> data) {
    return reinterpret_cast<std::byte*>(data.data());
  }
  Pending all_reduce(DType dtype, Reduction reduction, std::byte* data, std::size_t count);
  Pending reduce_scatter(DType dtype, Reduction reduction, const std::byte* from, std::size_t from_count, std::byte* to,
                         std::size_t to_count);
  Pending all_gather(DType dtype, const std::byte* from, std::size_t from_count, std::byte* to, std::size_t to_count);
  Pending broadcast(DType dtype, std::byte* data, std::size_t count, std::uint32_t root);
  Pending all_to_all(DType dtype, const std::byte* from, std::size_t from_count, std::byte* to, std::size_t to_count);
  Pending send(DType dtype, const std::byte* data, std::size_t count, std::uint32_t to);
  Pending receive(DType dtype, std::byte* data, std::size_t count, std::uint32_t from);
  Pending message(DType dtype, std::uint32_t from, std::uint32_t to, const detail::Places& places, std::size_t count);
  static std::size_t elements_in(DType dtype, std::size_t bytes);
  void* allocate_bytes(std::size_t elements, std::size_t size);
  void* allocate_bytes_for_all(std::size_t elements, std::size_t size);

  std::shared_ptr<detail::Core> core_;
};

/// A group of ranks that are threads of one process: in tests, and where a process has several devices.
class PHAROS_API Communicator::Threads {
 public:
  explicit Threads(std::uint32_t ranks, const CommunicatorOptions& options = {});
  Threads(Threads&&) = delete;
  ~Threads();

  /// On the thread of that rank: comes back when all have come.
  Communicator join(std::uint32_t rank);

 private:
  const CommunicatorOptions options_;
  const std::uint32_t ranks_;
  std::shared_ptr<ThreadMemory> memory_;
};

namespace detail {
PHAROS_API void free_shared(Core& core, void* memory);

/// How a communicator over GPUs is made. The library that can do it, libpharos_nccl.so, says so when it is loaded.
using OnGpu = Communicator (*)(Communicator& ranks, int device, const CommunicatorOptions& options);
PHAROS_API void offer_on_gpu(OnGpu make);
/// nullptr: no such library is loaded.
PHAROS_API OnGpu offered_on_gpu();
}  // namespace detail

template <Element T>
Buffer<T>::~Buffer() {
  if (core_ != nullptr) detail::free_shared(*core_, elements_.data());
}

}  // namespace pharos::ml
