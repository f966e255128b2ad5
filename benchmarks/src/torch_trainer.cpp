// Measures what a training with ml::Trainer costs beside a plain loop: its steps, its checkpoints, and the recovery
// from the death of a rank. Also measures the batches of a Loader. Two ranks with one thread each train the module of
// torch_model.hpp.

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <torch/torch.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <pharos/ml/checkpoints.hpp>
#include <pharos/ml/ddp.hpp>
#include <pharos/ml/fit.hpp>
#include <pharos/ml/group.hpp>
#include <pharos/ml/module_state.hpp>
#include <pharos/ml/optimizer.hpp>

#include "figures.hpp"
#include "folder.hpp"
#include "torch_figures.hpp"
#include "torch_model.hpp"

namespace bench {
namespace {

namespace ml = pharos::ml;
using torch::Tensor;

constexpr std::int64_t kSamples = 4;  // of one rank in one step
constexpr std::int64_t kLength = 128;
constexpr int kTurn = 2;  // steps of one side before the turn of the other side
constexpr std::uint64_t kPairs = 75;
constexpr ml::AdamW kAdam{.lr = 1e-4};

ml::DatasetPtr samples() {
  const Tensor all = torch::randn({64, kLength, kWidth});
  return ml::rows_of({{"x", ml::array_of(all)}});
}

/// The training loop that a user would write without ml::fit().
class PlainLoop {
 public:
  explicit PlainLoop(ml::Communicator& ranks)
      : module_{blocks()},
        ddp_{ranks, *module_},
        optimizer_{ml::groups_of(*module_, 0.01), kAdam},
        loader_{samples(), {.batch = kSamples, .rank = ranks.rank(), .ranks = ranks.size()}} {}

  void steps(int count) {
    for (int i = 0; i < count;) {
      const auto batch = loader_.next();
      if (!batch) continue;  // the end of an epoch
      optimizer_.zero_grad();
      module_->forward(ml::tensor_of((*batch)["x"])).pow(2).mean().backward();
      optimizer_.step();
      ++i;
    }
  }

 private:
  torch::nn::Sequential module_;
  ml::Ddp ddp_;
  ml::Optimizer optimizer_;
  ml::Loader loader_;
};

/// Trains as PlainLoop does. After every kTurn steps a PlainLoop takes its turn, and both are timed.
class Blocks : public ml::Learner {
 public:
  /// The seconds of one step on either side.
  struct Pair {
    double own;
    double plain;
  };

  Blocks() { torch::set_num_threads(1); }

  torch::nn::Module& module() override { return *module_; }
  ml::DatasetPtr training_data() override { return samples(); }
  ml::Optimization configure_optimizers() override { return {.rule = kAdam, .weight_decay = 0.01}; }
  Tensor training_step(const ml::Batch& batch) override {
    if (context().step() % kTurn == 0) take_turns();
    return module_->forward(ml::tensor_of(batch["x"])).pow(2).mean();
  }
  const std::vector<Pair>& pairs() const { return pairs_; }

 protected:
  torch::nn::Sequential module_ = blocks();

 private:
  void take_turns() {
    ml::Communicator& ranks = context().communicator();
    double own = seconds_since(began_);
    if (plain_) {
      ranks.all_reduce(std::span{&own, 1}, ml::Reduction::kMax);
      const double plain = slowest(ranks, [this] { plain_->steps(kTurn); });
      pairs_.push_back({own / kTurn, plain / kTurn});
    } else {
      plain_.emplace(ranks);
      plain_->steps(2 * kTurn);
    }
    ranks.barrier();
    began_ = Clock::now();
  }

