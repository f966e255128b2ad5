#include "fit/divided.hpp"

#include <torch/nn/module.h>

#include <utility>

#include <pharos/ml/device.hpp>
#include <pharos/ml/fit_options.hpp>
#include <pharos/ml/learner.hpp>
#include <pharos/ml/module_state.hpp>
#include <pharos/ml/optimizer.hpp>
#include <pharos/ml/sharded.hpp>

#include "fit/fit_model.hpp"
#include "fit/model_size.hpp"
#include "fit/whole_arrays.hpp"
#include "module/parameters.hpp"

namespace pharos::ml {
namespace {

class DividedModel final : public FitModel {
 public:
  DividedModel(Learner& learner, Communicator& ranks, Sharding sharding, const FitOptions& options)
      : FitModel{learner.module(), options},
        module_{learner.module()},
        keeps_gradients_{sharding == Sharding::kOptimizer},
        sharded_{module_, ranks, communicator_on(learner.device(), ranks), sharding, shard_options(learner, options)} {}

  void join(Communicator&, std::uint64_t) override {}  // the ranks are those of the constructor
  std::string table() const override { return sharded_.table(); }
  std::vector<ParameterGroup> groups(const SettingsOf& settings) const override { return sharded_.groups(settings); }
  std::vector<NamedTensor> own_parameters() const override {
    std::vector<NamedTensor> own;
    for (const Sharded::Slice& each : sharded_.slices()) own.push_back({each.name, each.values});
    return own;
  }
  void add_to(State& state) override { ml::add_to(state, sharded_, module_); }
  void add_to(State& state, Optimizer& optimizer) override { ml::add_to(state, optimizer, sharded_); }
  std::unique_ptr<Ema> make_ema(double decay) const override { return std::make_unique<Ema>(sharded_, module_, decay); }
  std::vector<NamedArray> arrays(Communicator& ranks) const override { return whole_arrays(sharded_, module_, ranks); }
  void add_to(State& state, Ema& ema) const override { ml::add_to(state, ema, sharded_); }
  void refresh() override { sharded_.refresh(); }

 private:
  bool is_divided() const override { return true; }
  bool checks_while_reducing() const override { return false; }
  Duration waited_for_parameters() const override { return sharded_.waited_for_parameters(); }
  // Divided gradients are reduced after each batch, and are summed up in the ranks' parts, because ranks have no memory
  // for all gradients as a whole.
  Duration backward_of_batch(const at::Tensor& loss, double samples, bool is_last) override {
    if (keeps_gradients_ && !is_last) {
      const NoSync held_back = sharded_.no_sync();
      loss.backward();
      return {};
    }
    const Duration waited = duration_of([&] { sharded_.weigh(samples); });  // waits for slower ranks
    loss.backward();
    return waited + sharded_.last_step().waited;
  }

  torch::nn::Module& module_;
  const bool keeps_gradients_;  // each rank has whole gradients
  Sharded sharded_;
};

/// Bytes of the parameters on a rank, where they are not divided. Ranks that share memory have them once.
double whole_parameters(const ModelBytes& model, double ranks) {
  const double whole = model.frozen + model.parameters;
  return model.reads_in_place ? whole / ranks : whole;
}

}  // namespace

double Zero1::bytes_on_rank(const ModelBytes& model, double ranks) const {
  return whole_parameters(model, ranks) + model.parameters + model.optimizer / ranks;
}
std::unique_ptr<FitModel> Zero1::make_model(Learner& learner, Communicator& ranks, const FitOptions& options) const {
  return std::make_unique<DividedModel>(learner, ranks, Sharding::kOptimizer, options);
}

double Zero2::bytes_on_rank(const ModelBytes& model, double ranks) const {
  return whole_parameters(model, ranks) + model.reduced + (model.parameters + model.optimizer) / ranks;
}
std::unique_ptr<FitModel> Zero2::make_model(Learner& learner, Communicator& ranks, const FitOptions& options) const {
  return std::make_unique<DividedModel>(learner, ranks, Sharding::kGradients, options);
}

double FullyShard::bytes_on_rank(const ModelBytes& model, double ranks) const {
  return model.gathered + model.reduced + (model.frozen + 2 * model.parameters + model.optimizer) / ranks;
}
std::unique_ptr<FitModel> FullyShard::make_model(Learner& learner, Communicator& ranks,
                                                 const FitOptions& options) const {
  return std::make_unique<DividedModel>(learner, ranks, Sharding::kParameters, options);
}

}  // namespace pharos::ml
