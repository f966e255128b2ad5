#pragma once

#include <pharos/wire/message.hpp>

namespace pharos::console {

// These functions print to std::cout, whose state tells whether printing has failed.

/// Prints a JSON array that has an object for each row. The keys of an object are the names of the columns.
void print_json(const wire::Rows& rows);
void print_table(const wire::Rows& rows);

}  // namespace pharos::console
