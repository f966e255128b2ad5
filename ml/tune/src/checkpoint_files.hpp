#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <pharos/base/result.hpp>
#include <pharos/wire/bytes.hpp>

namespace pharos::ml {

/// What trials have saved, as files "trial-step" of a folder: one is there as a whole, with its checksum, or not at
/// all. A thread of its own writes, so that a sweep does not wait for a disk. Bounded: of a trial the newest waits
/// alone. Failure: what could not be written is said by written().
class CheckpointFiles {
 public:
  struct Written {
    std::uint64_t trial;
    std::uint64_t step;
    std::optional<Error> error{};
  };

  /// Files of the sweep that is there are kept as `steps` says, by trial.
  static Result<std::unique_ptr<CheckpointFiles>> open(const std::filesystem::path& folder,
                                                       const std::map<std::uint64_t, std::uint64_t>& steps);
  static Result<Bytes> read(const std::filesystem::path& folder, std::uint64_t trial, std::uint64_t step);
  /// The newest of a trial.
  static Result<Bytes> read_last(const std::filesystem::path& folder, std::uint64_t trial);

  explicit CheckpointFiles(std::filesystem::path folder);
  CheckpointFiles(CheckpointFiles&&) = delete;
  /// Writes what waits.
  ~CheckpointFiles();

  void write(std::uint64_t trial, std::uint64_t step, Bytes bytes);
  /// What has been written since.
  std::vector<Written> written();
  /// Older ones of that trial are not needed any more; none of them with `step` 0.
  void forget_before(std::uint64_t trial, std::uint64_t step);
  void forget(std::uint64_t trial) { forget_before(trial, 0); }
  /// Waits for all that was given.
  void finish();

 private:
  struct Job {
    std::uint64_t step;
    std::optional<Bytes> bytes;  // none: files of steps before that go; 0: all
  };
  void run();
  std::optional<Error> do_write(std::uint64_t trial, std::uint64_t step, const Bytes& bytes) const;
  void do_forget(std::uint64_t trial, std::uint64_t step);

  const std::filesystem::path folder_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::pair<std::uint64_t, Job>> jobs_;  // by trial
  std::vector<Written> written_;
  bool busy_ = false;
  bool ends_ = false;
  std::thread writing_;  // the last: it uses the others
};

}  // namespace pharos::ml
