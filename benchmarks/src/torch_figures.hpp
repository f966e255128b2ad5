#pragma once

#include <pharos/pharos.hpp>

/// What programs that link libtorch measure. Each prints a line for each figure: its name, value and unit.
namespace bench {

void measure_ddp(pharos::Runtime& runtime);
void measure_sharding(pharos::Runtime& runtime);
void measure_trainer(pharos::Runtime& runtime);

}  // namespace bench
