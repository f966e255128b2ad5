// Loaded by late_driver while it runs: its function is in the driver's process, and not in the workers'.

#include <pharos/pharos.hpp>

namespace {
// Sorts before the driver's own function.
int a_late_function(int value) {
  return value + 1;
}
}  // namespace

extern "C" __attribute__((visibility("default"))) int submit_late(pharos::Runtime& runtime) {
  return runtime.submit<&a_late_function>(1).get();
}
