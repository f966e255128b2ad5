#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <pharos/actors/runtime.hpp>
#include <pharos/base/result.hpp>

namespace pharos::ml {

/// Collects the output of each rank, and appends it to logs/rank-0.log and so on in a training's folder. Owned by
/// Trainer::run(). One thread calls it; output comes in on the threads that an OutputListener runs on. In a worker no
/// output comes in. The destructor stops listening, and drops what has not been written.
class RankLogs {
 public:
  /// `name`: the name of the ranks' group. The actors have names like "training/0".
  RankLogs(Runtime& runtime, const std::string& name, const std::filesystem::path& folder);

  /// Writes the output that has come since the last call. After an error the output waits for the next call; of each
  /// rank at most 16 MiB wait, and a line in the file says where output was left out.
  Result<void> write();
  /// Waits up to 2 seconds for the last output of these processes, which are about to end. `processes`: the process id
  /// of each rank; 0 if there is none.
  void wait_for_last_of(const std::vector<std::int32_t>& processes);

 private:
  struct Inbox;

  Result<void> append(const std::string& name, std::string& text) const;

  std::filesystem::path folder_;
  std::shared_ptr<Inbox> inbox_;
  std::shared_ptr<const OutputListener> listener_;
};

}  // namespace pharos::ml
