#include "optimizer/updates_on_device.hpp"

#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/full.h>
#include <ATen/ops/where.h>

#include <map>

#include <pharos/base/check.hpp>

namespace pharos::ml {
namespace {

/// The number of steps of each parameter, as the fused operator reads it: a number on the device.
std::vector<at::Tensor> steps_on_device(const DeviceRun& run) {
  std::map<std::uint64_t, at::Tensor> made;
  std::vector<at::Tensor> steps;
  for (const std::uint64_t each : run.steps) {
    at::Tensor& number = made[each];
    if (!number.defined()) {
      number = at::full({}, static_cast<double>(each), run.values[0].options().dtype(at::kFloat));
    }
    steps.push_back(number);
  }
  return steps;
}

void run_rule(const AdamW& by, double lr, double weight_decay, DeviceRun& run) {
  at::_fused_adamw_(run.values, run.gradients, run.kept[0], run.kept[1], /*max_exp_avg_sqs=*/{}, steps_on_device(run),
                    lr, by.beta1, by.beta2, weight_decay, by.eps, /*amsgrad=*/false, /*maximize=*/false);
}

void run_rule(const Sgd& by, double lr, double weight_decay, DeviceRun& run) {
  at::_fused_sgd_(run.values, run.gradients, run.kept[0], weight_decay, by.momentum, lr, /*dampening=*/0, by.nesterov,
                  /*maximize=*/false, /*is_first_step=*/false);
}

void run_rule(const Lion& by, double lr, double weight_decay, DeviceRun& run) {
  std::vector<at::Tensor>& means = run.kept[0];
  std::vector<at::Tensor> directions = at::_foreach_mul(means, by.beta1);
  at::_foreach_add_(directions, run.gradients, 1 - by.beta1);
  for (at::Tensor& each : directions)
    each = at::where(each.isnan(), each, each.sign());  // elements that are NaN stay NaN
  at::_foreach_mul_(run.values, 1 - lr * weight_decay);
  at::_foreach_add_(run.values, directions, -lr);
  at::_foreach_mul_(means, by.beta2);
  at::_foreach_add_(means, run.gradients, 1 - by.beta2);
}

[[noreturn]] void run_rule(const std::shared_ptr<const UpdateRule>&, double, double, DeviceRun&) {
  PHAROS_CHECK(false);  // Optimizer::step_by_own_rule() deals with it
}

}  // namespace

void update_on_device(const Rule& rule, double lr, double weight_decay, DeviceRun& run) {
  std::visit([&](const auto& by) { run_rule(by, lr, weight_decay, run); }, rule);
}

}  // namespace pharos::ml