  std::optional<PlainLoop> plain_;
  Clock::time_point began_ = Clock::now();
  std::vector<Pair> pairs_;
};

void train_by_turns(ml::TrainContext& context) {
  Blocks blocks;
  ml::fit(context, blocks, {.batch = kSamples, .epochs = 0, .steps = (kPairs + 1) * kTurn + 1});
  for (const Blocks::Pair& each : blocks.pairs()) context.report({{"own", each.own}, {"plain", each.plain}});
}

ml::TrainerOptions on_two_ranks() {
  return {.scaling = {.workers = 2}, .progress = false};
}

/// The training has a folder, in which it writes all logs that it writes by default: reports, the ranks' output, and a
/// file for TensorBoard. Both sides of a pair compute the same steps; only the trainer's own steps are reported.
void measure_steps(pharos::Runtime& runtime, const std::filesystem::path& folder) {
  ml::TrainerOptions options = on_two_ranks();
  options.folder = folder;
  ml::Trainer trainer{runtime, options};
  std::vector<double> own;
  std::vector<double> ratios;
  for (const ml::TrainReport& each : trainer.run<&train_by_turns>().reports) {
    const double* const seconds = each.metrics.find("own");
    if (seconds == nullptr) continue;
    own.push_back(*seconds);
    ratios.push_back(*seconds / *each.metrics.find("plain"));
  }
  ratios.erase(ratios.begin());  // the first steps were not warm yet
  say("trainer_step_ms", median(own) * 1e3, "ms");
  say_with_interval("trainer_step_over_plain_loop", ratios, "times");
}

// ---- Checkpoints

/// One save as one rank measures it: the bytes of its part, and seconds.
struct Saved {
  double bytes = 0;
  double stall = 0;    ///< time that save() takes
  double copy = 0;     ///< time of copying the same bytes into warm memory
  double saved = 0;    ///< time until the checkpoint is on disk
  double written = 0;  ///< time of writing the same bytes to a file and syncing it

  auto pharos_fields() { return std::tie(bytes, stall, copy, saved, written); }
};

void write_file(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  while (!bytes.empty()) {
    const auto some = ::write(file, bytes.data(), bytes.size());
    if (some <= 0) throw std::runtime_error{"writing " + path.string()};
    bytes = bytes.subspan(static_cast<std::size_t>(some));
  }
  if (::fdatasync(file) != 0) throw std::runtime_error{"syncing " + path.string()};
  ::close(file);
  std::filesystem::remove(path);
}

/// Binds this thread to one core. After a wait for the disk the kernel may run both ranks on the same core, and moves
/// one of them only some milliseconds later. In a real training the ranks have computed for long before they save, so
/// each has a core already.
void stay_on_core(std::uint32_t rank) {
  cpu_set_t cores;
  if (::sched_getaffinity(0, sizeof cores, &cores) != 0) throw std::runtime_error{"which cores there are"};
  const int count = CPU_COUNT(&cores);
  int passed = 0;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &cores) || passed++ != static_cast<int>(rank) % count) continue;
    CPU_ZERO(&cores);
    CPU_SET(core, &cores);
    break;
  }
  if (::sched_setaffinity(0, sizeof cores, &cores) != 0) throw std::runtime_error{"staying on a core"};
}

/// A rank that saves and loads a model with its optimizer.
class Saver {
 public:
  std::vector<Saved> save(const std::string& folder, int rounds) {
    torch::set_num_threads(1);
    pharos::Runtime runtime;
    ml::Communicator& ranks = ml::communicator();
    ml::Checkpoints checkpoints{ranks, {.folder = folder, .runtime = &runtime}};
    stay_on_core(ranks.rank());
    std::vector<Saved> found;
    for (int round = 0; round < rounds; ++round) {
      ranks.barrier();
      const auto began = Clock::now();
      checkpoints.save(state_, {.step = static_cast<std::uint64_t>(round)});
      Saved saved{.stall = std::chrono::duration<double>(checkpoints.last_stall()).count()};
      checkpoints.finish();
      saved.saved = seconds_since(began);
      const std::size_t bytes = checkpoints.last_bytes();
      saved.bytes = static_cast<double>(bytes);
      copied_.resize(bytes);
      own_.resize(bytes);
      ranks.barrier();
      const auto copies = Clock::now();
      std::memcpy(copied_.data(), own_.data(), bytes);
      saved.copy = seconds_since(copies);
      ranks.barrier();
      const auto writes = Clock::now();
      write_file(std::filesystem::path{folder} / ("raw" + std::to_string(ranks.rank())), copied_);
      ranks.barrier();
      saved.written = seconds_since(writes);
      found.push_back(saved);
    }
    return found;
  }
  double load(const std::string& folder) {
    ml::Checkpoints checkpoints{ml::communicator(), {.folder = folder}};
    const auto began = Clock::now();
    if (!checkpoints.load(state_)) throw std::runtime_error{"there is no checkpoint to load"};
    return seconds_since(began);
  }

