// Learners with several optimizers, and with those of libtorch: they learn what a plain loop learns, by every strategy,
// on any number of ranks, after a checkpoint and after a death.

#include <gtest/gtest.h>
#include <signal.h>
#include <torch/torch.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <pharos/ml/fit.hpp>
#include <pharos/ml/loader.hpp>
#include <pharos/ml/torch_rule.hpp>
#include <pharos/ml/training.hpp>
#include <pharos/pharos.hpp>

#include "fitting.hpp"
#include "says.hpp"

namespace pharos::ml::fitting {

constexpr FitStrategy kEachStrategy[] = {FitStrategy::kCopies, FitStrategy::kZero1, FitStrategy::kZero2,
                                         FitStrategy::kFullyShard};

/// A network with an embedding and a trunk.
struct Sorter : torch::nn::Module {
  Sorter() {
    register_module("embedding", embedding);
    register_module("trunk", trunk);
    to(torch::kDouble);
    auto random = at::make_generator<at::CPUGeneratorImpl>(7);
    const torch::NoGradGuard no_grad;
    for (auto& each : parameters()) each.normal_(0, 0.3, random);
  }
  Tensor loss(const Tensor& words, const Tensor& classes) {
    return torch::cross_entropy_loss(trunk->forward(embedding(words).mean(1)), classes);
  }

  torch::nn::Embedding embedding{11, 6};
  torch::nn::Sequential trunk{torch::nn::Linear(6, 8), torch::nn::Tanh(), torch::nn::Linear(8, 3)};
};

constexpr std::int64_t kTexts = 101;  // nine steps of twelve, the last one smaller
constexpr std::uint64_t kTextSteps = 27;
constexpr double kClip = 0.2;

DatasetPtr texts() {
  auto random = at::make_generator<at::CPUGeneratorImpl>(1);
  const Tensor words = torch::randint(0, 11, {kTexts, 5}, random, torch::kLong);
  return rows_of({{"words", array_of(words)}, {"class", array_of(words.sum(1).remainder(3))}});
}
Schedule falling() {
  return linear(2 * kTextSteps);
}

/// Trains a Sorter by SGD for the embedding and AdamW for the trunk, both libtorch's. One of its ranks may be killed in
/// a step.
struct Texts : Learner {
  Texts(double clip_norm, std::uint64_t killed_in) : clip_norm_{clip_norm}, killed_in_{killed_in} {}

  torch::nn::Module& module() override { return net_; }
  DatasetPtr training_data() override { return texts(); }
  std::optional<Order> training_order(std::uint64_t samples) override { return Order::in_turn(samples); }
  Tensor training_step(const Batch& batch) override {
    const bool is_first = context().attempt() == 0 && !context().is_replacement();
    if (is_first && context().rank() == 1 && context().step() + 1 == killed_in_) ::kill(::getpid(), SIGKILL);
    return net_.loss(on_device(batch, "words"), on_device(batch, "class"));
  }
  Optimization configure_optimizers() override {
    return {.parts = {{.parameters = "embedding.",
                       .rule = torch_rule(torch::optim::SGDOptions{0.5}.momentum(0.9).dampening(0.1)),
                       .schedule = falling()},
                      {.rule = torch_rule(torch::optim::AdamWOptions{0.02}.weight_decay(0.1))}},
            .schedule = warm_up(3, constant()),
            .clip_norm = clip_norm_};
  }

