#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include <pharos/base/clock.hpp>
#include <pharos/base/error.hpp>
#include <pharos/base/export.hpp>
#include <pharos/ml/communicator.hpp>
#include <pharos/ml/dtype.hpp>

namespace pharos::ml {

/// Elements in the memory of a GPU: like std::span, but without a way to touch them on the host. A value; whoever has
/// allocated the memory owns it. Nothing fails; as with std::span, parts must lie inside.
template <Element T>
class GpuSpan {
 public:
  GpuSpan() = default;
  GpuSpan(T* data, std::size_t size) : data_{data}, size_{size} {}
  operator GpuSpan<const T>() const requires(!std::is_const_v<T>) { return {data_, size_}; }

  T* data() const { return data_; }  ///< An address of the GPU: for CUDA's functions and for kernels.
  std::size_t size() const { return size_; }
  std::size_t size_bytes() const { return size_ * sizeof(T); }
  GpuSpan subspan(std::size_t begin, std::size_t count) const { return {data_ + begin, count}; }
  GpuSpan subspan(std::size_t begin) const { return {data_ + begin, size_ - begin}; }
  GpuSpan first(std::size_t count) const { return {data_, count}; }

 private:
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Memory of this rank's GPU, filled with zeros, in which operations work without copies. GpuCommunicator::allocate()
/// makes it; the caller owns it, as a Buffer.
template <Element T>
class GpuBuffer {
 public:
  explicit GpuBuffer(Buffer<T> buffer) : buffer_{std::move(buffer)} {}

  GpuSpan<T> span() const { return {buffer_.data(), buffer_.size()}; }
  T* data() const { return buffer_.data(); }
  std::size_t size() const { return buffer_.size(); }

 private:
  Buffer<T> buffer_;
};

/// One rank's handle on a group of ranks whose data lies in the memory of GPUs: what Communicator is for the memory of
/// the host, with the same operations, order, failures and rules for threads. on_gpu() makes it. Copies share the same
/// connections.
///
/// It takes GpuSpans only, and Communicator takes none, so the wrong memory does not compile. Where types are known
/// only at run time, untyped() takes bytes; it throws InvalidArgument if they are in the memory of the host, and names
/// them. So does a Communicator for the memory of a GPU.
class GpuCommunicator {
 public:
  /// Throws InvalidArgument if the data of `untyped` lies in the memory of the host.
  PHAROS_API explicit GpuCommunicator(Communicator untyped);

  std::uint32_t rank() const { return untyped_.rank(); }
  std::uint32_t size() const { return untyped_.size(); }
  Duration timeout() const { return untyped_.timeout(); }
  Communicator& untyped() { return untyped_; }

  template <Element T>
  void all_reduce(GpuSpan<T> data, Reduction reduction = Reduction::kSum) {
    begin_all_reduce(data, reduction).wait();
  }
  template <Element T>
  [[nodiscard]] Pending begin_all_reduce(GpuSpan<T> data, Reduction reduction = Reduction::kSum) {
    return untyped_.begin_all_reduce(kDTypeOf<T>, bytes_of(data), reduction);
  }
  template <Element T>
  void reduce_scatter(GpuSpan<const T> from, GpuSpan<T> to, Reduction reduction = Reduction::kSum) {
    begin_reduce_scatter(from, to, reduction).wait();
  }
  template <Element T>
  [[nodiscard]] Pending begin_reduce_scatter(GpuSpan<const T> from, GpuSpan<T> to,
                                             Reduction reduction = Reduction::kSum) {
    return untyped_.begin_reduce_scatter(kDTypeOf<T>, bytes_of(from), bytes_of(to), reduction);
  }
  template <Element T>
  void all_gather(GpuSpan<const T> from, GpuSpan<T> to) {
    begin_all_gather(from, to).wait();
  }
  template <Element T>
  [[nodiscard]] Pending begin_all_gather(GpuSpan<const T> from, GpuSpan<T> to) {
    return untyped_.begin_all_gather(kDTypeOf<T>, bytes_of(from), bytes_of(to));
  }
  template <Element T>
  void broadcast(GpuSpan<T> data, std::uint32_t root) {
    begin_broadcast(data, root).wait();
  }
  template <Element T>
  [[nodiscard]] Pending begin_broadcast(GpuSpan<T> data, std::uint32_t root) {
    return untyped_.begin_broadcast(kDTypeOf<T>, bytes_of(data), root);
  }
  template <Element T>
  void all_to_all(GpuSpan<const T> from, GpuSpan<T> to) {
    begin_all_to_all(from, to).wait();
  }
  template <Element T>
  [[nodiscard]] Pending begin_all_to_all(GpuSpan<const T> from, GpuSpan<T> to) {
    return untyped_.begin_all_to_all(kDTypeOf<T>, bytes_of(from), bytes_of(to));
  }
  template <Element T>
  void send(GpuSpan<const T> data, std::uint32_t to) {
    begin_send(data, to).wait();
  }
  template <Element T>
  [[nodiscard]] Pending begin_send(GpuSpan<const T> data, std::uint32_t to) {
    return untyped_.begin_send(kDTypeOf<T>, bytes_of(data), to);
  }
  template <Element T>
  void receive(GpuSpan<T> data, std::uint32_t from) {
    begin_receive(data, from).wait();
  }
  template <Element T>
  [[nodiscard]] Pending begin_receive(GpuSpan<T> data, std::uint32_t from) {
    return untyped_.begin_receive(kDTypeOf<T>, bytes_of(data), from);
  }
  void barrier() { untyped_.barrier(); }

  template <Element T>
  GpuBuffer<T> allocate(std::size_t elements) {
    return GpuBuffer<T>{untyped_.allocate<T>(elements)};
  }

  void check() { untyped_.check(); }
  std::optional<Error> failure() const { return untyped_.failure(); }
  void abort(const std::string& why) { untyped_.abort(why); }
  std::string recent_operations() const { return untyped_.recent_operations(); }

 private:
  template <Element T>
  static std::span<const std::byte> bytes_of(GpuSpan<const T> data) {
    return std::as_bytes(std::span{data.data(), data.size()});
  }
  template <Element T>
  requires(!std::is_const_v<T>) static std::span<std::byte> bytes_of(GpuSpan<T> data) {
    return std::as_writable_bytes(std::span{data.data(), data.size()});
  }

  Communicator untyped_;
};

}  // namespace pharos::ml
