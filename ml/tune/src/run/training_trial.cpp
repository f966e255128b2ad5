#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

#include <pharos/actors/exceptions.hpp>
#include <pharos/base/log.hpp>
#include <pharos/ml/checkpoints.hpp>
#include <pharos/ml/training_trial.hpp>

namespace pharos::ml {
namespace {

namespace fs = std::filesystem;

constexpr const char* kCheckpoints = "checkpoints";

/// What a trial saves: where its training has its checkpoints, and how far it has come.
struct TrainingSoFar {
  std::string folder;
  std::uint64_t step = 0;

  auto pharos_fields() { return std::tie(folder, step); }
};

void check(const std::error_code& failed, const std::string& what) {
  if (failed) throw_error(Error::from_errno(what, failed.value()));
}

/// Each time that a trial goes on, its training has a new folder: ranks of the time before may still be writing.
class Folders {
 public:
  Folders(fs::path folder, std::uint64_t trial)
      : folder_{std::move(folder)}, first_{"trial-" + std::to_string(trial)}, again_{first_ + "-again-"} {
    std::error_code failed;
    fs::create_directories(folder_, failed);
    check(failed, "making the folder " + folder_.string());
    for (fs::directory_iterator entries{folder_, failed}; !failed && entries != fs::directory_iterator{};
         entries.increment(failed)) {
      const std::string name = entries->path().filename().string();
      if (name == first_ || name.starts_with(again_)) old_.push_back(entries->path());
      if (name.starts_with(again_)) last_ = std::max(last_, std::strtoull(name.c_str() + again_.size(), nullptr, 10));
    }
    check(failed, "reading the folder " + folder_.string());
  }

  fs::path first() const { return folder_ / first_; }
  fs::path next() const { return folder_ / (again_ + std::to_string(last_ + 1)); }
  /// Removes the folders of earlier times, but for the one that this time goes on from: if it saves nothing, the next
  /// one goes on from there, too.
  void tidy(const fs::path& needed) const {
    for (const fs::path& each : old_) {
      if (each == needed) continue;
      std::error_code failed;
      fs::remove_all(each, failed);
      if (failed) {
        log(LogLevel::kWarn, "what an earlier attempt of a trial has left cannot be removed",
            {kv("folder", each.string()), kv("why", failed.message())});
      }
    }
  }

 private:
  const fs::path folder_;
  const std::string first_;
  const std::string again_;
  std::vector<fs::path> old_;
  unsigned long long last_ = 0;
};

/// Returns the newest checkpoint of no later step.
std::optional<SavedCheckpoint> newest_until(const fs::path& folder, std::uint64_t step) {
  for (SavedCheckpoint& each : checkpoints_in(folder)) {
    if (each.moment.step <= step) return std::move(each);
  }
  return std::nullopt;
}

/// Copies a checkpoint. Its files never change, so links will do where the file system has them.
void copy_checkpoint(const fs::path& from, const fs::path& to) {
  const fs::path unfinished = to.string() + ".unfinished";
  std::error_code failed;
  fs::create_directories(to.parent_path(), failed);
  if (!failed) fs::copy(from, unfinished, fs::copy_options::recursive | fs::copy_options::create_hard_links, failed);
  if (failed) {
    fs::remove_all(unfinished, failed);
    fs::copy(from, unfinished, fs::copy_options::recursive, failed);
  }
  if (!failed) fs::rename(unfinished, to, failed);
  check(failed, "copying the checkpoint " + from.string() + " to " + to.string());
}

/// A training and the step up to which its trial has reported.
struct Beginning {
  fs::path folder;
  std::uint64_t reported = 0;
};

Beginning begin(const Trial& trial, const fs::path& folder) {
  const Folders folders{folder, trial.number()};
  const auto saved = trial.checkpoint<TrainingSoFar>();
  if (!saved && trial.attempt() == 0) {
    if (checkpoints_in(folders.first() / kCheckpoints).empty()) return {folders.first()};
    throw_error(Error{ErrorCode::kFailedPrecondition, folders.first().string() + " has a training of another sweep",
                      "Give each sweep a folder of its own, or remove this one."});
  }
  const fs::path next = folders.next();
  folders.tidy(saved ? saved->folder : "");
  if (!saved) return {next};
  const auto from = newest_until(fs::path{saved->folder} / kCheckpoints, saved->step);
  if (!from) return {next};
  copy_checkpoint(from->path, next / kCheckpoints / from->path.filename());
  return {next, saved->step};
}

}  // namespace

TrainerOptions as_trial(Trial& trial, TrainerOptions options) {
  options.name += "-of-trial-" + std::to_string(trial.number());
  options.progress = false;
  std::uint64_t reported = 0;
  if (!options.folder.empty()) {
    Beginning beginning = begin(trial, fs::absolute(options.folder));
    options.folder = std::move(beginning.folder);
    reported = beginning.reported;
  }
  // Reports may come until the training has stopped.
  options.callbacks.emplace_back([&trial, reported, metric = options.metric, folder = options.folder.string(),
                                  verdict = Verdict::kGoOn](const TrainReport& report) mutable {
    if (verdict != Verdict::kGoOn || report.step <= reported) return verdict;
    if (report.metrics.find(metric) == nullptr) return verdict;
    reported = report.step;
    verdict = folder.empty() ? trial.report(report.metrics) : trial.report(report.metrics, [&] {
      return TrainingSoFar{folder, report.step};
    });
    return verdict;
  });
  return options;
}

}  // namespace pharos::ml