 private:
  const double clip_norm_;
  const std::uint64_t killed_in_;
  Sorter net_;
};

/// Trains the net in a loop that uses libtorch's optimizers themselves. `in_parts`: each step has so many backwards.
std::vector<double> losses_of_plain_loop(Sorter& net, double clip_norm, std::size_t in_parts) {
  torch::optim::SGD of_embedding{net.embedding->parameters(),
                                 torch::optim::SGDOptions{0.5}.momentum(0.9).dampening(0.1)};
  torch::optim::AdamW of_trunk{net.trunk->parameters(), torch::optim::AdamWOptions{0.02}.weight_decay(0.1)};
  const Schedule both = warm_up(3, constant());
  Loader loader{texts(), {.batch = 12, .order = Order::in_turn(kTexts), .tail = Tail::kUneven}};
  std::vector<double> losses;
  for (std::uint64_t step = 0; step < kTextSteps; ++step) {
    auto batch = loader.next();
    if (!batch) batch = loader.next();
    of_embedding.zero_grad();
    of_trunk.zero_grad();
    double sum = 0;
    const Tensor words = tensor_of((*batch)["words"]);
    const Tensor classes = tensor_of((*batch)["class"]);
    const auto size = static_cast<std::int64_t>(12 / in_parts);
    for (std::int64_t begin = 0; begin < words.size(0); begin += size) {
      const std::int64_t samples = std::min(size, words.size(0) - begin);
      const double share = static_cast<double>(samples) / static_cast<double>(words.size(0));
      const Tensor loss = net.loss(words.narrow(0, begin, samples), classes.narrow(0, begin, samples)) * share;
      sum += loss.item<double>();
      loss.backward();
    }
    if (clip_norm > 0) ml::clip_norm(net.parameters(), clip_norm);
    of_embedding.param_groups()[0].options().set_lr(0.5 * both(step) * falling()(step));
    of_trunk.param_groups()[0].options().set_lr(0.02 * both(step));
    of_embedding.step();
    of_trunk.step();
    losses.push_back(sum);
  }
  return losses;
}

/// Two networks that are trained against each other: the critic tells numbers of the data from those of the generator.
/// They take turns, the critic two steps out of three.
struct Duel : torch::nn::Module {
  Duel() {
    register_module("critic", critic);
    register_module("generator", generator);
    to(torch::kDouble);
    auto random = at::make_generator<at::CPUGeneratorImpl>(9);
    const torch::NoGradGuard no_grad;
    for (auto& each : parameters()) each.normal_(0, 0.3, random);
  }
  static bool is_generators(std::uint64_t step) { return step % 3 == 2; }
  Tensor loss(std::uint64_t step, const Tensor& real, const Tensor& noise) {
    using torch::binary_cross_entropy_with_logits;
    const Tensor made = generator->forward(noise);
    const Tensor of_made = critic->forward(is_generators(step) ? made : made.detach());
    if (is_generators(step)) return binary_cross_entropy_with_logits(of_made, torch::ones_like(of_made));
    const Tensor of_real = critic->forward(real);
    return binary_cross_entropy_with_logits(of_real, torch::ones_like(of_real)) +
           binary_cross_entropy_with_logits(of_made, torch::zeros_like(of_made));
  }

  torch::nn::Sequential critic{torch::nn::Linear(1, 8), torch::nn::Tanh(), torch::nn::Linear(8, 1)};
  torch::nn::Sequential generator{torch::nn::Linear(2, 8), torch::nn::Tanh(), torch::nn::Linear(8, 1)};
};

constexpr std::uint64_t kDuelSteps = 24;

DatasetPtr duel_data() {
  auto random = at::make_generator<at::CPUGeneratorImpl>(2);
  const Tensor real = torch::randn({96, 1}, random, torch::kDouble) * 0.5 + 2;
  return rows_of({{"real", array_of(real)}, {"noise", array_of(torch::randn({96, 2}, random, torch::kDouble))}});
}

struct Duellists : Learner {
  explicit Duellists(std::uint64_t killed_in) : killed_in_{killed_in} {}

  torch::nn::Module& module() override { return duel_; }
  DatasetPtr training_data() override { return duel_data(); }
  std::optional<Order> training_order(std::uint64_t samples) override { return Order::in_turn(samples); }
  Tensor training_step(const Batch& batch) override {
    const bool is_first = context().attempt() == 0 && !context().is_replacement();
    if (is_first && context().rank() == 1 && context().step() + 1 == killed_in_) ::kill(::getpid(), SIGKILL);
    const bool is_generators = Duel::is_generators(context().step());
    for (const Tensor& each : duel_.critic->parameters()) demand(each.requires_grad() != is_generators, "critic");
    for (const Tensor& each : duel_.generator->parameters()) demand(each.requires_grad() == is_generators, "generator");
    return duel_.loss(context().step(), on_device(batch, "real"), on_device(batch, "noise"));
  }
  Optimization configure_optimizers() override {
    return {.parts = {{.parameters = "critic.", .rule = torch_rule(torch::optim::AdamOptions{0.02})},
                      {.parameters = "generator.", .rule = torch_rule(torch::optim::AdamOptions{0.01})}}};
  }
  std::optional<std::size_t> optimizer_of_step(std::uint64_t step) override {
    return Duel::is_generators(step) ? 1 : 0;
  }

 private:
  const std::uint64_t killed_in_;
  Duel duel_;
};

std::vector<double> losses_of_plain_duel(Duel& duel) {
  torch::optim::Adam of_critic{duel.critic->parameters(), torch::optim::AdamOptions{0.02}};
  torch::optim::Adam of_generator{duel.generator->parameters(), torch::optim::AdamOptions{0.01}};
  Loader loader{duel_data(), {.batch = 12, .order = Order::in_turn(96), .tail = Tail::kUneven}};
  std::vector<double> losses;
  for (std::uint64_t step = 0; step < kDuelSteps; ++step) {
    auto batch = loader.next();
    if (!batch) batch = loader.next();
    duel.zero_grad();
    const Tensor loss = duel.loss(step, tensor_of((*batch)["real"]), tensor_of((*batch)["noise"]));
    loss.backward();
    if (Duel::is_generators(step)) {
      of_generator.step();
    } else {
      of_critic.step();
    }
    losses.push_back(loss.item<double>());
  }
  return losses;
}

/// Says in its options what is wrong with its optimizers.
struct OddParts : Learner {
  explicit OddParts(std::string how) : how_{std::move(how)} {}

