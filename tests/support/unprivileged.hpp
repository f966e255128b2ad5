#pragma once

#include <unistd.h>

#include <pharos/base/check.hpp>

namespace pharos {

/// Drops root's rights until its destructor. Does nothing if the process is not root's.
class Unprivileged {
 public:
  Unprivileged() {
    if (was_ == 0) PHAROS_CHECK(::seteuid(kNobody) == 0);
  }
  Unprivileged(Unprivileged&&) = delete;
  ~Unprivileged() {
    if (was_ == 0) PHAROS_CHECK(::seteuid(was_) == 0);
  }

 private:
  static constexpr uid_t kNobody = 65534;
  const uid_t was_ = ::geteuid();
};

}  // namespace pharos
