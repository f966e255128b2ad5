#include <algorithm>
#include <limits>
#include <tuple>

#include <pharos/actors/exceptions.hpp>
#include <pharos/ml/fit_callback.hpp>

namespace pharos::ml {
namespace {

class LowerRate final : public FitCallback {
 public:
  explicit LowerRate(const Plateau& plateau) : plateau_{plateau} {}

  void after_step(FitControl& control, const Metrics& metrics) override {
    const double* const value = metrics.find(plateau_.metric);
    if (value == nullptr) return;
    const double now = plateau_.is_better_lower ? *value : -*value;
    if (now < seen_.best - plateau_.improvement_min) {
      seen_ = {now, 0};
    } else if (++seen_.since >= plateau_.patience) {
      seen_.since = 0;
      const double present = control.rate_factor();
      control.set_rate_factor(std::min(present, std::max(present * plateau_.factor, plateau_.rate_factor_min)));
    }
  }
  bool logs() const override { return false; }
  void add_to_state(State& state) override { state.add("plateau." + plateau_.metric, seen_); }

 private:
  struct Seen {
    double best = std::numeric_limits<double>::infinity();  // lower is better
    std::uint64_t since = 0;                                // reports since the best one

    auto pharos_fields() { return std::tie(best, since); }
  };
  const Plateau plateau_;
  Seen seen_{};
};

}  // namespace

FitControl::~FitControl() = default;
FitCallback::~FitCallback() = default;

std::shared_ptr<FitCallback> lower_rate_on(const Plateau& plateau) {
  if (!(plateau.factor > 0 && plateau.factor < 1)) {
    throw_error(Error{ErrorCode::kInvalidArgument, "Plateau::factor is " + std::to_string(plateau.factor) +
                                                       ", but only a factor between 0 and 1 lowers the rate"});
  }
  return std::make_shared<LowerRate>(plateau);
}

}  // namespace pharos::ml
