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

/// The checkpoints of trials, as files "trial-step" in a folder. A file is complete, with its checksum, or does not
/// exist. A thread of the object writes the files, so that a sweep does not wait for the disk. Bounded: for each trial,
/// only the newest checkpoint waits to be written. Failure: written() returns the errors of writing, and errors of
/// removing files are ignored. Owned by SweepFolder; any thread may call the functions.
class CheckpointFiles {
 public:
  /// A checkpoint that was written, or that could not be written.
  struct Written {
    std::uint64_t trial;
    std::uint64_t step;
    std::optional<Error> error{};
  };

  /// Makes or opens the folder for the checkpoints of a sweep. `steps` has, by trial, the steps of the files to keep;
  /// all other checkpoints there are removed. Fails with errno if the folder cannot be made.
  static Result<std::unique_ptr<CheckpointFiles>> open(const std::filesystem::path& folder,
                                                       const std::map<std::uint64_t, std::uint64_t>& steps);
  /// Reads a checkpoint. Fails with kNotFound if there is no such file, and with kCorrupt if its checksum is wrong.
  static Result<Bytes> read(const std::filesystem::path& folder, std::uint64_t trial, std::uint64_t step);
  /// Reads the newest checkpoint of a trial. Fails with kNotFound if there is none.
  static Result<Bytes> read_last(const std::filesystem::path& folder, std::uint64_t trial);

  explicit CheckpointFiles(std::filesystem::path folder);
  CheckpointFiles(CheckpointFiles&&) = delete;
  /// Waits until the checkpoints that wait are written. Their errors are lost.
  ~CheckpointFiles();

  /// Queues a checkpoint, and returns at once. An older one of the trial that still waits is dropped, and written()
  /// does not name it.
  void write(std::uint64_t trial, std::uint64_t step, Bytes bytes);
  /// Returns the checkpoints that were written, or could not be written, since the last call.
  std::vector<Written> written();
  /// Removes the trial's files of earlier steps, later in the thread. Step 0 removes all of its files, and drops its
  /// checkpoint that waits.
  void forget_before(std::uint64_t trial, std::uint64_t step);
  void forget(std::uint64_t trial) { forget_before(trial, 0); }
  /// Waits until all that was requested is done.
  void finish();

 private:
  struct Job {
    std::uint64_t step;
    std::optional<Bytes> bytes;  // nullopt: remove the files of steps before `step`, or all files if that is 0
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
  std::thread writing_;  // the last member, because the thread uses the others
};

}  // namespace pharos::ml
