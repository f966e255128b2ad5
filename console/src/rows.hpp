#pragma once

#include <pharos/wire/message.hpp>

namespace pharos::console {

/// Prints each row as a JSON object whose keys are the names of the columns.
void print_json(const wire::Rows& rows);
void print_table(const wire::Rows& rows);

}  // namespace pharos::console
