#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include <pharos/ml/communicator.hpp>

namespace pharos::ml {

/// Gradients of one type that are reduced together: they lie one behind the other, and behind them there is a number
/// for each, which is above zero if it counts. So the reduction says which ones some rank has used.
struct Bucket {
  DType dtype{};
  std::size_t begin = 0;  ///< bytes
  std::size_t bytes = 0;
  std::size_t marks = 0;               ///< where the numbers begin: bytes
  std::vector<std::size_t> members{};  ///< parameters

  std::size_t mark_of(std::size_t place) const { return marks + place * size_of(dtype); }
};

/// Memory for the gradients of all parameters, which all ranks share. It stays as long as one of the views does.
class Buckets {
 public:
  /// Gradients come in that order: each bucket is closed with the one that makes it so large. All ranks give the same.
  Buckets(Communicator& ranks, const std::vector<at::Tensor>& parameters, std::span<const std::size_t> order,
          std::size_t bucket_bytes);

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
  void mark(std::size_t parameter, bool counts);
  bool is_marked(std::size_t parameter) const;

 private:
  struct Slot {
    std::size_t bucket = 0;
    std::size_t mark = 0;  // bytes
    at::Tensor view{};
  };
  void plan(const std::vector<at::Tensor>& parameters, std::span<const std::size_t> order, std::size_t bucket_bytes);

  std::vector<Bucket> buckets_;
  std::vector<Slot> slots_;           // by parameter
  std::vector<std::size_t> offsets_;  // by parameter: bytes
  std::size_t bytes_ = 0;
  std::shared_ptr<const Buffer<std::byte>> memory_;
};

}  // namespace pharos::ml
