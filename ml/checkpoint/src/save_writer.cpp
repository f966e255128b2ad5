#include "save_writer.hpp"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <new>
#include <utility>

#include <pharos/base/check.hpp>
#include <pharos/base/log.hpp>
#include <pharos/ml/checkpoint/failpoints.hpp>

#include "caught.hpp"
#include "folder.hpp"
#include "part_file.hpp"

namespace pharos::ml {
namespace {

namespace fs = std::filesystem;

TimePoint now() {
  return std::chrono::steady_clock::now();
}

/// Lowers the priority of this thread. Otherwise, when it wakes after a long sleep, it would at once take the core of a
/// thread that computes, for some milliseconds.
void give_way() {
  const sched_param none{};
  // Both calls only lower the priority, which every process may do. If they fail, saves work as well and only disturb
  // the computation more.
  static_cast<void>(::sched_setscheduler(0, SCHED_BATCH, &none));
  static_cast<void>(::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), 10));
}

void log_around(const Error& why) {
  log(LogLevel::kWarn, "a step before or after writing a checkpoint failed", {kv("why", why.to_string())});
}

Error given_up() {
  return {ErrorCode::kFailedPrecondition, "the save was given up, because a rank died before it wrote its part"};
}

/// Logs the failure, if there is enough memory.
void log_failed(const Save& save, const Error& why) {
  try {
    log(LogLevel::kError, "a checkpoint could not be written",
        {kv("step", save.moment.step), kv("why", why.to_string())});
  } catch (const std::bad_alloc&) {
    return;  // last_error() has the reason
  }
}

std::string failed_name(std::uint32_t rank) {
  return part_text_name(rank) + ".failed";
}

Error failure_of(std::uint32_t rank, const fs::path& said) {
  const auto text = read_text(said);
  const bool has_room = text && !text->empty();
  ErrorCode code = has_room ? ErrorCode::kFailedPrecondition : ErrorCode::kExhausted;
  for (const ErrorCode each : {ErrorCode::kExhausted, ErrorCode::kPermissionDenied, ErrorCode::kNotFound}) {
    if (has_room && text->starts_with(to_string(each))) code = each;
  }
  const std::string why = has_room ? *text : "there was no room to say why";
  return {code, "rank " + std::to_string(rank) + " could not write its part: " + why, kDiskRemedy};
}

/// Returns what a rank has written about its part, after checking that the part has the right size.
Result<RankPart> part_of(const fs::path& folder, std::uint32_t rank) {
  PHAROS_TRY(const std::string text, read_text(folder / part_text_name(rank)));
  PHAROS_TRY(RankPart part, parse_part(text));
  std::error_code error;
  const std::uint64_t bytes = fs::file_size(folder / part.file, error);
  if (!error && bytes == part.bytes) return part;
  return Error{ErrorCode::kFailedPrecondition,
               "rank " + std::to_string(rank) + " has written " + std::to_string(part.bytes) + " bytes to " +
                   (folder / part.file).string() + ", where there are " +
                   (error ? "none: " + error.message() : std::to_string(bytes)),
               kDiskRemedy};
}

}  // namespace

SaveWriter::SaveWriter(std::uint32_t rank, std::uint32_t ranks, const CheckpointOptions& options)
    : rank_{rank}, ranks_{ranks}, options_{options}, unsaid_of_(ranks), leftovers_{options.folder} {
  spare_.reserve(kUnderWayMax);
  thread_ = std::thread{[this] { run(); }};
}

SaveWriter::~SaveWriter() {
  {
    const std::lock_guard lock{mutex_};
    ends_ = true;
    end_ = now() + kEndTime;
  }
  changed_.notify_all();
  thread_.join();
}

std::unique_ptr<StateCopy> SaveWriter::copy_of(std::size_t bytes) {
  std::unique_ptr<StateCopy> copy;
  {
    const std::lock_guard lock{mutex_};
    if (!spare_.empty()) {
      copy = std::move(spare_.back());
      spare_.pop_back();
    }
  }
  if (copy == nullptr || copy->span().size() != bytes) {
    copy.reset();  // first, because there may be no memory for both
    copy = std::make_unique<StateCopy>(options_.runtime, bytes);
  }
  return copy;
}

std::uint64_t SaveWriter::begin() {
  const std::lock_guard lock{mutex_};
  return ++begun_;
}

