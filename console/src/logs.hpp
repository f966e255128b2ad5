#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <pharos/base/result.hpp>

#include "question.hpp"

namespace pharos::console {

struct LogsOptions {
  /// Id of an actor, a worker or a node, an actor's name, or "head". Empty: prints the list of logs.
  std::string id{};
  std::optional<std::uint64_t> tail{};  ///< only the last lines, this many
  bool follow = false;                  ///< continues until the writer has ended
  std::string format = "table";         ///< format of the list; or "json"
};

/// Implements `pharos logs`: prints what workers and nodes have written, on whichever node of the cluster the log is.
Result<void> print_logs(const Place& place, const LogsOptions& options);

}  // namespace pharos::console
