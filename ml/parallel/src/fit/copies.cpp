#include "fit/copies.hpp"

#include <torch/nn/module.h>

#include <optional>
#include <utility>

#include <pharos/ml/ddp.hpp>
#include <pharos/ml/device.hpp>
#include <pharos/ml/fit_options.hpp>
#include <pharos/ml/learner.hpp>
#include <pharos/ml/module_state.hpp>
#include <pharos/ml/optimizer.hpp>

#include "fit/fit_model.hpp"
#include "module/parameters.hpp"

namespace pharos::ml {
namespace {

class CopiedModel final : public FitModel {
 public:
  CopiedModel(torch::nn::Module& module, const DdpOptions& how, at::Device device, const FitOptions& options)
      : FitModel{module, options}, module_{module}, how_{how}, device_{device} {
    if (options.bf16) halve(module.parameters());
    how_.check_numbers = how_.check_numbers || options.check_numbers;
  }

  void join(Communicator& ranks, std::uint64_t step) override {
    if (ranks.size() == 1) return;
    how_.first_step = step;
    if (device_.is_cpu()) {
      ddp_.emplace(ranks, module_, how_);
      return;
    }
    // A GPU may have no memory for the old buckets and the new ones at the same time.
    for (const at::Tensor& each : module_.parameters()) each.mutable_grad().reset();
    ddp_.reset();
    gpus_.reset();
    gpus_ = communicator_on(device_, ranks);
    ddp_.emplace(ranks, *gpus_, module_, how_);
  }

  std::string table() const override { return ""; }
  std::vector<ParameterGroup> groups(const SettingsOf& settings) const override { return groups_of(module_, settings); }
  std::vector<NamedTensor> own_parameters() const override { return parameters_of(module_); }
  void add_to(State& state) override { ml::add_to(state, module_); }
  void add_to(State& state, Optimizer& optimizer) override { ml::add_to(state, optimizer, module_); }
  std::unique_ptr<Ema> make_ema(double decay) const override { return std::make_unique<Ema>(module_, decay); }
  std::vector<NamedArray> arrays(Communicator& ranks) const override {
    return ranks.rank() == 0 ? arrays_of(module_) : std::vector<NamedArray>{};
  }
  void add_to(State& state, Ema& ema) const override { ml::add_to(state, ema); }

 private:
  bool is_divided() const override { return false; }
  // Ddp has checked the gradients of each rank before it reduced them.
  bool checks_while_reducing() const override { return ddp_.has_value(); }
  Duration waited_for_parameters() const override { return {}; }
  Duration backward_of_batch(const at::Tensor& loss, double samples, bool is_last) override {
    if (!ddp_) {
      if (loss.defined()) loss.backward();
      return {};
    }
    if (!is_last) {
      const NoSync held_back = ddp_->no_sync();
      loss.backward();
      return {};
    }
    const Duration waited = duration_of([&] { ddp_->weigh(samples); });  // waits for slower ranks
    if (loss.defined()) loss.backward();
    return waited + ddp_->last_step().waited;
  }

  torch::nn::Module& module_;
  DdpOptions how_;
  const at::Device device_;
  std::optional<Communicator> gpus_;  // the second communicator of ddp_, if the module is on a GPU
  std::optional<Ddp> ddp_;            // nothing if there is one rank
};

}  // namespace

double Copies::bytes_on_rank(const ModelBytes& model, double) const {
  return model.frozen + 2 * model.parameters + model.optimizer;
}

std::unique_ptr<FitModel> Copies::make_model(Learner& learner, Communicator&, const FitOptions& options) const {
  return std::make_unique<CopiedModel>(learner.module(), learner.configure_copies(), learner.device(), options);
}

}  // namespace pharos::ml
