#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <pharos/ml/communicator.hpp>

namespace pharos::ml {

/// Gradients of one type that are reduced together: they lie one behind the other. Some rank has used a gradient if its
/// mark is not zero on that rank.
struct Bucket {
  DType dtype{};
  std::size_t begin = 0;  ///< bytes
  std::size_t bytes = 0;
  std::size_t marks = 0;               ///< Marks::kBehind: where the marks begin, bytes
  std::vector<std::size_t> members{};  ///< parameters

  std::size_t mark_of(std::size_t place) const { return marks + place * size_of(dtype); }
};

/// Where the marks of a bucket are.
enum class Marks : std::uint8_t {
  kBehind,  ///< behind its gradients, so that the reduction of those reduces the marks too
  kOnHost,  ///< in a list on the host, which share_marks() reduces: a host does not read what lies on a GPU
};

/// Memory for the gradients of all parameters, which all ranks share. It stays as long as one of the views does.
class Buckets {
 public:
  /// `ranks` reduce the gradients, and give the memory. Gradients come in that order: each bucket is closed with the
  /// one that makes it so large. All ranks give the same.
  Buckets(Communicator& ranks, Marks marks, const std::vector<at::Tensor>& parameters,
          std::span<const std::size_t> order, std::size_t bucket_bytes);

  std::size_t size() const { return buckets_.size(); }
  const Bucket& operator[](std::size_t bucket) const { return buckets_[bucket]; }
  std::span<std::byte> bytes_of(const Bucket& bucket) const {
    return memory_->span().subspan(bucket.begin, bucket.bytes);
  }

  std::size_t number_of(const Bucket& bucket) const { return static_cast<std::size_t>(&bucket - buckets_.data()); }

  /// A parameter's gradient, as it lies there: so many bytes behind the beginning of the first bucket.
  std::size_t place_of(std::size_t parameter) const { return offsets_[parameter]; }
  const at::Tensor& view(std::size_t parameter) const { return slots_[parameter].view; }
  std::size_t bucket_of(std::size_t parameter) const { return slots_[parameter].bucket; }
  at::Device device() const { return slots_.empty() ? at::Device{at::kCPU} : slots_[0].view.device(); }
  void mark(std::size_t parameter, bool counts);
  /// Ends a backward with Marks::kOnHost: a mark is set on all ranks then if one rank has set it.
  void share_marks(Communicator& ranks);
  bool is_marked(std::size_t parameter) const;

 private:
  struct Slot {
    std::size_t bucket = 0;
    std::size_t mark = 0;  // bytes
    at::Tensor view{};
  };
  void plan(const std::vector<at::Tensor>& parameters, std::span<const std::size_t> order, std::size_t bucket_bytes);

  const Marks marks_;
  std::vector<std::uint8_t> marks_on_host_;  // by parameter
  std::vector<Bucket> buckets_;
  std::vector<Slot> slots_;           // by parameter
  std::vector<std::size_t> offsets_;  // by parameter: bytes
  std::size_t bytes_ = 0;
  std::shared_ptr<const Buffer<std::byte>> memory_;
};

}  // namespace pharos::ml
