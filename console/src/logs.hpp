#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <pharos/base/result.hpp>

#include "question.hpp"

namespace pharos::console {

struct LogsOptions {
  std::string id{};                     ///< of an actor, a worker or a node; an actor's name; "head". Empty: a list
  std::optional<std::uint64_t> tail{};  ///< only so many lines of its end
  bool follow = false;                  ///< goes on until it has ended
  std::string format = "table";         ///< of the list; or "json"
};

/// `pharos logs`: what workers and nodes have written, wherever in the cluster they are or were.
Result<void> print_logs(const Place& place, const LogsOptions& options);

}  // namespace pharos::console
