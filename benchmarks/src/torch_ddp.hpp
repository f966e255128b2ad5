#pragma once

#include <pharos/pharos.hpp>

namespace bench {

/// Prints a line for each figure: its name, value and unit.
void measure_ddp(pharos::Runtime& runtime);

}  // namespace bench
