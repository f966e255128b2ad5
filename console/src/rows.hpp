#pragma once

#include <pharos/wire/message.hpp>

namespace pharos::console {

// Commands call these functions on the thread of main(). The functions print to std::cout, whose state tells whether
// printing has failed. A row must not have more cells than there are columns; nothing checks this.

/// Prints a JSON array that has an object for each row. The keys of an object are the names of the columns. Columns of
/// numbers ("pid", "seconds", …) become JSON numbers, or null if the cell is empty; all others become strings.
void print_json(const wire::Rows& rows);
/// Prints a table with the names of the columns in capitals. An empty cell becomes "-".
void print_table(const wire::Rows& rows);

}  // namespace pharos::console
