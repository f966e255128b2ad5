#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include <pharos/base/export.hpp>

namespace torch::nn {
class Module;
}

/// Helpers for a training loop: clipping and scaling of gradients, and moving means of parameters. The thread that
/// trains calls them, between two backwards. They throw libtorch's exceptions only, unless a function says more.
namespace pharos::ml {

class Communicator;
class Sharded;

/// Scales the gradients of all parameters, taken as one vector, down to the norm `max` if they are longer. Returns the
/// norm that they had. If that is not finite, no gradient is changed.
PHAROS_API double clip_norm(const std::vector<at::Tensor>& parameters, double max);
/// Limits each element of each gradient to the range from -max to max.
PHAROS_API void clip_values(const std::vector<at::Tensor>& parameters, double max);

/// Keeps small half-precision gradients from becoming 0: it scales losses up, and gradients down again. When a gradient
/// has become infinite or NaN, the scale is halved, and that step has to be left out. After `steps_until_growth` good
/// steps in a row the scale is doubled, up to 2^24. Call unscale() once in a step, with all parameters; it turns
/// half-precision gradients into floats. The training loop owns it; it keeps no parameters. One thread at a time.
///
///   scaler.scale(loss).backward();
///   if (scaler.unscale(model->parameters())) optimizer.step();
class PHAROS_API GradScaler {
 public:
  struct Options {
    double begin = 65536;
    std::uint64_t steps_until_growth = 2000;
  };
  GradScaler() : GradScaler{Options{}} {}
  explicit GradScaler(const Options& options) : options_{options}, state_{options.begin} {}

  at::Tensor scale(const at::Tensor& loss) const;
  /// Returns false if the step must be left out. With Ddp the result is the same on all ranks, because their gradients
  /// are the same.
  bool unscale(const std::vector<at::Tensor>& parameters);
  /// For ranks that each have a part of the gradients, as with Sharded. All ranks call it, and all get the same result.
  /// Throws what fails between ranks; the gradients are then unscaled, and the scale is unchanged.
  bool unscale(const std::vector<at::Tensor>& parameters, Communicator& ranks);
  /// Changes the scale after a step, as unscale() does: for loops that have unscaled the gradients themselves.
  /// `are_finite`: whether all elements of all gradients were finite, the same on all ranks.
  void adapt(bool are_finite);
  /// The present scale.
  double now() const { return state_.scale; }

  /// What a checkpoint keeps of it.
  struct State {
    double scale = 0;
    std::uint64_t good_steps = 0;

    auto pharos_fields() { return std::tie(scale, good_steps); }
  };
  const State& state() const { return state_; }
  void set_state(const State& state) { state_ = state; }

 private:
  bool unscale_all(const std::vector<at::Tensor>& parameters) const;

  const Options options_;
  State state_;
};

/// An exponential moving average of a module's parameters, which often works better than their last values. Buffers are
/// not averaged but copied. The training loop owns it. One thread at a time. The Ema keeps the module's tensors, but
/// not the module itself. The destructor leaves the module as it is, and frees the means that no Mean holds.
class PHAROS_API Ema {
 public:
  Ema(const torch::nn::Module& module, double decay);
  /// Means of a divided module: each rank has those of its own slices, which are what apply() changes. Call
  /// Sharded::refresh() before and after an Applied is made, and before and after it is destroyed. The Sharded outlives
  /// the Ema.
  Ema(const Sharded& sharded, const torch::nn::Module& module, double decay);
  Ema(Ema&&) = delete;
  ~Ema();

  /// Call it after each step of the optimizer.
  void update();
  /// Forgets the means: they begin anew with the present values.
  void reset();
  /// While an Applied lives, the module's tensors hold the means, so that the module can be evaluated or saved. Its
  /// destructor puts the module's own values back; an exception of libtorch there ends the process. If apply() throws,
  /// some tensors may hold the means already. Neither train nor update() meanwhile. An Applied may outlive the Ema.
  class Applied;
  [[nodiscard]] Applied apply() const;

  /// One mean. The tensor shares the memory of the Ema, and keeps that memory if it outlives the Ema.
  struct Mean {
    std::string name;
    at::Tensor values;
  };
  /// The means of all parameters, and the copies of all buffers. The caller may write to the tensors, as loading a
  /// checkpoint does.
  std::vector<Mean> means() const;

 private:
  struct Pair {
    std::string name;
    at::Tensor own;
    at::Tensor mean;  // float for half-precision parameters, in which a step's small change would be lost
    bool is_buffer;
  };
  void move_means(double share);
  void add_parameter(const std::string& name, const at::Tensor& own);
  void add_buffers(const torch::nn::Module& module);

  std::vector<Pair> pairs_;
  const double decay_;
};

class PHAROS_API Ema::Applied {
 public:
  explicit Applied(const Ema& ema);
  Applied(Applied&&) = delete;
  ~Applied();

 private:
  struct Kept {
    at::Tensor own;
    at::Tensor values;
  };
  std::vector<Kept> kept_;
};

}  // namespace pharos::ml
