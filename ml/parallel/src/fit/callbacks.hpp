#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include <pharos/ml/fit_callback.hpp>

namespace pharos::ml {

/// The callbacks of a learner, and what they ask for. Owned by the loop of fit(), which outlives no learner and no
/// context. The rank's thread. Throws what the callbacks throw.
class Callbacks final : public FitControl {
 public:
  Callbacks(TrainContext& context, Learner& learner);

  void begin();
  void before_step(std::uint64_t epoch);
  /// `more`: what the report of the step has besides the numbers that were committed.
  void after_step(std::uint64_t epoch, Metrics& more, bool is_end_of_epoch);
  void end();
  void add_to(State& state);
  bool stops() const { return stops_; }
  bool may_log() const;

  Learner& learner() override { return learner_; }
  TrainContext& context() override { return context_; }
  std::uint64_t epoch() const override { return epoch_; }
  void log(std::string_view name, double value) override;
  void stop() override { stops_ = true; }
  double rate_factor() const override { return rate_factor_; }
  void set_rate_factor(double factor) override { rate_factor_ = factor; }

 private:
  TrainContext& context_;
  Learner& learner_;
  const std::vector<std::shared_ptr<FitCallback>> all_;
  std::uint64_t epoch_ = 0;
  std::optional<std::uint64_t> begun_{};  // the epoch that at_epoch_begin() was told last
  Metrics* more_ = nullptr;               // while the report of a step is made
  bool stops_ = false;
  double rate_factor_ = 1;
};

}  // namespace pharos::ml
