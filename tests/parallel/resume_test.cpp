// A training resumes from what it has saved: with the same bits if nothing has changed, on any other number of ranks,
// and with any other strategy.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <pharos/actors/exceptions.hpp>
#include <pharos/ml/checkpoints.hpp>
#include <pharos/ml/ddp.hpp>
#include <pharos/ml/loader.hpp>
#include <pharos/ml/module_state.hpp>
#include <pharos/ml/optimizer.hpp>
#include <pharos/ml/readers.hpp>
#include <pharos/ml/schedule.hpp>
#include <pharos/ml/sharded.hpp>
#include <pharos/ml/training.hpp>

#include "ranks.hpp"
#include "says.hpp"
#include "temporary_folder.hpp"

namespace pharos::ml {
namespace {

namespace fs = std::filesystem;
using torch::Tensor;

/// Blocks with dropout, an embedding that shares its weight with the head, a frozen layer, and buffers.
struct Net : torch::nn::Module {
  explicit Net(double dropout = 0)
      : words{register_module("words", torch::nn::Embedding(11, 6))},
        frozen{register_module("frozen", torch::nn::Linear(6, 6))},
        blocks{register_module("blocks", torch::nn::ModuleList())},
        seen{register_buffer("seen", torch::zeros({2}, torch::kLong))} {
    for (int i = 0; i < 3; ++i) {
      blocks->push_back(torch::nn::Sequential(torch::nn::Linear(6, 9), torch::nn::GELU(), torch::nn::Dropout(dropout),
                                              torch::nn::Linear(9, 6)));
    }
    head = register_parameter("head", words->weight);
    to(torch::kDouble);
    auto random = at::make_generator<at::CPUGeneratorImpl>(3);
    const torch::NoGradGuard no_grad;
    for (auto& each : parameters()) each.normal_(0, 0.3, random);
    for (auto& each : frozen->parameters()) each.set_requires_grad(false);
  }
  Tensor forward(const Tensor& x) {
    seen.add_(1);
    Tensor y = torch::tanh(frozen(words(x)));
    for (const auto& block : *blocks) y = y + block->as<torch::nn::Sequential>()->forward(y);
    return torch::cross_entropy_loss(torch::linear(y, head).flatten(0, 1), x.flatten());
  }
  torch::nn::Embedding words;
  torch::nn::Linear frozen;
  torch::nn::ModuleList blocks;
  Tensor seen;
  Tensor head;
};

enum class Strategy { kDdp, kZero1, kZero2, kFull };
struct Way {
  Strategy strategy;
  std::uint32_t ranks;
};
std::string name_of(const Way& way) {
  const char* const kNames[] = {"Ddp", "Zero1", "Zero2", "Full"};
  return kNames[static_cast<int>(way.strategy)] + std::to_string(way.ranks);
}

/// The training of one rank, and all the state that it resumes from.
class Training {
 public:
  static constexpr std::size_t kSamples = 24;
  static constexpr std::size_t kBatch = 12;  // of all ranks together

  Training(Communicator& ranks, Strategy strategy, const CheckpointOptions& options, double dropout = 0)
      : ranks_{ranks}, net_{dropout}, checkpoints_{ranks, options}, loader_{samples(), loading(ranks)} {
    const auto sharding = strategy == Strategy::kZero1   ? Sharding::kOptimizer
                          : strategy == Strategy::kZero2 ? Sharding::kGradients
                                                         : Sharding::kParameters;
    if (strategy == Strategy::kDdp) {
      ddp_.emplace(ranks_, net_);
    } else {
      sharded_.emplace(net_, ranks_, sharding, ShardOptions{});
    }
    optimizer_.emplace(sharded_ ? sharded_->groups(0.1) : groups_of(net_, 0.1), AdamW{.lr = 1e-2});
    if (sharded_) {
      add_to(state_, *sharded_, net_);
      add_to(state_, *optimizer_, *sharded_);
    } else {
      add_to(state_, net_);
      add_to(state_, *optimizer_, net_);
    }
    add_random_to(state_);
    state_.add("position", position_);
  }

