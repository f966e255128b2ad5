#include "parallel/buckets.hpp"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <map>

#include "module/torch_dtype.hpp"

namespace pharos::ml {
namespace {

constexpr std::size_t kAlignment = 64;

std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

std::array<std::byte, 8> one_of(DType dtype) {
  std::array<std::byte, 8> bytes{};
  const auto put = [&](auto value) { std::memcpy(bytes.data(), &value, sizeof value); };
  switch (dtype) {
    case DType::kF16: put(to_half(1)); break;
    case DType::kBF16: put(to_bfloat16(1)); break;
    case DType::kF32: put(1.0F); break;
    case DType::kF64: put(1.0); break;
    default: put(std::uint8_t{1}); break;
  }
  return bytes;
}

}  // namespace

Buckets::Buckets(Communicator& ranks, Marks marks, const std::vector<at::Tensor>& parameters,
                 std::span<const std::size_t> order, std::size_t bucket_bytes)
    : marks_{marks},
      marks_on_host_(parameters.size()),
      slots_(parameters.size()),
      offsets_(parameters.size()),
      memory_{(plan(parameters, order, bucket_bytes),
               std::make_shared<const Buffer<std::byte>>(ranks.allocate<std::byte>(bytes_)))} {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const at::Tensor& parameter = parameters[i];
    // The strides are those of the parameter, because optimizers go through the memory of both side by side.
    const auto strides = at::empty_like(parameter, parameter.options().device(at::kMeta)).strides().vec();
    slots_[i].view = at::from_blob(
        memory_->data() + offsets_[i], parameter.sizes(), strides, [memory = memory_](void*) {}, parameter.options());
  }
}

void Buckets::plan(const std::vector<at::Tensor>& parameters, std::span<const std::size_t> order,
                   std::size_t bucket_bytes) {
  std::map<DType, Bucket> open;
  const auto close = [&](Bucket& bucket) {
    buckets_.push_back(std::move(bucket));
    bucket = Bucket{};
  };
  const auto gradient_bytes = [&](std::size_t parameter) { return aligned(parameters[parameter].nbytes()); };
  for (const std::size_t each : order) {
    const DType dtype = *dtype_of(parameters[each].scalar_type());
    Bucket& bucket = open[dtype];
    bucket.dtype = dtype;
    bucket.members.push_back(each);
    bucket.bytes += gradient_bytes(each);
    if (bucket.bytes >= bucket_bytes) close(bucket);
  }
  for (auto& [dtype, bucket] : open) {
    if (!bucket.members.empty()) close(bucket);
  }
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    Bucket& bucket = buckets_[b];
    bucket.begin = bytes_;
    for (const std::size_t each : bucket.members) {
      offsets_[each] = bytes_;
      bytes_ += gradient_bytes(each);
    }
    bucket.marks = bytes_;
    for (std::size_t place = 0; place < bucket.members.size(); ++place) {
      slots_[bucket.members[place]] = {.bucket = b, .mark = bucket.mark_of(place)};
    }
    if (marks_ == Marks::kBehind) bytes_ = aligned(bucket.mark_of(bucket.members.size()));
    bucket.bytes = bytes_ - bucket.begin;
  }
}

void Buckets::mark(std::size_t parameter, bool counts) {
  marks_on_host_[parameter] = counts ? 1 : 0;
  if (marks_ == Marks::kOnHost) return;
  const DType dtype = buckets_[slots_[parameter].bucket].dtype;
  const auto value = counts ? one_of(dtype) : std::array<std::byte, 8>{};
  std::memcpy(memory_->data() + slots_[parameter].mark, value.data(), size_of(dtype));
}

void Buckets::share_marks(Communicator& ranks) {
  if (marks_ == Marks::kOnHost) ranks.all_reduce(std::span{marks_on_host_}, Reduction::kMax);
}

bool Buckets::is_marked(std::size_t parameter) const {
  if (marks_ == Marks::kOnHost) return marks_on_host_[parameter] != 0;
  const std::byte* const mark = memory_->data() + slots_[parameter].mark;
  return std::any_of(mark, mark + size_of(buckets_[slots_[parameter].bucket].dtype),
                     [](std::byte each) { return each != std::byte{}; });
}

}  // namespace pharos::ml
