#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <pharos/base/result.hpp>

#include "question.hpp"

namespace pharos::console {

/// What `pharos logs` was given. A value.
struct LogsOptions {
  Place place{};
  /// Id of an actor, a worker or a node, an actor's name, or "head". Empty: prints the list of logs.
  std::string id{};
  std::optional<std::uint64_t> tail{};  ///< only the last lines, this many
  bool follow = false;                  ///< continues until the writer has ended
  std::string format = "table";         ///< format of the list; or "json"
};
/// Prints the log, or the list of logs. Blocks while it follows the log. Fails with kNotFound if there is no such log,
/// and as NodeConnection does.
Result<void> print_logs(const LogsOptions& options);

}  // namespace pharos::console