  std::optional<Moment> load() {
    const auto moment = checkpoints_.load(state_);
    if (!moment) return moment;
    step_ = moment->step;
    loader_.seek(position_);
    return moment;
  }
  void save() {
    position_ = loader_.position();
    checkpoints_.save(state_, {.step = step_, .epoch = position_.epoch});
    checkpoints_.finish();
  }
  void train(int steps) {
    for (int i = 0; i < steps; ++i) {
      auto batch = loader_.next();
      if (!batch) batch = loader_.next();
      optimizer_->set_lr(1e-2 * schedule_(step_++));
      optimizer_->zero_grad();
      net_.forward(tensor_of((*batch)["tokens"])).backward();
      optimizer_->step();
    }
  }

 private:
  static DatasetPtr samples() {
    auto random = at::make_generator<at::CPUGeneratorImpl>(5);
    const Tensor tokens = torch::randint(0, 11, {static_cast<std::int64_t>(kSamples), 4}, random, torch::kLong);
    return rows_of({{"tokens", array_of(tokens)}});
  }
  static LoaderOptions loading(const Communicator& ranks) {
    return {.batch = kBatch / ranks.size(), .rank = ranks.rank(), .ranks = ranks.size(), .seed = 4};
  }

  Communicator& ranks_;
  Net net_;
  Checkpoints checkpoints_;
  Loader loader_;
  std::optional<Ddp> ddp_;
  std::optional<Sharded> sharded_;
  std::optional<Optimizer> optimizer_;
  const Schedule schedule_ = warm_up(3, cosine(20));
  State state_;
  Position position_;
  std::uint64_t step_ = 0;
};

using Saved = std::map<std::string, Array>;

/// All arrays of the newest checkpoint in a folder. Without `with_ranks`, arrays that belong to one rank (with '@' in
/// their name) are left out.
Saved saved_in(const fs::path& folder, bool with_ranks = false) {
  Saved saved;
  for (NamedArray& each : tensors_of_checkpoint(checkpoints_in(folder).at(0).path, "")) {
    if (with_ranks || each.name.find('@') == std::string::npos) saved.emplace(each.name, std::move(each.array));
  }
  return saved;
}
void expect_same(const Saved& own, const Saved& other) {
  ASSERT_EQ(own.size(), other.size());
  for (const auto& [name, array] : own) {
    ASSERT_TRUE(other.contains(name)) << name;
    const Array& its = other.at(name);
    EXPECT_EQ(describe(array.dtype(), array.shape()), describe(its.dtype(), its.shape())) << name;
    const auto bytes = array.bytes().span();
    EXPECT_TRUE(std::ranges::equal(bytes, its.bytes().span())) << name;
  }
}
void expect_near(const Saved& own, const Saved& other) {
  ASSERT_EQ(own.size(), other.size());
  for (const auto& [name, array] : own) {
    const Tensor mine = tensor_of(array);
    const Tensor its = tensor_of(other.at(name));
    EXPECT_TRUE(torch::allclose(mine.to(torch::kDouble), its.to(torch::kDouble), 1e-9, 1e-12)) << name;
  }
}

CommunicatorOptions patient() {
  return {.timeout = std::chrono::seconds{20}};
}

std::vector<Way> all_ways() {
  std::vector<Way> ways{{Strategy::kDdp, 1}, {Strategy::kFull, 1}};
  for (const std::uint32_t ranks : {2U, 3U, 4U}) {
    for (const Strategy each : {Strategy::kDdp, Strategy::kZero1, Strategy::kZero2, Strategy::kFull}) {
      ways.push_back({each, ranks});
    }
  }
  return ways;
}

class Resumed : public testing::TestWithParam<Way> {
 protected:
  CheckpointOptions options(const std::string& name) const { return {.folder = folder_.path() / name}; }

