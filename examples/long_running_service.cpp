// A service that trains: an actor with a name, which owns a training on two ranks. The training runs in the background,
// while the service answers questions about it, stops it and resumes it. If the process of the service dies, another
// process takes its place without help and continues the training from the newest checkpoint. If the process of a rank
// dies, the rank is replaced, and the other rank continues with the same step.
//
// This program is the client of such a service. It stops, resumes and kills the service, and then trains the same model
// undisturbed. The results of both trainings must be equal to the last bit.
//
//   pharos-long-running-service --folder runs/service

#include <signal.h>
#include <torch/torch.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <tuple>
#include <utility>

#include <pharos/ml/checkpoints.hpp>
#include <pharos/ml/fit.hpp>
#include <pharos/pharos.hpp>

#include "command_line.hpp"

namespace {

namespace fs = std::filesystem;
namespace ml = pharos::ml;
using torch::Tensor;

constexpr const char* kName = "training-service";
constexpr const char* kCheckpoints = "checkpoints";  // folder of checkpoints in the folder of a training
constexpr std::size_t kRanks = 2;
constexpr std::uint64_t kSaveEvery = 50;  // steps
constexpr std::uint64_t kStepsMin = 500;
constexpr std::size_t kBatch = 64;  // of a rank
constexpr std::int64_t kArms = 3;
constexpr std::int64_t kPoints = 3072;
constexpr std::int64_t kWidth = 256;
constexpr std::chrono::milliseconds kAskEvery{10};
constexpr std::chrono::seconds kSayEvery{1};

// ---- The training

/// Learns to tell the three arms of a spiral apart.
class Spirals : public ml::Learner {
 public:
  torch::nn::Module& module() override { return *network_; }
  ml::DatasetPtr training_data() override {
    auto random = at::make_generator<at::CPUGeneratorImpl>(1);
    const Tensor arms = torch::arange(kPoints).remainder(kArms);
    const Tensor radius = torch::rand({kPoints}, random).sqrt();
    const Tensor angle = 5 * radius + arms * (2 * M_PI / kArms) + 0.1 * torch::randn({kPoints}, random);
    const Tensor places = torch::stack({radius * angle.cos(), radius * angle.sin()}, 1);
    return ml::rows_of({{"place", ml::array_of(places)}, {"arm", ml::array_of(arms)}});
  }
  Tensor training_step(const ml::Batch& batch) override {
    return torch::cross_entropy_loss(network_->forward(ml::tensor_of(batch["place"])), ml::tensor_of(batch["arm"]));
  }
  ml::Optimization configure_optimizers() override {
    return {.rule = ml::AdamW{.lr = 3e-3}, .weight_decay = 1e-3, .schedule = ml::cosine(context().expected_steps())};
  }

 private:
  torch::nn::Sequential network_{torch::nn::Linear(2, kWidth),
                                 torch::nn::Tanh(),
                                 torch::nn::Linear(kWidth, kWidth),
                                 torch::nn::Dropout(0.1),
                                 torch::nn::Tanh(),
                                 torch::nn::Linear(kWidth, kWidth),
                                 torch::nn::Tanh(),
                                 torch::nn::Linear(kWidth, kArms)};
};

/// Runs one rank's part of the training. If `service` is not empty, the rank first reports its process to the service
/// of this name.
void train_as_rank(ml::TrainContext& context, const std::string& service, std::uint64_t steps);

ml::TrainerOptions trainer_options(const fs::path& folder) {
  return {.name = "spirals",
          .scaling = {.workers = kRanks, .cpus_per_worker = 0},
          .seed = 1,
          .folder = folder,
          .save_every = kSaveEvery,
          .progress = false};
}

// ---- The service

enum class Doing : std::uint8_t { kNothing, kTraining, kStopped, kFinished, kFailed };

struct State {
  Doing doing = Doing::kNothing;
  std::uint64_t step = 0;  // the last finished step; if an earlier process stopped the training, the saved step
  double loss = 0;
  std::uint64_t from = 0;         // the step from which the training was last continued
  std::uint32_t incarnation = 0;  // number of processes that the service has had
  std::uint32_t replaced = 0;     // number of ranks that died and were replaced
  pid_t process = 0;              // process of the service
  std::array<pid_t, kRanks> ranks{};
  std::string why{};  // reason of a failure

  auto pharos_fields() { return std::tie(doing, step, loss, from, incarnation, replaced, process, ranks, why); }
};

class Service {
 public:
  Service(const std::string& folder, std::uint64_t steps) : folder_{folder}, steps_{steps} {
    state_.process = ::getpid();
    state_.incarnation = pharos::context().incarnation;
    if (fs::exists(wanted_)) {
      start();  // the process before this one died while it trained
    } else if (fs::exists(folder_)) {
      state_.doing = Doing::kStopped;
      const auto saved = ml::checkpoints_in(folder_ / kCheckpoints);
      if (!saved.empty()) state_.step = saved[0].moment.step;
    }
  }
  Service(Service&&) = delete;
  ~Service() {
    stops_ = true;
    if (thread_.joinable()) thread_.join();
  }

