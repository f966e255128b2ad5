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

/// `pharos list`: rows of one of the head's tables.
Result<void> print_list(const Place& place, const ListOptions& options);
/// Rows as JSON objects, by the columns' names.
void print_json(const wire::Rows& rows);
void print_table(const wire::Rows& rows);

/// `pharos status`: what there is, what of it is in use, and who waits for what.
Result<void> print_status(const Place& place);

}  // namespace pharos::console
