#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <utility>

#include <pharos/ml/precision.hpp>
#include <pharos/ml/random_state.hpp>
#include <pharos/ml/recompute.hpp>

namespace pharos::ml {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Part = std::function<variable_list(const variable_list&)>;

/// The settings, other than its inputs, on which the results of a part depend.
struct Surroundings {
  RandomState random = RandomState::now();
  std::vector<Autocast::Setting> autocast = Autocast::settings();
};

/// While it lives, operators use the random numbers and the autocast settings of the given surroundings.
class Again {
 public:
  explicit Again(const Surroundings& then) : autocast_{then.autocast} { then.random.restore(); }
  Again(Again&&) = delete;
  ~Again() { now_.restore(); }

 private:
  const RandomState now_ = RandomState::now();
  const Autocast autocast_;
};

struct Kept : torch::CustomClassHolder {
  explicit Kept(Part its) : part{std::move(its)} {}
  const Part part;
  const Surroundings then;
};

// Tensors that the part captures are not among its inputs. They may need gradients although no input does. So the
// function gets one more input, which always needs gradients.
class Recomputed : public torch::autograd::Function<Recomputed> {
 public:
  static variable_list forward(AutogradContext* context, const c10::intrusive_ptr<Kept>& kept, const at::Tensor&,
                               at::TensorList inputs) {
    context->saved_data["kept"] = c10::IValue::make_capsule(kept);
    context->save_for_backward(inputs.vec());
    return kept->part(inputs.vec());
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto kept = c10::static_intrusive_pointer_cast<Kept>(context->saved_data["kept"].toCapsule());
    variable_list inputs;
    for (const at::Tensor& each : context->get_saved_variables()) {
      inputs.push_back(each.defined() ? each.detach().set_requires_grad(each.requires_grad()) : each);
    }
    const at::AutoGradMode with_gradients{true};
    variable_list outputs;
    {
      const Again again{kept->then};
      outputs = kept->part(inputs);
    }
    variable_list roots;
    variable_list root_gradients;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (!outputs[i].requires_grad() || !gradients[i].defined()) continue;
      roots.push_back(outputs[i]);
      root_gradients.push_back(gradients[i]);
    }
    if (!roots.empty()) torch::autograd::backward(roots, root_gradients);
    variable_list results(2);
    for (const at::Tensor& each : inputs) results.push_back(each.defined() ? each.grad() : each);
    return results;
  }
};

}  // namespace

variable_list checkpoint(Part part, const variable_list& inputs) {
  if (!at::GradMode::is_enabled()) return part(inputs);
  const at::Tensor always = at::empty({0}).set_requires_grad(true);
  return Recomputed::apply(c10::make_intrusive<Kept>(std::move(part)), always, at::TensorList{inputs});
}

}  // namespace pharos::ml
