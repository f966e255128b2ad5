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

/// What each rank prints: logs/rank-0.log and so on, in a training's folder; behind what is there. One thread.
class RankLogs {
 public:
  /// Of ranks that are actors of that name: "training/0".
  RankLogs(Runtime& runtime, const std::string& name, const std::filesystem::path& folder);

  /// What has come since is in the files. What could not be written is tried again; what is too much then is left out.
  Result<void> write();
  /// Waits for what these processes, one of each rank, have still printed; 0 is none. All of them are to end.
  void wait_for_last_of(const std::vector<std::int32_t>& processes);

 private:
  struct Inbox;

  Result<void> append(const std::string& name, std::string& text) const;

  std::filesystem::path folder_;
  std::shared_ptr<Inbox> inbox_;
  std::shared_ptr<const OutputListener> listener_;
};

}  // namespace pharos::ml