  void begin() {
    if (fs::exists(folder_)) throw std::logic_error{folder_.string() + " has a training: resume it"};
    start();
  }
  void resume() {
    if (!fs::exists(folder_)) throw std::logic_error{"there is no training in " + folder_.string() + ": begin one"};
    start();
  }
  /// Stops the training. Returns when the training has ended and a checkpoint of its last step is on disk; from then on
  /// the training stays stopped, whichever process dies. If the process of the service dies before, the next process
  /// continues the training, and this call is sent to it again. Other calls are answered meanwhile.
  pharos::Async<State> stop() {
    stops_ = true;
    while (stops_ && state().doing == Doing::kTraining) {
      const auto waited = co_await pharos::async::sleep(kAskEvery);
      if (!waited) pharos::throw_error(waited.error());
    }
    co_return state();
  }
  State state() {
    const std::lock_guard lock{mutex_};
    return state_;
  }
  /// A rank calls this when it begins.
  void rank_is(std::uint32_t rank, pid_t process) {
    const std::lock_guard lock{mutex_};
    if (state_.ranks.at(rank) != 0) ++state_.replaced;
    state_.ranks.at(rank) = process;
  }

 private:
  void start() {
    if (state().doing == Doing::kTraining) return;
    if (thread_.joinable()) thread_.join();
    fs::create_directories(folder_);
    examples::write(wanted_, "as long as this is here, the service is to train\n");
    stops_ = false;
    state_.doing = Doing::kTraining;
    state_.ranks = {};
    thread_ = std::thread{[this] { train(); }};
  }

  void train() {
    try {
      pharos::Runtime runtime;  // the connection of this worker to the cluster
      ml::TrainerOptions options = trainer_options(folder_);
      bool is_first = true;
      options.callbacks.emplace_back([&](const ml::TrainReport& report) {
        const std::lock_guard lock{mutex_};
        if (std::exchange(is_first, false)) state_.from = report.step - 1;
        state_.step = report.step;
        state_.loss = *report.metrics.find("loss");
        return stops_ ? ml::Verdict::kStop : ml::Verdict::kGoOn;
      });
      const ml::TrainResult result = ml::Trainer{runtime, options}.run<&train_as_rank>(std::string{kName}, steps_);
      end(result.end == ml::TrainResult::End::kReturned ? Doing::kFinished : Doing::kStopped);
    } catch (const std::exception& error) {
      end(Doing::kFailed, error.what());
    }
  }
  void end(Doing doing, const std::string& why = {}) {
    fs::remove(wanted_);
    const std::lock_guard lock{mutex_};
    state_.doing = doing;
    state_.why = why;
  }

  const fs::path folder_;
  const fs::path wanted_ = folder_ / "wanted";
  const std::uint64_t steps_;
  std::atomic<bool> stops_ = false;
  std::mutex mutex_;
  State state_;
  std::thread thread_;
};

void train_as_rank(ml::TrainContext& context, const std::string& service, std::uint64_t steps) {
  torch::set_num_threads(1);
  torch::manual_seed(context.seed());
  pharos::Runtime runtime;
  if (!service.empty()) runtime.actor<Service>(service).call<&Service::rank_is>(context.rank(), ::getpid()).get();
  Spirals spirals;
  ml::fit(context, spirals, {.batch = kBatch, .epochs = 0, .steps = steps, .strategy = ml::FitStrategy::kCopies});
}

// ---- The client

class Client {
 public:
  Client(pharos::Runtime& runtime, const fs::path& folder, std::uint64_t steps)
      : service_{runtime.spawn<Service>({.name = kName, .max_restarts = 5, .max_task_retries = 5}, folder.string(),
                                        steps)},
        checkpoints_{folder / kCheckpoints},
        steps_{steps} {}

  /// Disturbs a training in all ways that this program knows, and returns the loss of its last step.
  double train_and_disturb() {
    say("the service begins to train");
    service_.call<&Service::begin>().get();
    until([&](const State& now) { return now.step >= steps_ / 5; });
    stop_and_resume();
    const State killed = until([&](const State& now) { return now.step >= 2 * steps_ / 5; });
    kill(killed.process, "the service", killed.step);
    const State back = until([&](const State& now) { return now.step >= 3 * steps_ / 5; });
    say("it has come back by itself as process " + std::to_string(back.process) + ", and gone on from step " +
        std::to_string(back.from));
    // The two newest checkpoints may not have been on disk when the process was killed.
    expect(back.incarnation == killed.incarnation + 1 && back.from >= killed.from &&
               back.from + 3 * kSaveEvery > killed.step,
           "it has not gone on where it was saved");
    kill(back.ranks[1], "rank 1", back.step);
    const State end = until([](const State& now) { return now.doing == Doing::kFinished; });
    say("finished at step " + std::to_string(end.step) + "; ranks that were replaced: " + std::to_string(end.replaced));
    expect(end.step == steps_ && end.replaced == 1 && end.process == back.process, "it has not ended as it should");
    return end.loss;
  }

