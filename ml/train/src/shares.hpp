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

/// How many samples each rank has in a step: its gradient counts as much.
class Shares {
 public:
  explicit Shares(Communicator ranks) : ranks_{std::move(ranks)} {}

  /// All ranks call it. Throws InvalidArgument for less than none.
  void exchange(double samples) {
    if (!(samples >= 0)) {
      throw_error(
          Error{ErrorCode::kInvalidArgument, "a step of " + std::to_string(samples) + " samples makes no sense"});
    }
    tell(samples);
  }
  /// Instead of exchange(): this rank has no more samples.
  void finish() { tell(kFinished); }
  void forget() {
    samples_.clear();
    factor_ = 1;
  }

  /// Of this rank's gradient, whose mean over the ranks is taken then.
  double factor() const { return factor_; }
  bool all_have_finished() const {
    return std::all_of(samples_.begin(), samples_.end(), [](double each) { return each < 0; });
  }
  /// The first rank that has not.
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
  std::vector<double> samples_;  // by rank; empty: they are not told
  double factor_ = 1;
};

}  // namespace pharos::ml
