#include "run/sweep_folder.hpp"

#include <system_error>
#include <utility>

namespace pharos::ml {

Result<void> SweepFolder::open(const std::filesystem::path& folder, const JournalHead& head, Existing existing,
                               const Keeps& keeps, const Space& space) {
  path_ = folder;
  metric_ = head.metric;
  if (folder.empty()) return {};
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    return Error::from_errno("making the sweep's folder " + folder.string(), error.value(),
                             "Give a folder that can be written to.");
  }
  // The lock on the journal protects the whole folder: until it is taken, another tuner may work on the other files.
  const auto file = folder / "journal";
  goes_on_ = std::filesystem::exists(file, error) && existing == Existing::kContinued;
  PHAROS_TRY(journal_, goes_on_ ? Journal::open(file, keeps.durable) : Journal::create(file, head, keeps.durable));
  if (auto begun = begin_logs(keeps, space); !begun) {
    if (!goes_on_) std::filesystem::remove(file, error);  // otherwise the next attempt would find a sweep here
    return begun;
  }
  return {};
}

Result<void> SweepFolder::begin_logs(const Keeps& keeps, const Space& space) {
  if (keeps.log_reports) {
    PHAROS_TRY(log_, ReportLog::make(path_, {"trial", "step"}));
  }
  if (keeps.tensorboard) {
    PHAROS_TRY(board_, TensorBoard::make(path_ / "tensorboard", space, metric_));
  }
  return {};
}

Result<void> SweepFolder::replay(const std::function<Result<void>(const SweepEvent& event)>& take) {
  if (!goes_on_) return {};
  PHAROS_TRY(const auto contents, Journal::read(path_ / "journal", take));
  return journal_->go_on_at(contents.bytes);
}

// ---- Events

void SweepFolder::note(const SweepEvent& event, const TrialResult& trial) {
  if (journal_ != nullptr) journal_->append(event);
  log(event, trial);
}

void SweepFolder::log(const SweepEvent& event, const TrialResult& trial) {
  if (board_) board_->add(event, trial);
  if (!log_) return;
  const auto add = [&](std::uint64_t step, double seconds, const Metrics& metrics) {
    std::vector<Metrics::Entry> entries = metrics.entries();
    for (auto& [name, value] : entries) {
      if (name.empty()) name = metric_;
    }
    log_->add({trial.number, step}, seconds, entries);
  };
  if (const auto* const reported = std::get_if<TrialReported>(&event)) {
    add(reported->step, reported->seconds, reported->metrics);
  } else if (const auto* const returned = std::get_if<TrialReturned>(&event)) {
    if (!returned->metrics.empty()) add(trial.step, returned->seconds, returned->metrics);
  }
}

Result<void> SweepFolder::write() {
  if (journal_ != nullptr) PHAROS_TRY_VOID(journal_->write());
  if (log_) PHAROS_TRY_VOID(log_->write());
  if (board_) PHAROS_TRY_VOID(board_->write());
  return {};
}

Result<void> SweepFolder::sync() {
  return journal_ == nullptr ? Result<void>{} : journal_->sync();
}

// ---- Checkpoints

Result<void> SweepFolder::open_checkpoints(const Saved& saved) {
  if (path_.empty()) return {};
  PHAROS_TRY(files_, CheckpointFiles::open(checkpoints(), saved));
  return {};
}

Result<Bytes> SweepFolder::read_checkpoint(std::uint64_t trial, std::uint64_t step) const {
  return CheckpointFiles::read(checkpoints(), trial, step);
}

void SweepFolder::write_checkpoint(std::uint64_t trial, std::uint64_t step, const Bytes& checkpoint) {
  if (files_ != nullptr) files_->write(trial, step, checkpoint);
}

std::vector<CheckpointFiles::Written> SweepFolder::written_checkpoints() {
  return files_ == nullptr ? std::vector<CheckpointFiles::Written>{} : files_->written();
}

void SweepFolder::finish_checkpoints() {
  if (files_ != nullptr) files_->finish();
}

void SweepFolder::forget_before(std::uint64_t trial, std::uint64_t step) {
  if (files_ != nullptr) files_->forget_before(trial, step);
}
void SweepFolder::forget(std::uint64_t trial) {
  if (files_ != nullptr) files_->forget(trial);
}

}  // namespace pharos::ml
