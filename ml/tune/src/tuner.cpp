#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include <pharos/ml/tuner.hpp>

#include "actor_slots.hpp"
#include "sweep_loop.hpp"

namespace pharos::ml {
namespace {

std::atomic<bool> interrupt_asked = false;

/// Ctrl-C ends the sweep in order, the first time; unless the program has said what it is to do.
class Interrupts {
 public:
  Interrupts() {
    interrupt_asked = false;
    struct sigaction wanted {};
    wanted.sa_handler = [](int) { interrupt_asked = true; };
    wanted.sa_flags = SA_RESETHAND;
    if (::sigaction(SIGINT, nullptr, &before_) != 0 || before_.sa_handler != SIG_DFL) return;
    ours_ = ::sigaction(SIGINT, &wanted, nullptr) == 0;
  }
  Interrupts(Interrupts&&) = delete;
  ~Interrupts() {
    if (ours_) ::sigaction(SIGINT, &before_, nullptr);
  }
  static bool asked() { return interrupt_asked; }

 private:
  struct sigaction before_ {};
  bool ours_ = false;
};

std::vector<std::string> command() {
  std::ifstream file{"/proc/self/cmdline", std::ios::binary};
  const std::string all{std::istreambuf_iterator<char>{file}, {}};
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin < all.size();) {
    const std::size_t end = std::min(all.find('\0', begin), all.size());
    words.push_back(all.substr(begin, end - begin));
    begin = end + 1;
  }
  std::error_code error;
  if (const auto program = std::filesystem::read_symlink("/proc/self/exe", error); !error && !words.empty()) {
    words.front() = program.string();
  }
  return words;
}

[[noreturn]] void refuse(std::string what, std::string remedy) {
  throw_error(Error{ErrorCode::kInvalidArgument, std::move(what), std::move(remedy)});
}

std::uint64_t trials_of(const TunerOptions& options) {
  if (options.trials != 0) return options.trials;
  const bool has_grid = std::any_of(options.space.parameters().begin(), options.space.parameters().end(),
                                    [](const auto& each) { return each.domain.grid; });
  if (has_grid) return grid_size(options.space);
  if (options.time != Duration{}) return SweepRules::kEndless;
  refuse("nobody says how many trials the sweep has", "Set TunerOptions::trials or time, or give it a grid.");
}

void check(const TunerOptions& options) {
  if (options.workers == 0) refuse("a trial without workers does nothing", "Set TunerOptions::workers to 1 or more.");
  if (options.deterministic && options.at_once == 0) {
    refuse("a sweep that is the same each time needs to know how many trials run at once",
           "Set TunerOptions::at_once.");
  }
  const Bundle& worker = options.worker;
  if (options.at_once == 0 && worker.cpus <= 0 && worker.gpus <= 0 && worker.resources.empty()) {
    refuse("trials that need nothing could run at once without end", "Set TunerOptions::at_once, or what they need.");
  }
  for (const Params& first : options.first) {
    for (const auto& [name, value] : first.entries()) {
      const Space::Parameter* const parameter = options.space.find(name);
      if (parameter == nullptr) {
        refuse("a point to start from has a parameter \"" + name + "\", and the space has none", "Name one of it.");
      }
      if (!parameter->domain.holds(value)) {
        refuse("a point to start from has " + name + '=' + to_string(value) + ", which is none of " +
                   to_string(parameter->domain),
               "Give one that is.");
      }
    }
  }
}

}  // namespace

Tuner::Tuner(Runtime& runtime, TunerOptions options) : runtime_{runtime}, options_{std::move(options)} {
  check(options_);
  static_cast<void>(trials_of(options_));
  if (options_.searcher == nullptr) options_.searcher = tpe(options_.space);
  if (options_.scheduler == nullptr) options_.scheduler = run_all();
}

Tuner::~Tuner() = default;

SweepResults Tuner::run(detail::MakeTrialWorkers make, Existing existing) {
  if (options_.searcher == nullptr) {
    throw_error(Error{ErrorCode::kFailedPrecondition, "this tuner has run its sweep", "Make another one."});
  }
  const auto searcher = std::move(options_.searcher);
  const auto scheduler = std::move(options_.scheduler);
  SweepRules rules{.metric = options_.metric,
                   .goal = options_.goal,
                   .constraints = options_.constraints,
                   .trials = trials_of(options_),
                   .steps = options_.steps,
                   .retries = options_.retries,
                   .seconds_max = std::chrono::duration<double>(options_.time).count(),
                   .in_order = options_.deterministic ? options_.at_once : 0,
                   .first = options_.first};
  const JournalHead head{.metric = rules.metric,
                         .goal = rules.goal,
                         .trials = rules.trials,
                         .steps = rules.steps,
                         .constraints = rules.constraints,
                         .space = options_.space.to_json(),
                         .command = command(),
                         .working_folder = std::filesystem::current_path().string()};
  ActorSlots slots{runtime_, std::move(make),
                   ActorGroupOptions{.name = "trial",
                                     .size = options_.workers,
                                     .member = options_.worker,
                                     .strategy = options_.strategy},
                   options_.at_once};
  SweepLoop loop{std::move(rules), options_.space, *searcher, *scheduler, slots,
                 SweepLoop::Times{options_.silence, options_.grace, options_.save_every}};
  const bool resumes = existing == Existing::kContinued || std::getenv("PHAROS_TUNE_RESUME") != nullptr;
  const auto kept = loop.keep_in(options_.folder, head,
                                 resumes ? SweepLoop::Existing::kContinued : SweepLoop::Existing::kRefused,
                                 {.log_reports = options_.log_reports,
                                  .tensorboard = options_.tensorboard,
                                  .progress = options_.progress,
                                  .durable = options_.durable,
                                  .checkpoints = options_.checkpoints});
  if (!kept) throw_error(Error{kept.error()});
  const Interrupts interrupts;
  auto results = loop.run([] { return Interrupts::asked(); });
  if (!results) throw_error(std::move(results).error());
  return *std::move(results);
}

}  // namespace pharos::ml
