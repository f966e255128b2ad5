#include <pharos/base/export.hpp>

namespace pharos::detail {

PHAROS_API bool simulates();
/// The same function of libpharos.so returns false.
bool simulates() {
  return true;
}

}  // namespace pharos::detail
