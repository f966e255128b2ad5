#pragma once

#include <string>

#include <pharos/pharos.hpp>

/// The measurements of pharos-bench-torch. Each function prints a line for each figure: its name, value and unit.
/// `only` is the name of the one wanted figure, or empty; measurements that this figure does not need are left out.
namespace bench {

void measure_ddp(pharos::Runtime& runtime, const std::string& only);
void measure_sharding(pharos::Runtime& runtime, const std::string& only);
void measure_trainer(pharos::Runtime& runtime, const std::string& only);

}  // namespace bench
