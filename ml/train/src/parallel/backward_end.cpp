#include "parallel/backward_end.hpp"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>

#include <memory>
#include <utility>

namespace pharos::ml {
namespace {

using torch::autograd::Engine;
using torch::autograd::FunctionPreHook;
using torch::autograd::Node;
using torch::autograd::variable_list;

/// Holds the two functions. It is owned by a callback of the backward, or by a hook in its graph. If these are
/// destroyed before come() was called, the backward has failed.
class End {
 public:
  End(std::function<void()> then, std::function<void()> otherwise)
      : then_{std::move(then)}, otherwise_{std::move(otherwise)} {}
  End(End&&) = delete;
  ~End() {
    if (otherwise_) otherwise_();
  }
  void come() {
    then_();
    otherwise_ = nullptr;
  }

 private:
  const std::function<void()> then_;
  std::function<void()> otherwise_;
};
using SharedEnd = std::shared_ptr<End>;

void at_end_of_backward(SharedEnd end);

/// A hook that asks for the end of the backward when its node runs the next time. It does so once; the hook stays.
class Before final : public FunctionPreHook {
 public:
  static void add(Node& node, const SharedEnd& end) {
    for (const auto& hook : node.pre_hooks()) {
      auto* const before = dynamic_cast<Before*>(hook.get());
      if (before == nullptr || before->end_ != nullptr) continue;
      before->end_ = end;  // hooks are reused, so that a node that lives from step to step does not collect them
      return;
    }
    auto before = std::make_unique<Before>();
    before->end_ = end;
    node.add_pre_hook(std::move(before));
  }

  variable_list operator()(const variable_list& gradients) override {
    if (SharedEnd end = std::exchange(end_, nullptr)) at_end_of_backward(std::move(end));
    return gradients;
  }

 private:
  SharedEnd end_;
};

// The engine runs a callback at the end of the backward in which it was queued. If a node of an outer backward has
// begun that one, the outer backward still goes on. So the callback is queued again, in the outer backward, when one of
// the nodes that follow the present node runs.
void come(const SharedEnd& end) {
  const std::shared_ptr<Node> outer = torch::autograd::get_current_node();
  if (outer == nullptr) return end->come();
  for (const auto& edge : outer->next_edges()) {
    if (!edge.is_valid()) continue;
    return Before::add(*edge.function, end);
  }
  end->come();
}

void at_end_of_backward(SharedEnd end) {
  Engine::get_default_engine().queue_callback([end = std::move(end)] { come(end); });
}

}  // namespace

void at_end_of_backward(std::function<void()> then, std::function<void()> otherwise) {
  at_end_of_backward(std::make_shared<End>(std::move(then), std::move(otherwise)));
}

}  // namespace pharos::ml