void SaveWriter::write(std::unique_ptr<Save> save) {
  {
    const std::lock_guard lock{mutex_};
    saves_.push_back(std::move(save));
  }
  changed_.notify_all();
}

void SaveWriter::give_up_own(const Save& save) {
  {
    const std::lock_guard lock{mutex_};
    unsaid_ = save.number;  // rank 0 hears of this when all ranks meet
  }
  if (rank_ == 0) leftovers_.add(begun_name(save.name()));
}

bool SaveWriter::has_room() const {
  const std::lock_guard lock{mutex_};
  return fits_one();
}

bool SaveWriter::wait_for_room(Duration time) const {
  std::unique_lock lock{mutex_};
  return changed_.wait_for(lock, time, [this] { return fits_one(); });
}

bool SaveWriter::wait_for_end(Duration time) const {
  std::unique_lock lock{mutex_};
  return changed_.wait_for(lock, time, [this] { return saves_.empty() && !busy_; });
}

std::optional<Error> SaveWriter::last_error() const {
  const std::lock_guard lock{mutex_};
  return last_error_;
}

std::uint64_t SaveWriter::unsaid() const {
  const std::lock_guard lock{mutex_};
  return unsaid_;
}

void SaveWriter::hear_unsaid(std::vector<std::uint64_t> of_ranks) {
  {
    const std::lock_guard lock{mutex_};
    unsaid_of_ = std::move(of_ranks);
  }
  changed_.notify_all();
}

std::uint64_t SaveWriter::begun() const {
  const std::lock_guard lock{mutex_};
  return begun_;
}

void SaveWriter::go_on_from(std::uint64_t begun) {
  const std::lock_guard lock{mutex_};
  begun_ = begun;
  unsaid_of_.assign(ranks_, 0);
}

void SaveWriter::give_up_others() {
  {
    const std::lock_guard lock{mutex_};
    given_up_ = begun_;
  }
  changed_.notify_all();
}

Result<void> SaveWriter::enter(const std::string& id) {
  if (owner_) return {};
  if (options_.takes_over) {
    auto taken = FolderOwner::take(options_.folder, id);
    if (taken) {
      owner_ = *std::move(taken);
      return {};
    }
    log_around(taken.error());  // a full disk must not end a training and make it begin again
  }
  PHAROS_TRY(owner_, FolderOwner::find(options_.folder));
  return {};
}

void SaveWriter::expect(const std::string& name) {
  leftovers_.expect(begun_name(name));
}

void SaveWriter::knows(const std::vector<std::string>& names) {
  const std::lock_guard lock{mutex_};
  known_.insert(names.begin(), names.end());
}

// Memory may run out anywhere in this function, so all that allocates is inside caught().
void SaveWriter::run() {
  give_way();
  std::unique_lock lock{mutex_};
  for (;;) {
    changed_.wait(lock, [this] { return ends_ || !saves_.empty(); });
    if (saves_.empty()) return;
    const std::unique_ptr<Save> save = std::move(saves_.front());
    saves_.pop_front();
    busy_ = true;
    lock.unlock();
    auto written = caught([&] { return write_out(*save); }, std::move(save->no_memory));
    if (!written) log_failed(*save, written.error());
    if (!written && rank_ == 0) leftovers_.add(std::move(save->begun));
    lock.lock();
    // Rank 0 hears of this when all ranks meet.
    if (!written && !save->is_said) unsaid_ = save->number;
    last_error_ = written ? std::nullopt : std::optional{std::move(written).error()};
    spare_.push_back(std::move(save->copy));  // has room for all copies, so it allocates nothing
    busy_ = false;
    changed_.notify_all();
  }
}

Result<void> SaveWriter::write_out(Save& save) {
  auto own = caught([&] { return may_write(save); });
  if (own && rank_ == 0) {
    const auto removed = caught([&] { return leftovers_.remove_all(); });
    if (!removed) log_around(removed.error());
  }
  const fs::path folder = options_.folder / save.begun;
  if (own) own = caught([&] { return write_own(save, folder); });
  if (rank_ == 0) return complete(save, folder, own);
  if (own || is_given_up(save)) return {};
  std::error_code error;
  const bool is_there = fs::exists(folder, error) || error;
  save.is_said = is_there && say_failed(folder, own.error());
  const bool was_there = save.part.bytes != 0;
  if (is_there || !was_there) return own;
  // The folder is gone, because rank 0 has given the save up and reports why, or has all that it needs of this rank.
  log_around(own.error());
  return {};
}

