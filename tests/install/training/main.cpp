// A program outside the tree that trains with an installed copy: with Ddp and fully_shard on two ranks, with fit, and
// in a sweep. It learns a plane, and checks how well it has learned it and in which processes.

#include <torch/torch.h>
#include <unistd.h>

#include <cstdint>
#include <exception>
#include <iostream>
#include <set>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include <pharos/ml/communicator.hpp>
#include <pharos/ml/ddp.hpp>
#include <pharos/ml/fit.hpp>
#include <pharos/ml/group.hpp>
#include <pharos/ml/module_state.hpp>
#include <pharos/ml/optimizer.hpp>
#include <pharos/ml/resnet.hpp>
#include <pharos/ml/sharded.hpp>
#include <pharos/ml/trainer.hpp>
#include <pharos/ml/tuner.hpp>
#include <pharos/pharos.hpp>

namespace {

namespace ml = pharos::ml;
using torch::Tensor;

constexpr std::uint64_t kRanks = 2;
constexpr double kGood = 1e-3;  // bound of the mean squared error

/// Backwards that this process has done. The main program itself does none.
int backwards = 0;

void require(bool holds, const std::string& claim) {
  if (!holds) throw std::runtime_error{"this does not hold: " + claim};
}

struct Samples {
  explicit Samples(std::uint64_t seed) {
    torch::manual_seed(seed);
    places = torch::rand({64, 2}) * 2 - 1;
    heights = places.matmul(torch::tensor({{2.F}, {-3.F}})) + 1;
  }
  Tensor loss(torch::nn::Linear& plane) const { return torch::mse_loss(plane->forward(places), heights); }

  Tensor places;
  Tensor heights;
};

struct Learned {
  double loss = 0;
  double parameters = 0;  // the sum of the parameters
  std::int64_t kept = 0;  // parameters that this rank keeps
  int pid = 0;
  int backwards = 0;

  auto pharos_fields() { return std::tie(loss, parameters, kept, pid, backwards); }
};

/// One of the ranks. Each rank has different samples and begins with different parameters.
class Rank {
 public:
  Learned copies() {
    ml::Communicator& ranks = ml::communicator();
    const Samples samples{ranks.rank()};
    torch::nn::Linear plane{2, 1};
    ml::Ddp ddp{ranks, *plane};
    ml::Optimizer optimizer{ml::groups_of(*plane, 0), ml::AdamW{.lr = 0.1}};
    train(samples, plane, optimizer);
    const torch::NoGradGuard no_grad;
    return learned(samples, plane, 3);
  }
  Learned parts() {
    ml::Communicator& ranks = ml::communicator();
    const Samples samples{ranks.rank()};
    torch::nn::Linear plane{2, 1};
    ml::Sharded sharded = ml::fully_shard(*plane, ranks);
    ml::Optimizer optimizer{sharded.groups(0), ml::AdamW{.lr = 0.1}};
    train(samples, plane, optimizer);
    const torch::NoGradGuard no_grad;
    std::int64_t kept = 0;
    for (const auto& slice : sharded.slices()) kept += slice.values.numel();
    const Learned result = learned(samples, plane, kept);
    sharded.check();
    return result;
  }

 private:
  static void train(const Samples& samples, torch::nn::Linear& plane, ml::Optimizer& optimizer) {
    torch::set_num_threads(1);
    for (int step = 0; step < 300; ++step) {
      optimizer.zero_grad();
      samples.loss(plane).backward();
      ++backwards;
      optimizer.step();
    }
  }
  static Learned learned(const Samples& samples, torch::nn::Linear& plane, std::int64_t kept) {
    const double loss = samples.loss(plane).item<double>();
    const double sum = plane->weight.sum().item<double>() + plane->bias.sum().item<double>();
    return {loss, sum, kept, ::getpid(), backwards};
  }
};

void check_ranks(const std::vector<Learned>& ranks, std::int64_t kept, const std::string& how) {
  std::set<int> processes{::getpid()};
  std::int64_t kept_by_all = 0;
  require(ranks.size() == kRanks, how + " has two ranks");
  for (const Learned& rank : ranks) {
    require(rank.loss < kGood, how + " learns the plane");
    require(rank.parameters == ranks[0].parameters, how + " gives all ranks the same bits");
    require(rank.backwards >= 300, how + " counts its backwards where they are done");
    require(processes.insert(rank.pid).second, how + " has a process for each rank");
    kept_by_all += rank.kept;
  }
  require(kept_by_all == kept, how + " keeps as many numbers as it should");
}

class Plane : public ml::Learner {
 public:
  torch::nn::Module& module() override { return *plane_; }
  ml::DatasetPtr training_data() override {
    return ml::rows_of({{"place", ml::array_of(samples_.places)}, {"height", ml::array_of(samples_.heights)}});
  }
  Tensor training_step(const ml::Batch& batch) override {
    ++backwards;
    return torch::mse_loss(plane_(ml::tensor_of(batch["place"])), ml::tensor_of(batch["height"]));
  }
  ml::Optimization configure_optimizers() override { return {.rule = ml::AdamW{.lr = 0.1}}; }

 private:
  Samples samples_{7};
  torch::nn::Linear plane_{2, 1};
};

double train_with(ml::Trial& trial, int program) {
  torch::set_num_threads(1);
  const Samples samples{7};
  torch::nn::Linear plane{2, 1};
  ml::Optimizer optimizer{ml::groups_of(*plane, 0), ml::AdamW{.lr = trial.params().get<double>("lr")}};
  for (int step = 0; step < 100; ++step) {
    optimizer.zero_grad();
    samples.loss(plane).backward();
    ++backwards;
    optimizer.step();
  }
  require(::getpid() != program, "a trial runs in an actor");
  return samples.loss(plane).item<double>();
}

int run(int argc, char** argv) {
  pharos::Runtime runtime{argc, argv};
  const auto group = runtime.spawn_group<Rank>({.size = kRanks, .member = {.cpus = 0}});
  ml::connect(group);
  check_ranks(group.gather<&Rank::copies>().get(), 3 * kRanks, "Ddp");
  std::cout << "Ddp has learned the plane on two ranks\n";
  check_ranks(group.gather<&Rank::parts>().get(), 3, "fully_shard");
  std::cout << "fully_shard has learned the plane on two ranks\n";

  ml::Trainer trainer{runtime, {.scaling = {.workers = kRanks, .cpus_per_worker = 0}, .seed = 1, .progress = false}};
  const ml::TrainResult fitted = ml::fit<Plane>(trainer, {.batch = 16, .epochs = 200});
  require(fitted.end == ml::TrainResult::End::kReturned && fitted.last("loss").value_or(1) < kGood,
          "fit learns the plane");
  std::cout << "fit has learned the plane in " << fitted.steps << " steps\n";

  const ml::Space space{{"lr", ml::log_uniform(1e-3, 1)}};
  ml::Tuner tuner{runtime, {.space = space, .trials = 12, .searcher = ml::random_search(space, 1), .progress = false}};
  const ml::SweepResults swept = tuner.run<&train_with>(::getpid());
  require(swept.count(ml::TrialResult::State::kComplete) == 12, "all trials of the sweep end well");
  require(*swept.best().value < kGood, "the sweep finds a rate that learns the plane");
  std::cout << "the sweep has found a rate\n";

  require(backwards == 0, "the program itself trains nothing");
  ml::ResNet18 network{ml::ResNet18Options{.classes = 10, .small_images = true}};
  require(network(torch::zeros({1, 3, 32, 32})).sizes() == torch::IntArrayRef{1, 10}, "ResNet18 has ten scores");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
