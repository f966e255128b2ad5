#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <pharos/base/result.hpp>

#include "question.hpp"

namespace pharos::console {

struct ListOptions {
  std::string table;                   ///< "nodes", "actors", "groups", "jobs"
  std::vector<std::string> filters{};  ///< "state=alive", "name!=x"
  std::uint32_t limit = 100;
  std::string format = "table";  ///< or "json"
};

/// Implements `pharos list`: prints rows of one of the head's tables.
Result<void> print_list(const Place& place, const ListOptions& options);
/// Prints each row as a JSON object whose keys are the names of the columns.
void print_json(const wire::Rows& rows);
void print_table(const wire::Rows& rows);

/// Implements `pharos status`: prints nodes, their resources and how much of them is in use, and the demands that wait.
Result<void> print_status(const Place& place);

}  // namespace pharos::console
