#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <random>
#include <span>
#include <string>

#include <pharos/actors/exceptions.hpp>
#include <pharos/base/check.hpp>
#include <pharos/ml/order.hpp>

// A Feistel network permutes the numbers of a certain number of bits: each round combines one half with a hash of the
// other half and the round's key. A result that is not a place is permuted again. This ends at a place, because
// repeated permutation is cyclic; at least half of the numbers are places.

namespace pharos::ml {
namespace {

/// The finalizer of splitmix64.
std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}
constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15;

/// The loop of torch.randperm: a Fisher-Yates shuffle from the front.
std::vector<std::uint64_t> torch_permutation(std::uint64_t size, std::uint64_t seed) {
  std::vector<std::uint64_t> listed(size);
  for (std::uint64_t i = 0; i < size; ++i) listed[i] = i;
  std::mt19937 generator{static_cast<std::uint32_t>(seed)};
  for (std::uint64_t i = 0; i + 1 < size; ++i) {
    std::swap(listed[i], listed[i + generator() % (size - i)]);
  }
  return listed;
}
constexpr std::uint64_t kBatchesOfABucket = 50;

std::vector<std::uint64_t> bucketed_list(std::span<const std::int64_t> lengths, std::uint64_t batch, std::uint64_t seed,
                                         std::uint64_t epoch) {
  const std::uint64_t size = lengths.size();
  const Order::Epoch shuffled = Order::shuffled(size, seed).epoch(epoch);
  std::vector<std::uint64_t> samples(size);
  for (std::uint64_t place = 0; place < size; ++place) samples[place] = shuffled[place];
  const std::uint64_t full = size / batch * batch;
  for (std::uint64_t begin = 0; begin < full; begin += kBatchesOfABucket * batch) {
    const auto bucket =
        std::span{samples}.first(full).subspan(begin).first(std::min(kBatchesOfABucket * batch, full - begin));
    std::ranges::stable_sort(bucket, {}, [&](std::uint64_t sample) { return lengths[sample]; });
  }
  const Order::Epoch batches = Order::shuffled(full / batch, mixed(seed, epoch, size)).epoch(epoch);
  std::vector<std::uint64_t> listed;
  listed.reserve(size);
  for (std::uint64_t i = 0; i < full / batch; ++i) {
    const auto begin = samples.begin() + static_cast<std::ptrdiff_t>(batches[i] * batch);
    listed.insert(listed.end(), begin, begin + static_cast<std::ptrdiff_t>(batch));
  }
  listed.insert(listed.end(), samples.begin() + static_cast<std::ptrdiff_t>(full), samples.end());
  return listed;
}

/// `sums`: entry i is the sum of the weights up to that of sample i.
std::vector<std::uint64_t> weighted_list(std::span<const double> sums, std::uint64_t seed, std::uint64_t epoch) {
  std::vector<std::uint64_t> listed(sums.size());
  for (std::uint64_t place = 0; place < sums.size(); ++place) {
    const double share = static_cast<double>(mixed(seed, epoch, place) >> 11) * 0x1p-53;
    // Rounding may make the product the sum of all weights, which is beyond the last sample that has a weight.
    const double drawn = std::min(share * sums.back(), std::nextafter(sums.back(), 0.0));
    listed[place] = static_cast<std::uint64_t>(std::ranges::upper_bound(sums, drawn) - sums.begin());
  }
  return listed;
}

/// The order of one epoch in shards. A value.
class ShardsOrder {
 public:
  ShardsOrder(std::span<const std::uint64_t> sizes, std::uint64_t window, std::uint64_t streams, std::uint64_t seed,
              std::uint64_t epoch)
      : window_{window}, streams_{streams}, seed_{mixed(seed, epoch, 0)} {
    std::vector<std::uint64_t> begins{0};
    for (const std::uint64_t each : sizes) begins.push_back(begins.back() + each);
    size_ = begins.back();
    const Order::Epoch shuffled = Order::shuffled(sizes.size(), seed).epoch(epoch);
    std::vector<Shard> shards;
    std::uint64_t place = 0;
    for (std::uint64_t i = 0; i < sizes.size(); ++i) {
      shards.push_back({place, begins[shuffled[i]]});
      place += sizes[shuffled[i]];
    }
    shards_ = std::make_shared<const std::vector<Shard>>(std::move(shards));
  }

  std::uint64_t operator()(std::uint64_t place) const {
    const std::uint64_t stream = place % streams_;
    const std::uint64_t rest = size_ % streams_;  // so many streams have one sample more
    const std::uint64_t begin = stream * (size_ / streams_) + std::min(stream, rest);
    const std::uint64_t size = size_ / streams_ + (stream < rest ? 1 : 0);
    const std::uint64_t in_row = begin + in_window(place / streams_, size, stream);
    const auto shard = std::prev(std::ranges::upper_bound(*shards_, in_row, {}, &Shard::place));
    return shard->first + (in_row - shard->place);
  }

 private:
  struct Shard {
    std::uint64_t place;  ///< of its first sample, if streams and windows are left out of account
    std::uint64_t first;  ///< the number of its first sample
  };

  std::uint64_t in_window(std::uint64_t place, std::uint64_t size, std::uint64_t stream) const {
    if (window_ <= 1) return place;
    const std::uint64_t begin = place / window_ * window_;
    const std::uint64_t count = std::min(window_, size - begin);
    return begin + Order::shuffled(count, mixed(seed_, stream, begin)).epoch(0)[place - begin];
  }

