// A library that late_driver loads while it runs. So its function is in the driver's process, but not in the workers.

#include <pharos/pharos.hpp>

namespace {
// The name sorts before the names of the driver's own functions. If this function were in the driver's sorted function
// table, the driver's own functions would have other indices there than in the workers' tables.
int a_late_function(int value) {
  return value + 1;
}
}  // namespace

extern "C" __attribute__((visibility("default"))) int submit_late(pharos::Runtime& runtime) {
  return runtime.submit<&a_late_function>(1).get();
}
