#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <pharos/ml/communicator.hpp>

namespace pharos::ml {

/// Gradients of one type that are reduced together. Owned by Buckets; it has no memory of its own. They lie one behind
/// the other. Each gradient has a mark: before the reduction it is not zero if this rank has used the parameter, and
/// afterwards if any rank has.
struct Bucket {
  DType dtype{};
  std::size_t begin = 0;               ///< offset of the first gradient, in bytes
  std::size_t bytes = 0;               ///< length, with the marks if they are kBehind
  std::size_t marks = 0;               ///< with Marks::kBehind the offset of the marks, in bytes
  std::vector<std::size_t> members{};  ///< numbers of the parameters

  bool has_marks() const { return marks != begin + bytes; }
  std::size_t mark_of(std::size_t place) const { return marks + place * size_of(dtype); }
};

/// Where the marks of a bucket are.
enum class Marks : std::uint8_t {
  kBehind,  ///< behind the gradients of the bucket, so that their reduction reduces the marks too
  kOnHost,  ///< in a list on the host, which share_marks() reduces: the host cannot read marks that lie on a GPU
};

/// The memory for the gradients of all parameters, allocated by the communicator, and its division into buckets. The
/// memory lives as long as a view of it. Owned by Ddp::Core. The constructor and share_marks() throw what fails between
/// ranks. One thread.
class Buckets {
 public:
  /// `ranks` will reduce the gradients, and allocate the memory. `order` is the order in which gradients are expected.
  /// A bucket is closed by the gradient with which it reaches `bucket_bytes`. All ranks must pass the same arguments.
  Buckets(Communicator& ranks, Marks marks, const std::vector<at::Tensor>& parameters,
          std::span<const std::size_t> order, std::size_t bucket_bytes);

  std::size_t size() const { return buckets_.size(); }
  const Bucket& operator[](std::size_t bucket) const { return buckets_[bucket]; }
  std::span<std::byte> bytes_of(const Bucket& bucket) const {
    return memory_->span().subspan(bucket.begin, bucket.bytes);
  }

  std::size_t number_of(const Bucket& bucket) const { return static_cast<std::size_t>(&bucket - buckets_.data()); }

  /// Offset of a parameter's gradient from the beginning of the first bucket, in bytes.
  std::size_t place_of(std::size_t parameter) const { return offsets_[parameter]; }
  /// The place of a parameter's gradient, as a tensor of the parameter's shape.
  const at::Tensor& view(std::size_t parameter) const { return slots_[parameter].view; }
  std::size_t bucket_of(std::size_t parameter) const { return slots_[parameter].bucket; }
  at::Device device() const { return slots_.empty() ? at::Device{at::kCPU} : slots_[0].view.device(); }
  /// Sets or clears this rank's mark of a gradient.
  void mark(std::size_t parameter, bool counts);
  /// With Marks::kOnHost, at the end of a backward: sets each mark on all ranks if one rank has set it.
  void share_marks(Communicator& ranks);
  bool is_marked(std::size_t parameter) const;

 private:
  struct Slot {
    std::size_t bucket = 0;
    std::size_t mark = 0;  // offset of its mark, in bytes
    at::Tensor view{};
  };
  void plan(const std::vector<at::Tensor>& parameters, std::span<const std::size_t> order, std::size_t bucket_bytes);

  const Marks marks_;
  std::vector<std::uint8_t> marks_on_host_;  // by parameter
  std::vector<Bucket> buckets_;
  std::vector<Slot> slots_;           // by parameter
  std::vector<std::size_t> offsets_;  // by parameter, in bytes
  std::size_t bytes_ = 0;
  std::shared_ptr<const Buffer<std::byte>> memory_;
};

}  // namespace pharos::ml
