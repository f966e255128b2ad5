#include <pharos/base/export.hpp>

// libpharos.so is made of the static libraries of the modules, and of this.
namespace pharos::detail {

PHAROS_API bool simulates();
/// Returns whether the program takes Pharos from libpharos_testing.so, which has a function of this name, too.
bool simulates() {
  return false;
}

}  // namespace pharos::detail
