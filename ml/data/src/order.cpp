#include <algorithm>
#include <bit>
#include <random>
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
  return {Kind::kAsTorch, size, seed};
}

Order::Epoch Order::epoch(std::uint64_t number) const {
  Epoch epoch{kind_, size_};
  if (kind_ == Kind::kAsTorch) {
    epoch.listed_ = std::make_shared<const std::vector<std::uint64_t>>(torch_permutation(size_, seed_ + number));
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
  if (kind_ == Kind::kAsTorch) return (*listed_)[place];
  do {
    place = turned(place);
  } while (place >= size_);
  return place;
}

}  // namespace pharos::ml
