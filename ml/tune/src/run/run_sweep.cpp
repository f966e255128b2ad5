#include "run/run_sweep.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

namespace pharos::ml {
namespace {

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

[[noreturn]] void refuse_sweep(std::string what, std::string remedy) {
  throw_error(Error{ErrorCode::kInvalidArgument, std::move(what), std::move(remedy)});
}

bool has_grids(const Space& space) {
  return std::any_of(space.parameters().begin(), space.parameters().end(),
                     [](const auto& each) { return each.domain.grid; });
}

std::uint64_t trials_of(const TunerOptions& options) {
  if (options.trials != 0) return options.trials;
  if (has_grids(options.space)) return grid_size(options.space);
  if (options.time != Duration{}) return SweepRules::kEndless;
  refuse_sweep("the number of trials is not set", "Set TunerOptions::trials or TunerOptions::time, or use a grid.");
}

void check(const TunerOptions& options) {
  if (options.workers == 0)
    refuse_sweep("TunerOptions::workers is 0, but a trial needs a worker", "Set TunerOptions::workers to 1 or more.");
  if (options.deterministic && options.at_once == 0) {
    refuse_sweep("a deterministic sweep needs the number of trials that run at the same time",
                 "Set TunerOptions::at_once.");
  }
  const Bundle& worker = options.worker;
  if (options.at_once == 0 && worker.cpus <= 0 && worker.gpus <= 0 && worker.resources.empty()) {
    refuse_sweep("the number of trials that run at the same time has no limit, because they need no resources",
                 "Set TunerOptions::at_once, or resources in TunerOptions::worker.");
  }
  for (const Params& first : options.first) {
    for (const auto& [name, value] : first.entries()) {
      const Space::Parameter* const parameter = options.space.find(name);
      const auto& all = options.space.parameters();
      const bool holds = std::any_of(all.begin(), all.end(), [&, &name = name, &value = value](const auto& each) {
        return each.name == name && each.domain.holds(value);
      });
      if (parameter == nullptr) {
        refuse_sweep("TunerOptions::first has a parameter \"" + name + "\", which the space does not have",
                     "Use a parameter of the space.");
      }
      if (!holds) {
        refuse_sweep("TunerOptions::first has " + name + '=' + to_string(value) +
                         ", which is outside of its domain: " + to_string(parameter->domain),
                     "Give a value inside of the domain.");
      }
    }
  }
}

}  // namespace

void complete(TunerOptions& options) {
  check(options);
  options.trials = trials_of(options);
  if (options.searcher == nullptr) {
    options.searcher = has_grids(options.space) ? grid_search(options.space) : tpe(options.space);
  }
  if (options.scheduler == nullptr) options.scheduler = run_all();
}

SweepResults run_sweep(TunerOptions options, TrialSlots& slots, SweepFolder::Existing existing,
                       const std::function<bool()>& interrupted) {
  const JournalHead head{.metric = options.metric,
                         .goal = options.goal,
                         .trials = options.trials,
                         .steps = options.steps,
                         .constraints = options.constraints,
                         .space = options.space.to_json(),
                         .command = command(),
                         .working_folder = std::filesystem::current_path().string()};
  SweepRules rules{.metric = options.metric,
                   .goal = options.goal,
                   .constraints = options.constraints,
                   .trials = options.trials,
                   .steps = options.steps,
                   .retries = options.retries,
                   .seconds_max = std::chrono::duration<double>(options.time).count(),
                   .in_order = options.deterministic ? options.at_once : 0,
                   .first = options.first};
  SweepLoop loop{std::move(rules),   options.space, *options.searcher,
                 *options.scheduler, slots,         {options.silence, options.grace, options.save_every},
                 options.checkpoints};
  if (options.progress) loop.show_progress();
  auto kept = loop.keep_in(
      options.folder, head, existing,
      {.log_reports = options.log_reports, .tensorboard = options.tensorboard, .durable = options.durable});
  if (!kept) throw_error(std::move(kept).error());
  auto results = loop.run(interrupted);
  if (!results) throw_error(std::move(results).error());
  return *std::move(results);
}

}  // namespace pharos::ml
