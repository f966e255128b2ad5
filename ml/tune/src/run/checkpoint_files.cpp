#include "run/checkpoint_files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>

#include <pharos/base/fd.hpp>
#include <pharos/base/whole_files.hpp>
#include <pharos/ml/crc32c.hpp>

// A file has kCheckpointMagic, the checksum of the checkpoint (4 bytes, lowest first), and the checkpoint.

namespace pharos::ml {
namespace {

namespace fs = std::filesystem;

constexpr char kCheckpointMagic[8] = {'P', 'H', 'A', 'R', 'O', 'S', 'C', '1'};
constexpr std::size_t kHeadBytes = sizeof kCheckpointMagic + 4;

fs::path path_of(const fs::path& folder, std::uint64_t trial, std::uint64_t step) {
  return folder / (std::to_string(trial) + '-' + std::to_string(step));
}

/// Parses the name of a file; nullopt if the file is no checkpoint.
std::optional<std::pair<std::uint64_t, std::uint64_t>> trial_and_step(const std::string& name) {
  std::uint64_t trial = 0;
  std::uint64_t step = 0;
  const char* const end = name.data() + name.size();
  const auto first = std::from_chars(name.data(), end, trial);
  if (first.ec != std::errc{} || first.ptr == end || *first.ptr != '-') return std::nullopt;
  const auto second = std::from_chars(first.ptr + 1, end, step);
  if (second.ec != std::errc{} || second.ptr != end) return std::nullopt;
  return std::pair{trial, step};
}

std::vector<std::pair<std::uint64_t, std::uint64_t>> all_in(const fs::path& folder) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> all;
  std::error_code error;
  for (fs::directory_iterator each{folder, error}; !error && each != fs::directory_iterator{}; each.increment(error)) {
    if (const auto found = trial_and_step(each->path().filename().string())) all.push_back(*found);
  }
  return all;
}

}  // namespace

Result<std::unique_ptr<CheckpointFiles>> CheckpointFiles::open(const fs::path& folder,
                                                               const std::map<std::uint64_t, std::uint64_t>& steps) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    return Error::from_errno("making " + folder.string(), error.value(), "Give a folder that can be written to.");
  for (const auto& [trial, step] : all_in(folder)) {
    const auto kept = steps.find(trial);
    if (kept == steps.end() || kept->second != step) fs::remove(path_of(folder, trial, step), error);
  }
  for (const auto& each : fs::directory_iterator{folder, error}) {
    if (each.path().extension() == ".begun") fs::remove(each.path(), error);
  }
  return std::make_unique<CheckpointFiles>(folder);
}

Result<Bytes> CheckpointFiles::read(const fs::path& folder, std::uint64_t trial, std::uint64_t step) {
  const fs::path path = path_of(folder, trial, step);
  const Fd file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (!file) return Error::from_errno("reading " + path.string(), errno);
  PHAROS_TRY(std::vector<std::byte> bytes, read_whole(file, "reading " + path.string()));
  std::uint32_t checksum = 0;
  if (bytes.size() >= kHeadBytes) std::memcpy(&checksum, bytes.data() + sizeof kCheckpointMagic, sizeof checksum);
  const bool sane =
      bytes.size() >= kHeadBytes && std::memcmp(bytes.data(), kCheckpointMagic, sizeof kCheckpointMagic) == 0;
  if (!sane || crc32c(std::span{bytes}.subspan(kHeadBytes)) != checksum) {
    return Error{ErrorCode::kCorrupt, path.string() + " is damaged",
                 "Delete the file: the trial then starts from the beginning."};
  }
  const auto owner = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  return Bytes{owner, std::span{*owner}.subspan(kHeadBytes)};
}