  torch::nn::Module& module() override { return net_; }
  DatasetPtr training_data() override { return texts(); }
  Tensor training_step(const Batch& batch) override {
    return net_.loss(tensor_of(batch["words"]), tensor_of(batch["class"]));
  }
  Optimization configure_optimizers() override {
    if (how_ == "misspelt") return {.parts = {{.parameters = "embeding."}, {}}};
    if (how_ == "late") return {.parts = {{}, {.parameters = "trunk."}}};
    if (how_ == "rest") return {.parts = {{.parameters = "embedding."}}};
    return {.parts = {{.parameters = "embedding."}, {.parameters = "trunk."}}};
  }
  std::optional<std::size_t> optimizer_of_step(std::uint64_t) override {
    return how_ == "third" ? std::optional<std::size_t>{2} : std::nullopt;
  }

 private:
  const std::string how_;
  Sorter net_;
};

namespace {

class OptimizersTest : public FitTest {
 protected:
  TrainerOptions seldom_saved(const std::string& name, std::size_t workers) const {
    TrainerOptions its = options(name, workers);
    its.save_every = 100;
    return its;
  }
  static void expect_near(const std::vector<double>& found, const std::vector<double>& wanted, double tolerance) {
    ASSERT_EQ(found.size(), wanted.size());
    for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], wanted[i], tolerance) << "step " << i + 1;
  }
  /// To the bit. Losses are not: reports multiply them by the number of samples, and divide the sum by it.
  static void expect_same_model(const TrainResult& result, const torch::nn::Module& wanted) {
    const auto parameters = wanted.named_parameters();
    ASSERT_EQ(result.model.size(), parameters.size());
    for (const NamedArray& each : result.model) {
      EXPECT_TRUE(torch::equal(tensor_of(each.array), parameters[each.name])) << each.name;
    }
  }
};

TEST_F(OptimizersTest, LearnWhatAPlainLoopWithLibtorchsOptimizersLearns) {
  torch::set_num_threads(1);
  Runtime runtime;
  must_end_within(std::chrono::seconds{120});
  Sorter net;
  const std::vector<double> plain = losses_of_plain_loop(net, 0, 1);
  EXPECT_LT(plain.back(), plain.front());
  Trainer alone{runtime, seldom_saved("alone", 1)};
  const TrainResult one = fit<Texts>(alone, {.batch = 12, .epochs = 3}, 0.0, std::uint64_t{0});
  expect_near(losses(one), plain, 1e-14);
  expect_same_model(one, net);
  EXPECT_DOUBLE_EQ(*one.reports[4].metrics.find("lr"), 0.5 * falling()(4));
  EXPECT_DOUBLE_EQ(*one.reports[4].metrics.find("lr_2"), 0.02);
  EXPECT_DOUBLE_EQ(*one.reports[0].metrics.find("lr_2"), 0.02 * warm_up(3, constant())(0));
  Sorter of_clipped;
  const std::vector<double> clipped = losses_of_plain_loop(of_clipped, kClip, 1);
  EXPECT_GT(std::abs(clipped.back() - plain.back()), 1e-3);
  for (const std::size_t ranks : {1U, 2U, 3U}) {
    for (const FitStrategy each : kEachStrategy) {
      const std::string name = std::to_string(ranks) + std::string{name_of(each)};
      SCOPED_TRACE(name);
      Trainer trainer{runtime, seldom_saved(name, ranks)};
      const FitOptions how{.batch = 12 / ranks, .epochs = 3, .strategy = each};
      expect_near(losses(fit<Texts>(trainer, how, kClip, std::uint64_t{0})), clipped, 1e-9);
    }
  }
}

TEST_F(OptimizersTest, AccumulateTogether) {
  torch::set_num_threads(1);
  Runtime runtime;
  must_end_within(std::chrono::seconds{60});
  Trainer alone{runtime, seldom_saved("alone", 1)};
  const TrainResult one = fit<Texts>(alone, {.batch = 4, .accumulate = 3, .epochs = 3}, kClip, std::uint64_t{0});
  Sorter net;
  expect_near(losses(one), losses_of_plain_loop(net, kClip, 3), 1e-9);
  for (const FitStrategy each : kEachStrategy) {
    SCOPED_TRACE(name_of(each));
    Trainer two{runtime, seldom_saved(std::string{name_of(each)}, 2)};
    const FitOptions how{.batch = 2, .accumulate = 3, .epochs = 3, .strategy = each};
    expect_near(losses(fit<Texts>(two, how, kClip, std::uint64_t{0})), losses(one), 1e-9);
  }
}