 private:
  static ml::State state_of(torch::nn::Sequential& module, ml::Optimizer& optimizer) {
    ml::State state;
    ml::add_to(state, *module);
    ml::add_to(state, optimizer, *module);
    return state;
  }

  torch::nn::Sequential module_ = blocks();
  ml::Optimizer optimizer_{ml::groups_of(*module_, 0.01), kAdam};
  ml::State state_ = state_of(module_, optimizer_);
  std::vector<std::byte> own_;
  std::vector<std::byte> copied_;
};

void measure_checkpoints(pharos::Runtime& runtime, const std::filesystem::path& folder) {
  constexpr int kRounds = 32;
  const auto savers = runtime.spawn_group<Saver>({.name = "savers", .size = 2});
  ml::connect(savers);
  const auto all = savers.gather<&Saver::save>(folder.string(), kRounds).get();
  std::vector<double> stalls;
  std::vector<double> copies;
  std::vector<double> ratios;
  std::vector<double> saves;
  std::vector<double> writes;
  for (std::size_t round = 2; round < kRounds; ++round) {  // memory is warm after two rounds
    double bytes = 0;
    double stall = 0;
    double copy = 0;
    for (const std::vector<Saved>& rank : all) {
      bytes += rank[round].bytes;
      stall = std::max(stall, rank[round].stall);
      copy = std::max(copy, rank[round].copy);
    }
    stalls.push_back(stall);
    copies.push_back(copy);
    ratios.push_back(stall / copy);
    saves.push_back(bytes / all[0][round].saved / (1 << 30));
    writes.push_back(bytes / all[0][round].written / (1 << 30));
  }
  say("checkpoint_stall_ms", median(stalls) * 1e3, "ms");
  say("checkpoint_memcpy_ms", median(copies) * 1e3, "ms");
  say_with_interval("checkpoint_stall_over_memcpy", ratios, "times");
  say("checkpoint_gib_per_s", median(saves), "GiB/s");
  say("limit_disk_write_synced", median(writes), "GiB/s");
  std::vector<double> loads;
  for (int round = 0; round < 5; ++round) loads.push_back(savers.gather<&Saver::load>(folder.string()).get()[0]);
  say("resume_s", median(loads), "s");
}

// ---- A rank that dies

/// Kills the process of rank 1 once, at the beginning of one step.
class Mortal : public Blocks {
 public:
  explicit Mortal(std::uint64_t step) : step_{step} {}
  Tensor training_step(const ml::Batch& batch) override {
    const bool dies = context().rank() == 1 && context().step() == step_ && !context().is_replacement();
    if (dies) ::kill(::getpid(), SIGKILL);
    return module_->forward(ml::tensor_of(batch["x"])).pow(2).mean();
  }

 private:
  const std::uint64_t step_;
};

/// Measures the time from the kill to the end of the interrupted step, minus the time that a step usually takes.
void measure_recovery(pharos::Runtime& runtime) {
  constexpr std::uint64_t kStep = 20;
  std::vector<double> found;
  for (int round = 0; round < 5; ++round) {
    ml::Trainer trainer{runtime, on_two_ranks()};
    const ml::TrainResult result =
        ml::fit<Mortal>(trainer, {.batch = kSamples, .epochs = 0, .steps = 2 * kStep}, kStep);
    if (result.interruptions.size() != 1 || !result.interruptions[0].is_replacement) {
      throw std::runtime_error{"the rank that was killed was not replaced"};
    }
    std::vector<double> steps;
    for (std::size_t i = 1; i < result.reports.size(); ++i) {
      steps.push_back(result.reports[i].seconds - result.reports[i - 1].seconds);
    }
    found.push_back(steps[kStep - 1] - median(steps));
  }
  say("recovery_kill_replace_s", median(found), "s");
}

