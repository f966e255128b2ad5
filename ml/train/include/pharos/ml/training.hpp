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

/// What a training loop wants between backward() and step(), and beside it.
namespace pharos::ml {

class Communicator;

/// Makes the gradients of all of them, taken as one vector, at most so long; returns how long it was. What is no finite
/// number is returned, and nothing changed.
PHAROS_API double clip_norm(const std::vector<at::Tensor>& parameters, double max);
/// Makes each element of each gradient at most so large.
PHAROS_API void clip_values(const std::vector<at::Tensor>& parameters, double max);

/// For half-precision gradients, which would be 0 where they are small: losses are scaled up, gradients down again. The
/// scale halves when a gradient has become infinite, and that step is left out; after many that were not it doubles.
/// unscale() is called once in a step, with all parameters; gradients of halves are floats from then on.
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
  /// False: leave the step out. With Ddp all ranks say the same, since their gradients are the same.
  bool unscale(const std::vector<at::Tensor>& parameters);
  /// Where each rank has a part of the gradients, as with Sharded: all say the same.
  bool unscale(const std::vector<at::Tensor>& parameters, Communicator& ranks);
  double now() const { return state_.scale; }

  /// What it goes on from.
  struct State {
    double scale = 0;
    std::uint64_t good_steps = 0;

    auto pharos_fields() { return std::tie(scale, good_steps); }
  };
  const State& state() const { return state_; }
  void set_state(const State& state) { state_ = state; }

 private:
  bool unscale_all(const std::vector<at::Tensor>& parameters) const;
  void adapt(bool finite);

  const Options options_;
  State state_;
};

/// A moving mean of a module's parameters, which often does better than the last ones. Its buffers are copied.
class PHAROS_API Ema {
 public:
  Ema(const torch::nn::Module& module, double decay);
  Ema(Ema&&) = delete;
  ~Ema();

  /// After each step.
  void update();
  /// The module has the mean for as long as this lives: to evaluate, or to save.
  class Applied;
  [[nodiscard]] Applied apply() const;

  struct Mean {
    std::string name;
    at::Tensor values;
  };
  /// May be written to, as a checkpoint does.
  std::vector<Mean> means() const;

 private:
  struct Pair {
    std::string name;
    at::Tensor own;
    at::Tensor mean;  // of halves in float: what is new in a step is too little for them
    bool is_buffer;
  };
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
