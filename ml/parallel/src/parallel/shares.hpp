#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <pharos/actors/exceptions.hpp>
#include <pharos/ml/communicator.hpp>

namespace pharos::ml {

/// The number of samples that each rank has in a step, by which its gradient is weighted. Until ranks tell their
/// numbers, all ranks have the same weight. Owned by Ddp::Core and Sharded::Core. One thread.
class Shares {
 public:
  explicit Shares(Communicator ranks) : ranks_{std::move(ranks)} {}

  /// All ranks call it, before each step. Waits for all ranks. Throws InvalidArgument for a negative number, on this
  /// rank only, and what fails between ranks.
  void exchange(double samples) {
    if (!(samples >= 0)) {
      throw_error(Error{ErrorCode::kInvalidArgument, "the number of samples of a step is " + std::to_string(samples) +
                                                         ", but it must be 0 or more"});
    }
    tell(samples);
  }
  /// Call it instead of exchange() if this rank has no more samples. Throws what fails between ranks.
  void finish() { tell(kFinished); }
  /// All ranks have the same weight again.
  void forget() {
    samples_.clear();
    factor_ = 1;
  }

  /// The factor of this rank's gradient, so that the mean over the ranks is the mean over all samples.
  double factor() const { return factor_; }
  bool all_have_finished() const {
    return std::all_of(samples_.begin(), samples_.end(), [](double each) { return each < 0; });
  }
  /// The first rank that has not finished; 0 if ranks have not told their numbers, or all have finished.
  std::uint32_t first_active() const {
    const auto active = std::find_if(samples_.begin(), samples_.end(), [](double each) { return each >= 0; });
    return active == samples_.end() ? 0 : static_cast<std::uint32_t>(active - samples_.begin());
  }

 private:
  static constexpr double kFinished = -1;

  void tell(double samples) {
    samples_.resize(ranks_.size());
    ranks_.all_gather(std::span<const double>{&samples, 1}, std::span{samples_});
    double total = 0;
    for (const double each : samples_) total += std::max(each, 0.0);
    factor_ = total == 0 ? 0 : std::max(samples, 0.0) * ranks_.size() / total;
  }

  Communicator ranks_;
  std::vector<double> samples_;  // by rank; empty if ranks have not told their numbers
  double factor_ = 1;
};

}  // namespace pharos::ml