Result<Bytes> CheckpointFiles::read_last(const fs::path& folder, std::uint64_t trial) {
  std::optional<std::uint64_t> last;
  for (const auto& [number, step] : all_in(folder)) {
    if (number == trial) last = std::max(last.value_or(0), step);
  }
  if (last) return read(folder, trial, *last);
  return Error{ErrorCode::kNotFound,
               "there is no checkpoint of trial " + std::to_string(trial) + " in " + folder.string(),
               "Checkpoints are kept only for the best trials; TunerOptions::checkpoints says for how many."};
}

CheckpointFiles::CheckpointFiles(fs::path folder) : folder_{std::move(folder)}, writing_{[this] { run(); }} {}

CheckpointFiles::~CheckpointFiles() {
  {
    const std::lock_guard lock{mutex_};
    ends_ = true;
  }
  changed_.notify_all();
  writing_.join();
}

void CheckpointFiles::write(std::uint64_t trial, std::uint64_t step, Bytes bytes) {
  const std::lock_guard lock{mutex_};
  const auto older = std::find_if(jobs_.begin(), jobs_.end(), [trial](const auto& job) {
    return job.first == trial && job.second.bytes.has_value();
  });
  if (older != jobs_.end()) jobs_.erase(older);
  jobs_.emplace_back(trial, Job{step, std::move(bytes)});
  changed_.notify_all();
}

void CheckpointFiles::forget_before(std::uint64_t trial, std::uint64_t step) {
  const std::lock_guard lock{mutex_};
  if (step == 0) std::erase_if(jobs_, [trial](const auto& job) { return job.first == trial; });
  jobs_.emplace_back(trial, Job{step, {}});
  changed_.notify_all();
}

std::vector<CheckpointFiles::Written> CheckpointFiles::written() {
  const std::lock_guard lock{mutex_};
  return std::exchange(written_, {});
}

void CheckpointFiles::finish() {
  std::unique_lock lock{mutex_};
  changed_.wait(lock, [this] { return jobs_.empty() && !busy_; });
}

void CheckpointFiles::run() {
  std::unique_lock lock{mutex_};
  for (;;) {
    changed_.wait(lock, [this] { return ends_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    const auto [trial, job] = std::move(jobs_.front());
    jobs_.pop_front();
    busy_ = true;
    lock.unlock();
    std::optional<Written> written;
    if (job.bytes) {
      written = Written{trial, job.step, do_write(trial, job.step, *job.bytes)};
    } else {
      do_forget(trial, job.step);
    }
    lock.lock();
    busy_ = false;
    if (written) written_.push_back(*std::move(written));
    changed_.notify_all();
  }
}

std::optional<Error> CheckpointFiles::do_write(std::uint64_t trial, std::uint64_t step, const Bytes& bytes) const {
  const fs::path path = path_of(folder_, trial, step);
  const fs::path begun = path.string() + ".begun";
  const Fd file{::open(begun.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)};
  if (!file) return Error::from_errno("making " + begun.string(), errno);
  std::array<std::byte, kHeadBytes> head{};
  const std::uint32_t checksum = crc32c(bytes.span());
  std::memcpy(head.data(), kCheckpointMagic, sizeof kCheckpointMagic);
  std::memcpy(head.data() + sizeof kCheckpointMagic, &checksum, sizeof checksum);
  for (const std::span<const std::byte> part : {std::span<const std::byte>{head}, bytes.span()}) {
    auto written = write_whole(file, part, "writing what a trial has saved", "Make room in its folder.");
    if (!written) return written.error();
  }
  if (::fdatasync(file.get()) != 0) return Error::from_errno("syncing " + begun.string(), errno);
  if (::rename(begun.c_str(), path.c_str()) != 0) return Error::from_errno("naming " + path.string(), errno);
  return std::nullopt;
}

void CheckpointFiles::do_forget(std::uint64_t trial, std::uint64_t step) {
  std::error_code error;
  for (const auto& [number, its] : all_in(folder_)) {
    if (number == trial && (step == 0 || its < step)) fs::remove(path_of(folder_, number, its), error);
  }
}

}  // namespace pharos::ml
