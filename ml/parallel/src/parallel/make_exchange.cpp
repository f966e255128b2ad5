#include "parallel/make_exchange.hpp"

#include <cstddef>
#include <deque>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "module/torch_dtype.hpp"
#include "parallel/power_sgd.hpp"

namespace pharos::ml {
namespace {

/// Reduces gradients in their own type, in place.
class Exact final : public Exchange {
 public:
  Exact(Communicator& ranks, Buckets& buckets) : ranks_{ranks}, buckets_{buckets} {}

  void begin(const Bucket& bucket) override {
    under_way_.push_back(ranks_.begin_all_reduce(bucket.dtype, buckets_.bytes_of(bucket), Reduction::kMean));
  }
  void advance() override {
    while (!under_way_.empty() && under_way_.front().done()) under_way_.pop_front();
  }
  void finish() override {
    for (; !under_way_.empty(); under_way_.pop_front()) under_way_.front().wait();
  }
  std::size_t bytes_of(const Bucket& bucket) const override { return bucket.bytes; }

 private:
  Communicator& ranks_;
  Buckets& buckets_;
  std::deque<Pending> under_way_;
};

/// Reduces float and double gradients as bfloat16 copies, and all others in place.
class Bf16 final : public Exchange {
 public:
  Bf16(Communicator& ranks, Buckets& buckets) : ranks_{ranks}, buckets_{buckets} {
    std::size_t elements = 0;
    for (std::size_t b = 0; b < buckets.size(); ++b) {
      offsets_.push_back(elements);
      elements += is_shortened(buckets[b]) ? elements_of(buckets[b]) : 0;
    }
    short_.emplace(ranks.allocate<BFloat16>(elements));
  }

  void begin(const Bucket& bucket) override {
    if (!is_shortened(bucket)) {
      under_way_.push_back(
          {&bucket, ranks_.begin_all_reduce(bucket.dtype, buckets_.bytes_of(bucket), Reduction::kMean)});
      return;
    }
    short_of(bucket).copy_(whole(bucket));
    under_way_.push_back({&bucket, ranks_.begin_all_reduce(span_of(bucket), Reduction::kMean)});
  }
  void advance() override {
    while (!under_way_.empty() && under_way_.front().pending.done()) take_front();
  }
  void finish() override {
    while (!under_way_.empty()) {
      under_way_.front().pending.wait();
      take_front();
    }
  }
  std::size_t bytes_of(const Bucket& bucket) const override {
    return is_shortened(bucket) ? elements_of(bucket) * sizeof(BFloat16) : bucket.bytes;
  }

 private:
  struct UnderWay {
    const Bucket* bucket;
    Pending pending;
  };

  static bool is_shortened(const Bucket& bucket) { return bucket.dtype == DType::kF32 || bucket.dtype == DType::kF64; }
  static std::size_t elements_of(const Bucket& bucket) { return bucket.bytes / size_of(bucket.dtype); }
  std::span<BFloat16> span_of(const Bucket& bucket) const {
    return short_->span().subspan(offsets_[buckets_.number_of(bucket)], elements_of(bucket));
  }
  at::Tensor short_of(const Bucket& bucket) const {
    return tensor_on(std::as_writable_bytes(span_of(bucket)).data(), buckets_.device(), at::kBFloat16,
                     static_cast<std::int64_t>(elements_of(bucket)));
  }
  at::Tensor whole(const Bucket& bucket) const {
    const auto type = bucket.dtype == DType::kF32 ? at::kFloat : at::kDouble;
    return tensor_on(buckets_.bytes_of(bucket).data(), buckets_.device(), type,
                     static_cast<std::int64_t>(elements_of(bucket)));
  }
  void take_front() {
    const Bucket& bucket = *under_way_.front().bucket;
    if (is_shortened(bucket)) whole(bucket).copy_(short_of(bucket));
    under_way_.pop_front();
  }

  Communicator& ranks_;
  Buckets& buckets_;
  std::vector<std::size_t> offsets_;  // by bucket: where its copy begins in short_, in elements
  std::optional<Buffer<BFloat16>> short_;
  std::deque<UnderWay> under_way_;
};

}  // namespace

std::unique_ptr<Exchange> make_exchange(Communicator& ranks, Buckets& buckets, const DdpOptions& options,
                                        std::uint64_t steps) {
  switch (options.wire) {
    case Wire::kExact: return std::make_unique<Exact>(ranks, buckets);
    case Wire::kBf16: return std::make_unique<Bf16>(ranks, buckets);
    case Wire::kPowerSgd: return make_power_sgd(ranks, buckets, options.power_sgd, steps);
  }
  return nullptr;
}

}  // namespace pharos::ml
