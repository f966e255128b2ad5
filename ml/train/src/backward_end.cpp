#include "backward_end.hpp"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>

#include <utility>

namespace pharos::ml {
namespace {

using torch::autograd::Engine;
using torch::autograd::FunctionPreHook;
using torch::autograd::Node;
using torch::autograd::variable_list;
using Then = std::shared_ptr<const std::function<void()>>;

/// Before a node runs the next time.
class Before final : public FunctionPreHook {
 public:
  static void add(Node& node, const Then& then) {
    for (const auto& hook : node.pre_hooks()) {
      auto* const before = dynamic_cast<Before*>(hook.get());
      if (before == nullptr || before->then_ != nullptr) continue;
      before->then_ = then;  // a node that lives from step to step does not collect them
      return;
    }
    auto before = std::make_unique<Before>();
    before->then_ = then;
    node.add_pre_hook(std::move(before));
  }

  variable_list operator()(const variable_list& gradients) override {
    if (Then then = std::exchange(then_, nullptr)) at_end_of_backward(std::move(then));
    return gradients;
  }

 private:
  Then then_;
};

// A callback runs at the end of the backward that it was given in. If that was begun by a node of another one, which
// has not ended then, what comes behind that node is the other's.
void end(const Then& then) {
  const std::shared_ptr<Node> outer = torch::autograd::get_current_node();
  if (outer == nullptr) return (*then)();
  for (const auto& edge : outer->next_edges()) {
    if (!edge.is_valid()) continue;
    return Before::add(*edge.function, then);
  }
  (*then)();
}

}  // namespace

void at_end_of_backward(Then then) {
  Engine::get_default_engine().queue_callback([then = std::move(then)] { end(then); });
}

}  // namespace pharos::ml
