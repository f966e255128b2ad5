#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include <pharos/actors/runtime.hpp>
#include <pharos/base/result.hpp>

namespace pharos::ml {

/// What each rank prints: logs/rank-0.log and so on, in a training's folder; behind what is there. One thread.
class RankLogs {
 public:
  /// Of ranks that are actors of that name: "training/0".
  RankLogs(Runtime& runtime, const std::string& name, const std::filesystem::path& folder);

  /// What has come since is in the files.
  Result<void> write();

 private:
  struct Inbox;

  std::filesystem::path folder_;
  std::shared_ptr<Inbox> inbox_;
  std::shared_ptr<const OutputListener> listener_;
};

}  // namespace pharos::ml
