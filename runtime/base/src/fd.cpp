#include <unistd.h>

#include <pharos/base/fd.hpp>

namespace pharos {

void Fd::reset() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

}  // namespace pharos
