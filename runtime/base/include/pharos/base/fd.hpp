#pragma once

#include <utility>

#include <pharos/base/export.hpp>

namespace pharos {

/// Owns an open file descriptor and closes it when destroyed or reset; a failure of close() is ignored. get() of an
/// empty one is -1. Can be moved, not copied. Not thread-safe.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_{fd} {}
  Fd(Fd&& other) noexcept : fd_{std::exchange(other.fd_, -1)} {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  ~Fd() { reset(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  PHAROS_API void reset();

 private:
  int fd_ = -1;
};

}  // namespace pharos