Result<void> SaveWriter::write_own(Save& save, const fs::path& folder) const {
  std::error_code error;
  fs::create_directory(folder, error);
  if (error) return disk_error("making " + folder.string(), error.value());
  const fs::path text = folder / part_text_name(rank_);
  auto written = write_part(folder, save.part, save.copy->span(), save.id, save.moment);
  if (written) written = write_text(text, to_text(save.part));
  if (written && failpoint(failpoints::kSaveSaid)) written = disk_error("syncing " + folder.string(), EIO);
  // If the text exists, rank 0 may have read it and count on the part, so the part stays.
  const bool is_said = fs::exists(text, error) || error;
  if (!written && !is_said) fs::remove(folder / save.part.file, error);
  return written;
}

Result<void> SaveWriter::may_write(const Save& save) const {
  if (is_given_up(save)) return given_up();
  return owner_ ? owner_->check() : Result<void>{};
}

bool SaveWriter::is_given_up(const Save& save) const {
  const std::lock_guard lock{mutex_};
  return save.number <= given_up_;
}

// The failure is reported by a file. An empty file can be made even on a full disk.
bool SaveWriter::say_failed(const fs::path& folder, const Error& why) const {
  const fs::path path = folder / failed_name(rank_);
  const auto said = write_text(path, std::string{to_string(why.code())} + ": " + why.story());
  return said || std::ofstream{path};
}

Result<void> SaveWriter::complete(const Save& save, const fs::path& folder, const Result<void>& own) {
  const std::string name = save.name();
  // Later checkpoints are determined before the manifest is written: those that appear after it belong to another
  // process, which has gone on from this checkpoint.
  const auto later = later_than(name);
  auto committed = caught([&] { return commit(save, folder, own && !later ? later.error() : own); });
  if (!committed) {
    const auto removed = remove_checkpoint(options_.folder, save.begun);
    if (!removed) log_around(removed.error());
    return committed;
  }
  // The checkpoint counts as soon as it has its name. So those of later steps are set aside even if the sync fails, but
  // nothing is removed then, because the name may be lost.
  auto synced = sync_folder(options_.folder);
  failpoint(failpoints::kManifestWritten);
  PHAROS_TRY_VOID(set_aside(options_.folder, *later));
  if (!synced) return synced;
  // This checkpoint is the newest from here on. Failures below only leave old files behind.
  const auto tidied = caught([&] { return tidy(name); });
  if (!tidied) log_around(tidied.error());
  return {};
}

Result<void> SaveWriter::commit(const Save& save, const fs::path& folder, const Result<void>& own) {
  PHAROS_TRY(const Manifest manifest, gather(save, folder, own));
  failpoint(failpoints::kSavesThere);
  PHAROS_TRY_VOID(write_text(folder / kManifestFile, to_text(manifest)));
  {
    const std::lock_guard lock{mutex_};
    known_.insert(save.name());
  }
  // If another process takes the folder over right after this check, the checkpoint is made all the same, and
  // later_than() of that process sets it aside if necessary.
  PHAROS_TRY_VOID(owner_->check());
  return make_complete(options_.folder, save.name());
}

// Waits for the parts of all ranks, even when one has failed, so that no rank still writes to the folder when it is
// removed.
Result<Manifest> SaveWriter::gather(const Save& save, const fs::path& folder, const Result<void>& own) {
  Manifest manifest{.id = save.id, .moment = save.moment};
  std::optional<Error> failed = own ? std::nullopt : std::optional{own.error()};
  const auto fail = [&failed](Error why) {
    if (!failed) failed = std::move(why);
  };
  const TimePoint until = now() + options_.timeout;
  Duration pause = std::chrono::microseconds{500};
  for (std::uint32_t rank = failed ? 1 : 0; rank < ranks_;) {
    const fs::path path_of_failure = folder / failed_name(rank);
    std::error_code error;
    if (fs::exists(path_of_failure, error)) {
      fail(failure_of(rank, path_of_failure));
      ++rank;
      continue;
    }
    if (fs::exists(folder / part_text_name(rank), error)) {
      auto part = part_of(folder, rank);
      if (part) {
        manifest.parts.push_back(*std::move(part));
      } else {
        fail(std::move(part).error());
      }
      ++rank;
      continue;
    }
    // Ranks on other machines can report a failure only in the folder, or when all ranks meet.
    std::unique_lock lock{mutex_};
    if (unsaid_of_[rank] >= save.number) {
      fail({ErrorCode::kFailedPrecondition,
            "rank " + std::to_string(rank) + " could not write its part, and could not report that in " +
                folder.string() + " either; the log of that rank has the reason",
            kDiskRemedy});
      ++rank;
      continue;
    }
    changed_.wait_for(lock, pause);
    if (save.number <= given_up_) return failed ? *failed : given_up();
    if (now() > std::min(until, end_)) return failed ? *failed : never_came(rank);
    pause = std::min<Duration>(2 * pause, std::chrono::milliseconds{20});
  }
  if (failed) return *failed;
  PHAROS_TRY_VOID(check_whole(manifest));
  return manifest;
}

