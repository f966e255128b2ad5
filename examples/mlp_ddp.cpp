// Data-parallel training: each rank has a copy of a small network and a share of each batch, and Ddp averages the
// gradients of all ranks. The network learns to tell the three arms of a spiral apart, and the program draws the
// result. The ranks are members of a group:
//
//   pharos-mlp-ddp --ranks 2
//
// Or they are processes that a launcher starts. The code of the training is the same:
//
//   torchrun --no-python --nproc-per-node 2 pharos-mlp-ddp
//   mpirun -n 2 pharos-mlp-ddp
//   srun -n 2 pharos-mlp-ddp

#include <torch/torch.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <pharos/ml/communicator.hpp>
#include <pharos/ml/ddp.hpp>
#include <pharos/ml/group.hpp>
#include <pharos/ml/optimizer.hpp>
#include <pharos/ml/schedule.hpp>
#include <pharos/pharos.hpp>

namespace {

namespace ml = pharos::ml;
using torch::Tensor;

constexpr std::int64_t kArms = 3;
constexpr std::int64_t kPoints = 3072;
constexpr std::int64_t kBatch = 256;  // of all ranks together
constexpr std::int64_t kWidth = 64;
constexpr double kRate = 2e-2;
constexpr std::uint64_t kWarmUp = 20;  // steps
constexpr double kNoise = 0.04;
constexpr int kRows = 22;
constexpr int kColumns = 2 * kRows;

struct Spirals {
  Tensor places;
  Tensor arms;
};

/// Returns the same points on every rank.
Spirals make_spirals() {
  torch::manual_seed(1);
  const Tensor arms = torch::arange(kPoints).remainder(kArms);
  const Tensor radius = torch::rand({kPoints}).sqrt();
  const Tensor angle = 5 * radius + arms * (2 * M_PI / kArms);
  const Tensor noise = kNoise * torch::randn({kPoints, 2});
  return {torch::stack({radius * angle.cos(), radius * angle.sin()}, 1) + noise, arms};
}

torch::nn::Sequential make_network() {
  return torch::nn::Sequential{torch::nn::Linear(2, kWidth), torch::nn::Tanh(), torch::nn::Linear(kWidth, kWidth),
                               torch::nn::Tanh(), torch::nn::Linear(kWidth, kArms)};
}

struct Epoch {
  double loss = 0;
  double accuracy = 0;
  double samples_per_s = 0;
  bool ranks_agree = false;
};

/// One rank's part of the training.
class Training {
 public:
  Training(ml::Communicator& ranks, int epochs)
      : ranks_{ranks},
        network_{make_network()},
        ddp_{ranks, *network_},
        optimizer_{ml::groups_of(*network_, 1e-4), ml::AdamW{.lr = kRate}},
        rate_{ml::warm_up(kWarmUp, ml::cosine(static_cast<std::uint64_t>(epochs * (kPoints / kBatch)) - kWarmUp))} {}

  Epoch epoch() {
    const auto began = std::chrono::steady_clock::now();
    torch::manual_seed(100 + static_cast<std::uint64_t>(epochs_++));
    double loss = 0;
    for (const Tensor& batch : torch::randperm(kPoints).split(kBatch)) {
      const Tensor share = batch.tensor_split(ranks_.size())[ranks_.rank()];
      optimizer_.zero_grad();
      ddp_.weigh(static_cast<double>(share.size(0)));  // shares may differ by one sample
      const Tensor of_share = torch::nn::functional::cross_entropy(network_->forward(data_.places.index({share})),
                                                                   data_.arms.index({share}));
      of_share.backward();
      optimizer_.set_lr(kRate * rate_(steps_++));
      optimizer_.step();
      loss += of_share.item<double>() * static_cast<double>(share.size(0)) / kPoints;
    }
    ranks_.all_reduce(std::span{&loss, 1});
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    return {loss, accuracy(), static_cast<double>(kPoints) / took.count(), ranks_agree()};
  }

  /// Draws which arm the network finds at each place, with one character for each arm.
  std::string picture() {
    const torch::NoGradGuard no_grad;
    const Tensor y = torch::linspace(1.1, -1.1, kRows).view({-1, 1}).expand({kRows, kColumns});
    const Tensor x = torch::linspace(-1.1, 1.1, kColumns).view({1, -1}).expand({kRows, kColumns});
    const Tensor arms = network_->forward(torch::stack({x, y}, 2).view({-1, 2})).argmax(1).view({kRows, kColumns});
    std::string text;
    for (int row = 0; row < kRows; ++row) {
      text += "  ";
      for (int column = 0; column < kColumns; ++column) text += ".o#"[arms[row][column].item<int>()];
      text += '\n';
    }
    return text;
  }

