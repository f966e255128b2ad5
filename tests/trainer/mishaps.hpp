#pragma once

// Mishaps of a rank, and a learner that they happen to.

#include <signal.h>
#include <torch/torch.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <pharos/base/failpoint.hpp>
#include <pharos/ml/fit.hpp>
#include <pharos/pharos.hpp>

namespace pharos::ml::fitting {

using torch::Tensor;

/// When and how a rank dies, stops or hangs.
struct Mishap {
  enum class At : std::uint8_t {
    kNever,
    kBeforeForward,
    kBeforeBackward,
    kBeforeCommit,
    kInValidation,
    kFailpoint,  ///< at `failpoint`, when the rank reaches it in that step or later
    kAnyTime,
  };
  At at = At::kNever;
  std::vector<std::uint32_t> ranks{};
  std::uint64_t step = 0;          ///< the steps that the rank has committed when it happens
  std::uint64_t microseconds = 0;  ///< with kAnyTime: how long after its begin
  int signal = SIGKILL;            ///< 0: its function hangs, or comes late by `microseconds`
  bool replacement_too = false;    ///< the replacement dies at the same place
  std::string failpoint{};         ///< an order such as "data_given:kill"
  std::string meeting{};           ///< an order for rank 0, which reaches that failpoint when it meets a replacement
  std::string in_place{};          ///< an order for the first replacement
  std::string marker{};            ///< a file that the first replacement makes, so that only it takes that order
  bool counts = false;             ///< each rank has a number of its own in its state

  auto pharos_fields() {
    return std::tie(at, ranks, step, microseconds, signal, replacement_too, failpoint, meeting, in_place, marker,
                    counts);
  }
};

/// Has all that makes a step hard to repeat: batch normalisation, which changes buffers in forward; dropout; and
/// numbers that the learner itself keeps.
struct Images : Learner {
  explicit Images(const Mishap& mishap) : mishap_{mishap} { net_->to(torch::kDouble); }

  torch::nn::Module& module() override { return *net_; }
  DatasetPtr training_data() override { return samples(1, 63); }
  DatasetPtr validation_data() override { return samples(2, 17); }
  Tensor training_step(const Batch& batch) override {
    const bool is_first = context().attempt() == 0;
    if (is_first && context().step() == mishap_.step) {
      if (mishap_.at == Mishap::At::kFailpoint && is_one_of_them()) comes_to(mishap_.failpoint);
      const bool meets = context().rank() == 0 && !context().is_replacement();
      if (meets && !mishap_.meeting.empty()) comes_to(mishap_.meeting);
    }
    seen_ += batch.samples_of_all;
    ++own_steps_;
    happen(Mishap::At::kBeforeForward);
    const Tensor loss = loss_of(batch);
    happen(Mishap::At::kBeforeBackward);
    return loss;
  }
  Metrics validation_step(const Batch& batch) override {
    happen(Mishap::At::kInValidation);
    return {{"loss", loss_of(batch).item<double>()},
            {"seen", static_cast<double>(seen_)},
            {"own_steps", static_cast<double>(own_steps_)}};
  }
  /// This is called before the learner has its state and before the rank is known to the trainer.
  Optimization configure_optimizers() override {
    if (mishap_.at == Mishap::At::kAnyTime && context().attempt() == 0 && is_one_of_them()) end_after_a_while();
    if (context().is_replacement() && !mishap_.in_place.empty() && !std::filesystem::exists(mishap_.marker)) {
      std::ofstream{mishap_.marker} << "here";
      comes_to(mishap_.in_place);
    }
    return {.rule = Sgd{.lr = 0.05, .momentum = 0.9}, .clip_norm = 1};
  }
  void add_to_state(State& state) override {
    state.add("seen", seen_);
    if (mishap_.counts) state.add_of_rank("own_steps", own_steps_);
    state.before_save([this] { happen(Mishap::At::kBeforeCommit); });
  }

 private:
  bool is_one_of_them() const {
    const bool is_due = mishap_.replacement_too || !context().is_replacement();
    return is_due && std::ranges::find(mishap_.ranks, context().rank()) != mishap_.ranks.end();
  }
  static void comes_to(const std::string& failpoint) { order_failpoint(*parse_failpoint(failpoint)); }
  void happen(Mishap::At at) {
    if (mishap_.at != at || context().step() != mishap_.step || context().attempt() != 0 || !is_one_of_them()) return;
    if (std::exchange(has_happened_, true)) return;
    if (mishap_.signal == 0 && mishap_.microseconds != 0) {
      return std::this_thread::sleep_for(std::chrono::microseconds{mishap_.microseconds});
    }
    while (mishap_.signal == 0) ::pause();
    ::kill(::getpid(), mishap_.signal);
  }
  void end_after_a_while() const {
    std::thread{[after = mishap_.microseconds, signal = mishap_.signal] {
      std::this_thread::sleep_for(std::chrono::microseconds{after});
      ::kill(::getpid(), signal);
    }}.detach();
  }
  Tensor loss_of(const Batch& batch) {
    return torch::cross_entropy_loss(net_->forward(on_device(batch, "image")), on_device(batch, "class"));
  }
  static DatasetPtr samples(std::uint64_t seed, std::int64_t count) {
    auto random = at::make_generator<at::CPUGeneratorImpl>(seed);
    const Tensor images = torch::randn({count, 1, 6, 6}, random, torch::kDouble);
    const Tensor classes = images.mean({1, 2, 3}).gt(0).to(torch::kLong);
    return rows_of({{"image", array_of(images)}, {"class", array_of(classes)}});
  }

  const Mishap mishap_;
  bool has_happened_ = false;
  std::uint64_t seen_ = 0;
  std::uint64_t own_steps_ = 0;
  torch::nn::Sequential net_{torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 4, 3)),
                             torch::nn::BatchNorm2d(4),
                             torch::nn::ReLU(),
                             torch::nn::Flatten(),
                             torch::nn::Dropout(0.2),
                             torch::nn::Linear(64, 32),  // large enough for each rank to reduce a part
                             torch::nn::ReLU(),
                             torch::nn::Linear(32, 2)};
};

}  // namespace pharos::ml::fitting