// This does not mean that the rank is dead: it may still be writing.
Error SaveWriter::never_came(std::uint32_t rank) const {
  const auto seconds = std::chrono::duration<double>(options_.timeout).count();
  return {ErrorCode::kFailedPrecondition,
          "rank " + std::to_string(rank) + " has not written its part" +
              (now() > end_ ? " when this process ended" : " in " + pharos::detail::print(seconds) + " s"),
          "If its disk is that slow, set CheckpointOptions::timeout higher, and call finish() before the end."};
}

// Returns the checkpoints of later steps, which the training has gone back before. A checkpoint that this process
// neither made nor found earlier belongs to another process: to one that this process has replaced, or to one that has
// replaced this process and goes on from there. It is returned only if this process has taken over the folder.
Result<std::vector<std::string>> SaveWriter::later_than(const std::string& name) {
  PHAROS_TRY(const std::vector<std::string> names, complete_in(options_.folder));
  std::vector<std::string> later;
  const std::lock_guard lock{mutex_};
  std::erase_if(known_, [&](const std::string& each) { return std::ranges::find(names, each) == names.end(); });
  for (const std::string& each : names) {
    if (!is_later(each, name)) continue;
    if (owner_->is_this_process() || known_.contains(each)) {
      later.push_back(each);
    } else {
      log(LogLevel::kWarn, "another process saves in this training's folder",
          {kv("step", each), kv("folder", options_.folder.string())});
    }
  }
  return later;
}

Result<void> SaveWriter::tidy(const std::string& newest) const {
  std::error_code error;
  for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
    fs::remove(options_.folder / newest / part_text_name(rank), error);
  }
  PHAROS_TRY_VOID(owner_->check());  // otherwise a process that has taken over may be loading an old checkpoint
  PHAROS_TRY_VOID(remove_old(newest));
  return write_text(options_.folder / kNewestFile, newest + '\n');
}

Result<void> SaveWriter::remove_old(const std::string& newest) const {
  PHAROS_TRY(std::vector<std::string> names, complete_in(options_.folder));
  // Checkpoints of later steps belong to another process.
  std::erase_if(names, [&newest](const std::string& each) { return is_later(each, newest); });
  std::set<std::string> kept{newest};
  for (std::size_t i = 0; kept.size() < options_.keep_last && i < names.size(); ++i) kept.insert(names[i]);
  if (options_.keep_best != 0) {
    std::vector<std::pair<double, std::string>> ranked;
    for (auto each = names.rbegin(); each != names.rend(); ++each) {  // the oldest first
      const std::string& name = *each;
      const auto manifest = read_manifest(options_.folder / name);
      // If the manifest could not be read, the checkpoint may be the best. If it is damaged, it cannot.
      if (!manifest && manifest.error().code() != ErrorCode::kCorrupt) kept.insert(name);
      if (!manifest) continue;
      for (const auto& [metric, value] : manifest->moment.metrics) {
        if (metric == options_.metric && value == value) {
          ranked.emplace_back(options_.is_better_lower ? value : -value, name);
        }
      }
    }
    // The oldest of equal ones stays: it was the best when it was saved, and none has been better since.
    std::ranges::stable_sort(ranked, {}, [](const auto& each) { return each.first; });
    for (std::size_t i = 0; i < options_.keep_best && i < ranked.size(); ++i) kept.insert(ranked[i].second);
  }
  for (const std::string& name : names) {
    if (kept.contains(name)) continue;
    failpoint(failpoints::kOldRemoved);
    PHAROS_TRY_VOID(remove_checkpoint(options_.folder, name));
  }
  return {};
}

}  // namespace pharos::ml