  const TemporaryFolder folder_;
};

TEST_P(Resumed, HasTheBitsOfOneThatWasNotInterrupted) {
  const Way way = GetParam();
  const auto run = [&](const char* name, int steps, bool loads) {
    // Ranks are processes, because libtorch's random generator belongs to the process.
    run_processes(way.ranks, patient(), [&](Communicator& ranks) {
      at::set_num_threads(1);
      torch::manual_seed(100 + ranks.rank());
      Training training{ranks, way.strategy, options(name), 0.2};
      EXPECT_EQ(training.load().has_value(), loads);
      training.train(steps);
      training.save();
    });
  };
  run("whole", 7, false);
  run("parts", 3, false);
  run("parts", 4, true);
  expect_same(saved_in(options("whole").folder, true), saved_in(options("parts").folder, true));
}

TEST_P(Resumed, GoesOnFromWhatAnyOtherHasSaved) {
  const Way way = GetParam();
  const auto train = [&](const Way& by, const CheckpointOptions& in, bool loads, int steps) {
    run_threads(by.ranks, patient(), [&](Communicator& ranks) {
      Training training{ranks, by.strategy, in};
      EXPECT_EQ(training.load().has_value(), loads);
      training.train(steps);
      training.save();
    });
  };
  train(way, options("from"), false, 3);
  const Saved saved = saved_in(options("from").folder);
  fs::copy(options("from").folder, options("reference").folder, fs::copy_options::recursive);
  train(way, options("reference"), true, 3);
  const Saved reference = saved_in(options("reference").folder);
  for (const Way& to : all_ways()) {
    SCOPED_TRACE(name_of(way) + " to " + name_of(to));
    const CheckpointOptions in = options(name_of(to));
    fs::copy(options("from").folder, in.folder, fs::copy_options::recursive);
    train(to, in, true, 0);
    expect_same(saved, saved_in(in.folder));
    train(to, in, true, 3);
    expect_near(reference, saved_in(in.folder));
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, Resumed, testing::ValuesIn(all_ways()),
                         [](const auto& chosen) { return name_of(chosen.param); });

// ---- Types

TEST(ModuleState, KeepsFloatsOfHalvesWhicheverStrategyHadThem) {
  const TemporaryFolder folder;
  const CheckpointOptions options{.folder = folder.path()};
  std::vector<float> wholes;
  {
    torch::nn::Linear halves{6, 5};
    halves->to(torch::kBFloat16);
    Optimizer optimizer{groups_of(*halves, 0.1), AdamW{.lr = 1e-3}};
    for (int i = 0; i < 5; ++i) {
      optimizer.zero_grad();
      halves(torch::ones({2, 6}, torch::kBFloat16)).pow(2).sum().backward();
      optimizer.step();
    }
    Checkpoints checkpoints{Communicator::alone(), options};
    State state;
    add_to(state, *halves);
    add_to(state, optimizer, *halves);
    checkpoints.save(state, {.step = 1});
    checkpoints.finish();
    const Tensor whole = optimizer.states()[0].whole;
    wholes.assign(whole.data_ptr<float>(), whole.data_ptr<float>() + whole.numel());
  }
  run_threads(2, patient(), [&](Communicator& ranks) {
    torch::nn::Linear halves{6, 5};
    halves->to(torch::kBFloat16);
    Sharded sharded = fully_shard(*halves, ranks);
    Optimizer optimizer{sharded.groups(0.1), AdamW{.lr = 1e-3}};
    Checkpoints checkpoints{ranks, options};
    State state;
    add_to(state, sharded, *halves);
    add_to(state, optimizer, sharded);
    ASSERT_TRUE(checkpoints.load(state));
    for (const Sharded::Slice& each : sharded.slices()) {
      if (each.name != "weight") continue;
      ASSERT_EQ(each.values.scalar_type(), torch::kFloat);
      for (std::int64_t i = 0; i < each.values.numel(); ++i) {
        EXPECT_EQ(each.values.data_ptr<float>()[i], wholes[static_cast<std::size_t>(each.begin + i)]);
      }
    }
    checkpoints.save(state, {.step = 2});
    checkpoints.finish();
  });
  // And back.
  torch::nn::Linear halves{6, 5};
  halves->to(torch::kBFloat16);
  Optimizer optimizer{groups_of(*halves, 0.1), AdamW{.lr = 1e-3}};
  Checkpoints checkpoints{Communicator::alone(), options};
  State state;
  add_to(state, *halves);
  add_to(state, optimizer, *halves);
  const auto moment = checkpoints.load(state);
  ASSERT_TRUE(moment);
  EXPECT_EQ(moment->step, 2U);
  const Tensor whole = optimizer.states()[0].whole;
  EXPECT_EQ((std::vector<float>{whole.data_ptr<float>(), whole.data_ptr<float>() + whole.numel()}), wholes);
  EXPECT_TRUE(torch::equal(halves->weight.flatten(), whole.to(torch::kBFloat16)));
}

TEST(ModuleState, ReadsAndWritesWhatDoesNotLieRowByRow) {
  const TemporaryFolder folder;
  const auto make = [](bool channels_last) {
    torch::nn::Conv2d module{torch::nn::Conv2dOptions(3, 4, 2)};
    if (channels_last) module->weight.set_data(module->weight.contiguous(at::MemoryFormat::ChannelsLast));
    return module;
  };
  const auto state_of = [](torch::nn::Conv2d& module, Optimizer& optimizer) {
    State state;
    add_to(state, *module);
    add_to(state, optimizer, *module);
    return state;
  };
  Checkpoints checkpoints{Communicator::alone(), {.folder = folder.path()}};
  auto from = make(true);
  Optimizer optimizer{groups_of(*from, 0), AdamW{}};
  from(torch::randn({1, 3, 5, 5})).sum().backward();
  optimizer.step();
  checkpoints.save(state_of(from, optimizer), {.step = 1});
  auto to = make(false);
  Optimizer other{groups_of(*to, 0), AdamW{}};
  checkpoints.finish();
  ASSERT_TRUE(checkpoints.load(state_of(to, other)));
  EXPECT_TRUE(torch::equal(from->weight, to->weight));
  for (auto* each : {&from, &to}) (*each)->zero_grad();
  const Tensor x = torch::ones({1, 3, 5, 5});
  from(x).sum().backward();
  to(x).sum().backward();
  optimizer.step();
  other.step();
  EXPECT_TRUE(torch::allclose(from->weight, to->weight, 0, 1e-7));
}

TEST(ModuleState, SaysWhatItCannotSave) {
  torch::nn::Linear module{2, 2};
  module->register_buffer("angles", torch::zeros({2}, torch::kComplexFloat));
  State state;
  EXPECT_SAYS(message_of<InvalidArgument>([&] { add_to(state, *module); }), "\"model.angles\" is of type ComplexFloat");
  torch::nn::Linear other{2, 2};
  Optimizer optimizer{groups_of(*other, 0), Sgd{}};
  EXPECT_SAYS(message_of<InvalidArgument>([&] { add_to(state, optimizer, *module); }), "that the module does not have");
}

TEST(ModuleState, HasMeansAndScales) {
  const TemporaryFolder folder;
  Checkpoints checkpoints{Communicator::alone(), {.folder = folder.path()}};
  const auto state_of = [](torch::nn::Linear& module, Ema* ema, GradScaler* scaler) {
    State state;
    add_to(state, *module);
    if (ema != nullptr) add_to(state, *ema);
    if (scaler != nullptr) add_to(state, *scaler);
    return state;
  };
  torch::nn::Linear module{3, 2};
  Ema ema{*module, 0.5};
  GradScaler scaler;
  scaler.set_state({.scale = 128, .good_steps = 7});
  {
    const torch::NoGradGuard no_grad;
    module->weight.fill_(3);
  }
  ema.update();
  checkpoints.save(state_of(module, &ema, &scaler), {.step = 1});
  checkpoints.finish();

  torch::nn::Linear other{3, 2};
  Ema others{*other, 0.5};
  GradScaler other_scaler;
  ASSERT_TRUE(checkpoints.load(state_of(other, &others, &other_scaler)));
  EXPECT_TRUE(torch::equal(ema.means()[0].values, others.means()[0].values));
  EXPECT_EQ(other_scaler.now(), 128);
  EXPECT_EQ(other_scaler.state().good_steps, 7U);

  // An Ema that the checkpoint does not have begins with the loaded values of the module.
  checkpoints.save(state_of(module, nullptr, nullptr), {.step = 2});
  checkpoints.finish();
  Ema late{*other, 0.5};
  ASSERT_TRUE(checkpoints.load(state_of(other, &late, nullptr)));
  EXPECT_TRUE(torch::equal(late.means()[0].values, module->weight));
}

// ---- Files of other libraries

TEST(ModuleArrays, GoToAFileAndComeBack) {
  const TemporaryFolder folder;
  Net from;
  write_safetensors(folder.path() / "net.safetensors", arrays_of(from));
  Net to;
  {
    const torch::NoGradGuard no_grad;
    for (auto& each : to.parameters()) each.zero_();
  }
  load_arrays(to, SafeTensors::read(folder.path() / "net.safetensors").tensors());
  for (const auto& each : from.named_parameters()) {
    EXPECT_TRUE(torch::equal(each.value(), to.named_parameters()[each.key()])) << each.key();
  }
  Net halves;
  halves.to(torch::kBFloat16);
  load_arrays(halves, arrays_of(from));
  EXPECT_TRUE(torch::equal(halves.words->weight, from.words->weight.to(torch::kBFloat16)));
}

// tests/data/make_files.py has saved a PyTorch module of the same layers.
TEST(ModuleArrays, AreWhatPyTorchHasSaved) {
  torch::nn::Sequential net{torch::nn::Linear(3, 4), torch::nn::BatchNorm1d(4),
                            torch::nn::Linear(torch::nn::LinearOptions(4, 2).bias(false))};
  {
    const torch::NoGradGuard no_grad;
    for (auto& each : net->parameters()) each.fill_(7);
    for (auto& each : net->buffers()) each.fill_(7);
  }
  const fs::path files{PHAROS_DATA_FILES};
  load_arrays(*net, read_torch(files / "state_dict.pt"));

  std::ifstream in{files / "state_dict.json"};
  const auto expected = nlohmann::json::parse(in);
  std::map<std::string, Tensor> loaded;
  for (const auto& all : {net->named_parameters(), net->named_buffers()}) {
    for (const auto& each : all) loaded.emplace(each.key(), each.value().detach());
  }
  ASSERT_EQ(loaded.size(), expected.size());
  const auto numbers = [&](const std::string& name) { return expected.at(name).get<std::vector<double>>(); };
  for (const auto& [name, tensor] : loaded) {
    EXPECT_TRUE(torch::equal(tensor.flatten().to(torch::kDouble), torch::tensor(numbers(name), torch::kDouble)))
        << name;
  }

  // Each number is where it belongs: the loaded module computes what PyTorch computes.
  const double x[] = {1, -2, 3};
  double y[] = {0, 0};
  for (std::size_t i = 0; i < 4; ++i) {
    double hidden = numbers("0.bias")[i];
    for (std::size_t j = 0; j < 3; ++j) hidden += numbers("0.weight")[3 * i + j] * x[j];
    hidden = (hidden - numbers("1.running_mean")[i]) / std::sqrt(numbers("1.running_var")[i] + 1e-5);
    hidden = hidden * numbers("1.weight")[i] + numbers("1.bias")[i];
    for (std::size_t k = 0; k < 2; ++k) y[k] += numbers("2.weight")[4 * k + i] * hidden;
  }
  net->eval();
  const Tensor out = net->forward(torch::tensor({{1.0F, -2.0F, 3.0F}}));
  for (std::int64_t k = 0; k < 2; ++k) EXPECT_NEAR(out[0][k].item<double>(), y[k], 1e-6);
}

TEST(ModuleArrays, AreThoseOfTheModule) {
  torch::nn::Linear module{2, 3};
  const Tensor before = module->weight.detach().clone();
  const auto arrays = [](std::vector<std::pair<std::string, std::vector<std::int64_t>>> shapes) {
    std::vector<NamedArray> all;
    for (const auto& [name, shape] : shapes) all.push_back({name, array_of(torch::ones(shape))});
    return all;
  };
  const auto refusal = [&](const std::vector<NamedArray>& given) {
    return message_of<InvalidArgument>([&] { load_arrays(*module, given); });
  };
  EXPECT_SAYS(refusal(arrays({{"weight", {3, 2}}})), "the file has no \"bias\"");
  EXPECT_SAYS(refusal(arrays({{"weight", {2, 3}}, {"bias", {3}}})),
              "\"weight\" is f32 (2, 3) in the file, and the module's is f32 (3, 2)");
  EXPECT_SAYS(refusal(arrays({{"weight", {3, 2}}, {"bias", {3}}, {"scale", {1}}})), "the module has no \"scale\"");
  EXPECT_TRUE(torch::equal(module->weight, before));
}

}  // namespace
}  // namespace pharos::ml
