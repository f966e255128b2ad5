#include "backward_end.hpp"

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

/// Goes with the backward, whether that ends well or not.
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

/// Before a node runs the next time.
class Before final : public FunctionPreHook {
 public:
  static void add(Node& node, const SharedEnd& end) {
    for (const auto& hook : node.pre_hooks()) {
      auto* const before = dynamic_cast<Before*>(hook.get());
      if (before == nullptr || before->end_ != nullptr) continue;
      before->end_ = end;  // a node that lives from step to step does not collect them
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

// A callback runs at the end of the backward that it was given in. If that was begun by a node of another one, which
// has not ended then, what comes behind that node is the other's.
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
