#pragma once

#include <vector>

#include <CLI/CLI.hpp>

namespace pharos::console {

// What --help lists, the completion completes, and the page of all commands describes. The pointers are valid as long
// as `command`.

/// Returns the commands below this one, in the order in which they were added, without hidden ones.
std::vector<const CLI::App*> listed_commands(const CLI::App& command);
/// Returns the options and positional arguments, without hidden ones.
std::vector<const CLI::Option*> listed_options(const CLI::App& command);

}  // namespace pharos::console