TEST_F(OptimizersTest, ResumeToTheBit) {
  Runtime runtime;
  must_end_within(std::chrono::seconds{60});
  for (const FitStrategy each : {FitStrategy::kCopies, FitStrategy::kZero1, FitStrategy::kFullyShard}) {
    const std::string name{name_of(each)};
    SCOPED_TRACE(name);
    FitOptions how{.batch = 6, .epochs = 3, .strategy = each};
    Trainer calm{runtime, seldom_saved("calm" + name, 2)};
    const std::vector<double> whole = losses(fit<Texts>(calm, how, kClip, std::uint64_t{0}));
    Trainer trainer{runtime, seldom_saved(name, 2)};
    how.steps = 11;
    fit<Texts>(trainer, how, kClip, std::uint64_t{0});
    how.steps = 0;
    const std::vector<double> rest = losses(fit<Texts>(trainer, how, kClip, std::uint64_t{0}));
    EXPECT_EQ(rest, std::vector<double>(whole.begin() + 11, whole.end()));
  }
}

TEST_F(OptimizersTest, LoseNothingWithARank) {
  Runtime runtime;
  must_end_within(std::chrono::seconds{60});
  for (const FitStrategy each : {FitStrategy::kCopies, FitStrategy::kFullyShard}) {
    const std::string name{name_of(each)};
    SCOPED_TRACE(name);
    Trainer calm{runtime, options("calm" + name, 2)};
    const FitOptions how{.batch = 6, .epochs = 3, .strategy = each};
    const std::vector<double> whole = losses(fit<Texts>(calm, how, kClip, std::uint64_t{0}));
    Trainer trainer{runtime, options(name, 2)};
    const TrainResult result = fit<Texts>(trainer, how, kClip, std::uint64_t{14});
    ASSERT_EQ(result.interruptions.size(), 1U);
    EXPECT_EQ(result.interruptions[0].is_replacement, each == FitStrategy::kCopies);
    EXPECT_EQ(losses(result), whole);
  }
}

TEST_F(OptimizersTest, TakeTurns) {
  torch::set_num_threads(1);
  Runtime runtime;
  must_end_within(std::chrono::seconds{120});
  Duel duel;
  const std::vector<double> plain = losses_of_plain_duel(duel);
  Trainer alone{runtime, seldom_saved("alone", 1)};
  const TrainResult one = fit<Duellists>(alone, {.batch = 12, .epochs = 3}, std::uint64_t{0});
  expect_near(losses(one), plain, 1e-14);
  expect_same_model(one, duel);
  for (const std::size_t ranks : {2U, 3U}) {
    for (const FitStrategy each : kEachStrategy) {
      const std::string name = std::to_string(ranks) + std::string{name_of(each)};
      SCOPED_TRACE(name);
      Trainer trainer{runtime, seldom_saved(name, ranks)};
      const FitOptions how{.batch = 12 / ranks, .epochs = 3, .strategy = each};
      expect_near(losses(fit<Duellists>(trainer, how, std::uint64_t{0})), plain, 1e-9);
    }
  }
  for (const std::uint64_t step : {9U, 10U}) {  // of the generator, and of the critic
    SCOPED_TRACE("killed in step " + std::to_string(step));
    Trainer trainer{runtime, seldom_saved("killed" + std::to_string(step), 2)};
    const TrainResult result = fit<Duellists>(trainer, {.batch = 6, .epochs = 3}, step);
    ASSERT_EQ(result.interruptions.size(), 1U);
    EXPECT_TRUE(result.interruptions[0].is_replacement);
    expect_near(losses(result), plain, 1e-9);
  }
}

TEST_F(OptimizersTest, ThatDoNotFitTheParametersAreRefused) {
  Runtime runtime;
  const auto refusal = [&](const std::string& how) {
    Trainer trainer{runtime, options("odd" + how, 2)};
    return message_of<InvalidArgument>([&] { fit<OddParts>(trainer, {.batch = 6}, how); });
  };
  EXPECT_SAYS(refusal("misspelt"), "has an optimizer for \"embeding.\", and none of the parameters");
  EXPECT_SAYS(refusal("late"), "has an optimizer for \"trunk.\", and none of the parameters that are left");
  EXPECT_SAYS(refusal("rest"), "no optimizer of Optimization::parts trains \"trunk.0.weight\"");
  EXPECT_SAYS(refusal("third"), "has returned 2, and the learner has 2 optimizers");
}

}  // namespace
}  // namespace pharos::ml::fitting
