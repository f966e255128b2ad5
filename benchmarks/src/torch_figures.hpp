#pragma once

#include <string>

#include <pharos/pharos.hpp>

/// What programs that link libtorch measure. Each prints a line for each figure: its name, value and unit. With `only`
/// they leave out what that figure does not take.
namespace bench {

void measure_ddp(pharos::Runtime& runtime);
void measure_sharding(pharos::Runtime& runtime, const std::string& only);
void measure_trainer(pharos::Runtime& runtime, const std::string& only);

}  // namespace bench