// ---- Batches

constexpr std::int64_t kImages = 240'000;

/// Returns the samples per second of one pass over the data by a new loader, from the first batch on, so that neither
/// the start of a loader nor the beginning of a further pass counts. torch_peer.py measures in the same way.
double rate_of_one_pass(const ml::DatasetPtr& dataset, const char* field) {
  ml::Loader loader{dataset, {.batch = 64, .seed = 1}};
  double sum = 0;
  std::size_t samples = 0;
  const auto take = [&](const ml::Batch& batch) {
    sum += *ml::tensor_of(batch[field]).const_data_ptr<float>();
    samples += batch.samples;
  };
  take(loader.next().value());
  samples = 0;
  const auto began = Clock::now();
  while (const auto batch = loader.next()) take(*batch);
  const double seconds = seconds_since(began);
  if (!(sum > 0)) throw std::runtime_error{"the samples are empty"};
  return static_cast<double>(samples) / seconds;
}

/// Measures shuffled batches of 64 images of 28 x 28 bytes, which become floats. One thread makes them ahead.
void measure_loader() {
  const ml::Array images = ml::array_of(torch::randint(256, {kImages, 28, 28}, torch::kByte));
  const ml::Array labels = ml::array_of(torch::randint(10, {kImages}, torch::kByte));
  const auto scaled = ml::changed(ml::rows_of({{"image", images}, {"label", labels}}),
                                  {{"image", ml::DType::kF32, {1, 28, 28}}, {"label", ml::DType::kI64, {}}},
                                  [](const ml::Sample& from, const ml::NewSample& to) {
                                    std::ranges::transform(from.field<std::uint8_t>(0), to.field<float>(0).begin(),
                                                           [](std::uint8_t each) { return each * (1.0F / 255); });
                                    to.field<std::int64_t>(1)[0] = from.field<std::uint8_t>(1)[0];
                                  });
  std::vector<double> rates;
  for (int pass = 0; pass < 5; ++pass) rates.push_back(rate_of_one_pass(scaled, "image"));
  say("loader_samples_per_s", median(rates), "/s");
}

/// Measures shuffled batches of 64 lists of 16 to 512 floats, with zeros behind the shorter ones and their lengths. One
/// thread makes them ahead.
void measure_collation() {
  constexpr std::int64_t kLists = 60'000;
  std::vector<std::int64_t> lengths;
  std::int64_t numbers = 0;
  for (std::int64_t i = 0; i < kLists; ++i) {
    lengths.push_back(16 + i * 7919 % 497);
    numbers += lengths.back();
  }
  const auto lists =
      ml::side_by_side({ml::lists_of("numbers", ml::array_of(torch::rand({numbers})), lengths),
                        ml::rows_of({{"label", ml::array_of(torch::randint(10, {kLists}, torch::kLong))}})});
  std::vector<double> rates;
  for (int pass = 0; pass < 5; ++pass) rates.push_back(rate_of_one_pass(lists, "numbers"));
  say("collate_samples_per_s", median(rates), "/s");
}

}  // namespace

void measure_trainer(pharos::Runtime& runtime, const std::string& only) {
  const Folder folder;
  const auto wants = [&only](const char* beginning) { return only.empty() || only.starts_with(beginning); };
  if (wants("loader")) measure_loader();
  if (wants("collate")) measure_collation();
  if (wants("checkpoint") || wants("limit_disk") || wants("resume")) measure_checkpoints(runtime, folder.path());
  if (wants("recovery")) measure_recovery(runtime);
  if (wants("trainer")) measure_steps(runtime, folder.path() / "training");
}

}  // namespace bench