 private:
  /// Tells the service to stop and kills its process at once, and kills the next process as soon as that has answered.
  void stop_and_resume() {
    const State told = service_.call<&Service::state>().get();
    const auto answer = service_.call<&Service::stop>();
    kill(told.process, "the service", told.step);
    const State stopped = answer.get();
    kill(stopped.process, "the service", stopped.step);
    const State back = until([&](const State& now) { return now.process != stopped.process; });
    expect(back.doing == Doing::kStopped && back.step == stopped.step, "it has not stopped when it said so");
    const std::uint64_t saved = ml::checkpoints_in(checkpoints_).at(0).moment.step;
    say("stopped at step " + std::to_string(stopped.step) + "; the newest checkpoint is of step " +
        std::to_string(saved));
    expect(saved == stopped.step, "it was not saved where it was stopped");
    service_.call<&Service::resume>().get();
    const State resumed = until([&](const State& now) { return now.step > saved; });
    say("resumed from step " + std::to_string(resumed.from));
    expect(resumed.from == saved, "it has not gone on where it was stopped");
  }
  void kill(pid_t process, const std::string& of, std::uint64_t step) {
    say("process " + std::to_string(process) + " of " + of + " is killed at step " + std::to_string(step));
    ::kill(process, SIGKILL);
  }

  /// Asks the service for its state until the condition is true, and prints the progress now and then.
  template <class Condition>
  State until(const Condition& condition) {
    for (;;) {
      State now = service_.call<&Service::state>().get();
      if (now.doing == Doing::kFailed) throw std::runtime_error{"the service has failed: " + now.why};
      if (condition(now)) return now;
      expect(now.doing != Doing::kFinished, "it has come to its end too early: take more --steps");
      if (now.doing == Doing::kTraining && now.step > 0 && std::chrono::steady_clock::now() - said_ > kSayEvery) {
        say("training: step " + std::to_string(now.step) + ", loss " + std::to_string(now.loss));
      }
      std::this_thread::sleep_for(kAskEvery);
    }
  }
  static void expect(bool is_so, const char* otherwise) {
    if (!is_so) throw std::runtime_error{otherwise};
  }
  void say(const std::string& text) {
    said_ = std::chrono::steady_clock::now();
    std::printf("%5.1f s  %s\n", std::chrono::duration<double>(said_ - began_).count(), text.c_str());
    std::fflush(stdout);
  }

  const pharos::Actor<Service> service_;
  const fs::path checkpoints_;
  const std::uint64_t steps_;
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point said_ = began_;
};

/// A new folder. The destructor removes the folder, unless the user has given its name.
class Folder {
 public:
  explicit Folder(const fs::path& given) : is_kept_{!given.empty()}, path_{fs::absolute(is_kept_ ? given : unnamed())} {
    if (fs::exists(path_)) throw std::runtime_error{path_.string() + " is there already: take a new folder"};
  }
  Folder(Folder&&) = delete;
  ~Folder() {
    std::error_code error;
    if (!is_kept_) fs::remove_all(path_, error);
  }
  const fs::path& path() const { return path_; }

 private:
  static fs::path unnamed() {
    return fs::temp_directory_path() / ("pharos-long-running-service-" + std::to_string(::getpid()));
  }

  const bool is_kept_;
  const fs::path path_;
};

int run(pharos::Runtime& runtime, const fs::path& given, std::uint64_t steps) {
  if (steps < kStepsMin) throw std::runtime_error{"there are too few steps to do all that in between"};
  const Folder own{given};
  const fs::path& folder = own.path();
  const double disturbed = Client{runtime, folder / "service", steps}.train_and_disturb();
  std::printf("The same once more, in this program, and undisturbed.\n");
  std::fflush(stdout);
  ml::Trainer trainer{runtime, trainer_options(folder / "undisturbed")};
  const double undisturbed = *trainer.run<&train_as_rank>(std::string{}, steps).last("loss");
  std::printf(
      "The points were drawn by this program. The last loss: %.17g when it was disturbed, %.17g when not: %s.\n",
      disturbed, undisturbed, disturbed == undisturbed ? "the same bits" : "DIFFERENT");
  return disturbed == undisturbed ? 0 : 1;
}

constexpr std::string_view kUsage = R"(usage: pharos-long-running-service [--folder DIR] [--steps N]

Has a service train, stops, resumes and kills it, and trains the same undisturbed.

  --folder DIR  a new one, which keeps checkpoints and reports of both
  --steps N     of the training, 500 or more (1500)

examples:
  pharos-long-running-service
  pharos-long-running-service --folder runs/service --steps 5000
)";

}  // namespace

int main(int argc, char** argv) {
  std::string folder;
  std::uint64_t steps = 1500;
  return examples::run_program(argc, argv, kUsage, {{"--folder", &folder}, {"--steps", &steps}},
                               [&](pharos::Runtime& runtime) { return run(runtime, folder, steps); });
}
