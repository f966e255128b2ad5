#include "parallel/backward_end.hpp"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>

#include <memory>
#include <utility>
#include <vector>

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

/// An end that waits for one of several nodes. The first of them that runs takes it out.
using Waiting = std::shared_ptr<SharedEnd>;

/// Keeps ends that wait, as long as their node's graph. If the graph goes, their backward has failed.
class Keeper final : public FunctionPreHook {
 public:
  static void add(Node& node, Waiting end) {
    Keeper& keeper = of(node);
    std::erase_if(keeper.ends_, [](const Waiting& each) { return *each == nullptr; });
    keeper.ends_.push_back(std::move(end));
  }

  variable_list operator()(const variable_list& gradients) override { return gradients; }

 private:
  /// The node's Keeper, which is made when it is asked for.
  static Keeper& of(Node& node) {
    for (const auto& hook : node.pre_hooks()) {
      if (auto* const keeper = dynamic_cast<Keeper*>(hook.get())) return *keeper;
    }
    auto made = std::make_unique<Keeper>();
    Keeper& keeper = *made;
    node.add_pre_hook(std::move(made));
    return keeper;
  }

  std::vector<Waiting> ends_;
};

/// A hook that asks for the end of the backward when its node is reached the next time. It does so once; the hook
/// stays, and may stay on a tensor that outlives the graph. So it does not keep the end.
class Before final : public FunctionPreHook {
 public:
  // The engine runs the hooks of the node's tensor, not those of the node, also where torch::autograd::grad() asks for
  // the gradient of this tensor and the node itself does not run.
  static void add(Node& node, const Waiting& end) {
    auto& hooks = node.tensor_pre_hooks();
    for (const auto& hook : hooks) {
      auto* const before = dynamic_cast<Before*>(hook.get());
      if (before == nullptr || before->waits()) continue;
      before->end_ = end;  // hooks are reused, so that a tensor that lives from step to step does not collect them
      return;
    }
    auto before = std::make_unique<Before>();
    before->end_ = end;
    hooks.push_back(std::move(before));
  }

  variable_list operator()(const variable_list& gradients) override {
    const Waiting waiting = std::exchange(end_, {}).lock();
    if (waiting != nullptr && *waiting != nullptr) at_end_of_backward(std::exchange(*waiting, nullptr));
    return gradients;
  }

 private:
  bool waits() const {
    const Waiting waiting = end_.lock();
    return waiting != nullptr && *waiting != nullptr;
  }

  std::weak_ptr<SharedEnd> end_;
};

// The engine runs a callback at the end of the backward in which it was queued. If a node of an outer backward has
// begun that one, the outer backward still goes on. So the callback is queued again, in the outer backward, when one of
// the nodes that follow the present node is reached. Each of them is asked: a backward for the gradients of some
// tensors reaches only those that lead there.
void come(const SharedEnd& end) {
  const std::shared_ptr<Node> outer = torch::autograd::get_current_node();
  if (outer == nullptr) return end->come();
  const auto waiting = std::make_shared<SharedEnd>(end);
  bool is_asked = false;
  for (const auto& edge : outer->next_edges()) {
    if (!edge.is_valid()) continue;
    Before::add(*edge.function, waiting);
    is_asked = true;
  }
  if (!is_asked) return end->come();
  Keeper::add(*outer, waiting);
}

void at_end_of_backward(SharedEnd end) {
  Engine::get_default_engine().queue_callback([end = std::move(end)] { come(end); });
}

}  // namespace

void at_end_of_backward(std::function<void()> then, std::function<void()> otherwise) {
  at_end_of_backward(std::make_shared<End>(std::move(then), std::move(otherwise)));
}

}  // namespace pharos::ml