 private:
  double accuracy() {
    const torch::NoGradGuard no_grad;
    return (network_->forward(data_.places).argmax(1) == data_.arms).to(torch::kDouble).mean().item<double>();
  }
  bool ranks_agree() {
    std::vector<Tensor> all;
    for (const auto& each : network_->parameters()) all.push_back(each.detach().flatten());
    Tensor own = torch::cat(all);
    Tensor least = own.clone();
    Tensor most = own.clone();
    const auto span_of = [](Tensor& of) {
      return std::span{of.data_ptr<float>(), static_cast<std::size_t>(of.numel())};
    };
    ranks_.all_reduce(span_of(least), ml::Reduction::kMin);
    ranks_.all_reduce(span_of(most), ml::Reduction::kMax);
    return torch::equal(least, most);
  }

  ml::Communicator& ranks_;
  const Spirals data_ = make_spirals();
  torch::nn::Sequential network_;
  ml::Ddp ddp_;
  ml::Optimizer optimizer_;
  const ml::Schedule rate_;
  int epochs_ = 0;
  std::uint64_t steps_ = 0;
};

/// A rank that is a member of a group.
class Trainer {
 public:
  void begin(int epochs) {
    torch::set_num_threads(1);
    training_.emplace(ml::communicator(), epochs);
  }
  Epoch epoch() { return training_->epoch(); }
  std::string picture() { return training_->picture(); }

 private:
  std::optional<Training> training_;
};

void report(int number, const Epoch& epoch) {
  if (number == 1) std::printf("epoch    loss  accuracy  samples/s\n");
  std::printf("%5d  %6.4f  %6.1f %%  %9.0f\n", number, epoch.loss, 100 * epoch.accuracy, epoch.samples_per_s);
  std::fflush(stdout);
}

int end(const Epoch& last, const std::string& picture) {
  std::printf("\n%s\nThe points were drawn by this program. All ranks have %s parameters.\n", picture.c_str(),
              last.ranks_agree ? "the same bits in their" : "DIFFERENT");
  return last.ranks_agree && last.accuracy > 0.95 ? 0 : 1;
}

int train_in_group(pharos::Runtime& runtime, std::size_t ranks, int epochs) {
  const auto trainers = runtime.spawn_group<Trainer>({.name = "trainers", .size = ranks});
  ml::connect(trainers);
  trainers.gather<&Trainer::begin>(epochs).get();
  std::printf("An MLP learns %lld points of %lld spirals, on %zu ranks.\n", static_cast<long long>(kPoints),
              static_cast<long long>(kArms), ranks);
  Epoch last;
  for (int number = 1; number <= epochs; ++number) {
    last = trainers.gather<&Trainer::epoch>().get()[0];
    report(number, last);
  }
  return end(last, trainers.call<&Trainer::picture>(0).get());
}

int train_as_rank(ml::Communicator ranks, int epochs) {
  torch::set_num_threads(1);
  Training training{ranks, epochs};
  Epoch last;
  for (int number = 1; number <= epochs; ++number) {
    last = training.epoch();
    if (ranks.rank() == 0) report(number, last);
  }
  return ranks.rank() == 0 ? end(last, training.picture()) : 0;
}

constexpr std::string_view kUsage = R"(usage: pharos-mlp-ddp [--ranks N] [--epochs N]

Trains a small network on N ranks (2), for N epochs (30). Started by torchrun, mpirun or srun, it is one of their ranks.
)";

std::optional<int> number_after(int argc, char** argv, std::string_view name, int otherwise) {
  for (int i = 1; i < argc; ++i) {
    if (argv[i] != name) continue;
    const int number = i + 1 < argc ? std::atoi(argv[i + 1]) : 0;
    if (number < 1) return std::nullopt;
    return number;
  }
  return otherwise;
}

}  // namespace

int main(int argc, char** argv) {
  const auto ranks = number_after(argc, argv, "--ranks", 2);
  const auto epochs = number_after(argc, argv, "--epochs", 30);
  if (!ranks || !epochs || (argc > 1 && std::string_view{argv[1]} == "--help")) {
    std::fputs(kUsage.data(), ranks && epochs ? stdout : stderr);
    return ranks && epochs ? 0 : 2;
  }
  try {
    ml::Communicator launched = ml::Communicator::from_environment();
    if (launched.size() > 1) return train_as_rank(std::move(launched), *epochs);
    pharos::Runtime runtime{argc, argv};
    return train_in_group(runtime, static_cast<std::size_t>(*ranks), *epochs);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "pharos-mlp-ddp: %s\n", error.what());
    return 1;
  }
}