  std::uint64_t window_;
  std::uint64_t streams_;
  std::uint64_t seed_;
  std::uint64_t size_ = 0;
  std::shared_ptr<const std::vector<Shard>> shards_;  // in the order in which they come
};

/// From this size on PyTorch draws 64 bits at a time.
constexpr std::uint64_t kTorchSizeMax = 0xffffffff / 20;

}  // namespace

std::uint64_t mixed(std::uint64_t seed, std::uint64_t epoch, std::uint64_t sample) {
  return mix(mix(mix(seed + kGolden) ^ (epoch + 2 * kGolden)) ^ (sample + 3 * kGolden));
}

Order Order::in_turn(std::uint64_t size) {
  return {Kind::kInTurn, size, 0};
}
Order Order::shuffled(std::uint64_t size, std::uint64_t seed) {
  return {Kind::kShuffled, size, seed};
}
Order Order::as_torch(std::uint64_t size, std::uint64_t seed) {
  if (size >= kTorchSizeMax) {
    throw_error(Error{ErrorCode::kInvalidArgument,
                      std::to_string(size) + " samples are too many for PyTorch's order here",
                      "Take Order::shuffled(), which needs no memory."});
  }
  return listed(size, seed, [=](std::uint64_t epoch) { return torch_permutation(size, seed + epoch); });
}
Order Order::bucketed(std::vector<std::int64_t> lengths, std::uint64_t batch, std::uint64_t seed) {
  if (batch == 0) throw_error(Error{ErrorCode::kInvalidArgument, "an order of batches of no samples was asked for"});
  const std::uint64_t size = lengths.size();
  // The function is copied with the Order, so the lengths are shared.
  const auto kept = std::make_shared<const std::vector<std::int64_t>>(std::move(lengths));
  return listed(size, seed, [=](std::uint64_t epoch) { return bucketed_list(*kept, batch, seed, epoch); });
}
Order Order::weighted(std::vector<double> weights, std::uint64_t seed) {
  double sum = 0;
  for (double& each : weights) {
    if (!(each >= 0) || !std::isfinite(each)) {
      throw_error(Error{ErrorCode::kInvalidArgument, "the weight " + std::to_string(each) + " of sample " +
                                                         std::to_string(&each - weights.data()) + " makes no sense"});
    }
    each = sum += each;
  }
  if (!(sum > 0) || !std::isfinite(sum)) {
    throw_error(Error{ErrorCode::kInvalidArgument, "the sum of all weights is " + std::to_string(sum)});
  }
  const std::uint64_t size = weights.size();
  const auto kept = std::make_shared<const std::vector<double>>(std::move(weights));
  return listed(size, seed, [=](std::uint64_t epoch) { return weighted_list(*kept, seed, epoch); });
}

Order Order::by_shards(std::vector<std::uint64_t> sizes, std::uint64_t window, std::uint64_t streams,
                       std::uint64_t seed) {
  if (streams == 0) throw_error(Error{ErrorCode::kInvalidArgument, "an order of shards in no streams was asked for"});
  std::uint64_t size = 0;
  for (const std::uint64_t each : sizes) {
    if (__builtin_add_overflow(size, each, &size)) {
      throw_error(Error{ErrorCode::kInvalidArgument, "the shards have too many samples"});
    }
  }
  const auto kept = std::make_shared<const std::vector<std::uint64_t>>(std::move(sizes));
  return {Kind::kFound, size, seed, [=](std::uint64_t epoch) {
            return ShardsOrder{*kept, window, streams, seed, epoch};
          }};
}

Order Order::listed(std::uint64_t size, std::uint64_t seed,
                    std::function<std::vector<std::uint64_t>(std::uint64_t epoch)> list) {
  return {Kind::kFound, size, seed, [list = std::move(list)](std::uint64_t epoch) {
            const auto all = std::make_shared<const std::vector<std::uint64_t>>(list(epoch));
            return [all](std::uint64_t place) { return (*all)[place]; };
          }};
}

Order::Epoch Order::epoch(std::uint64_t number) const {
  Epoch epoch{kind_, size_};
  if (kind_ == Kind::kFound) {
    epoch.find_ = make_find_(number);
  } else if (kind_ == Kind::kShuffled) {
    epoch.bits_ = std::max<std::uint32_t>(2, static_cast<std::uint32_t>(std::bit_width(size_ == 0 ? 0 : size_ - 1)));
    for (std::size_t i = 0; i < Epoch::kRounds; ++i) epoch.keys_[i] = mixed(seed_, number, i);
  }
  return epoch;
}

std::uint64_t Order::Epoch::turned(std::uint64_t place) const {
  std::uint32_t right_bits = bits_ - bits_ / 2;
  std::uint32_t left_bits = bits_ / 2;
  for (const std::uint64_t key : keys_) {
    const std::uint64_t right = place & ((std::uint64_t{1} << right_bits) - 1);
    const std::uint64_t left = (place >> right_bits) ^ (mix(right + key) >> (64 - left_bits));
    place = right << left_bits | left;
    std::swap(left_bits, right_bits);
  }
  return place;
}

std::uint64_t Order::Epoch::operator[](std::uint64_t place) const {
  PHAROS_CHECK(place < size_, place, size_);
  if (kind_ == Kind::kInTurn) return place;
  if (kind_ == Kind::kFound) return find_(place);
  do {
    place = turned(place);
  } while (place >= size_);
  return place;
}

}  // namespace pharos::ml
