#pragma once

#include <sys/resource.h>
#include <unistd.h>

#include <pharos/base/fd.hpp>

namespace pharos {

/// While it lives, this process can open no further descriptor.
class NoDescriptors {
 public:
  NoDescriptors() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const Fd next{::dup(STDERR_FILENO)};
    rlimit none = before_;
    none.rlim_cur = static_cast<rlim_t>(next.get());
    ::setrlimit(RLIMIT_NOFILE, &none);
  }
  NoDescriptors(NoDescriptors&&) = delete;
  ~NoDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

}  // namespace pharos
