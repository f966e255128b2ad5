#pragma once

#include <cstddef>

namespace pharos::ml {

/// So much memory in which any floating point number is none (NaN). It may be written to; until then it takes a MiB,
/// however large it is: there may be no more when something has failed.
class NoNumbers {
 public:
  explicit NoNumbers(std::size_t bytes);
  NoNumbers(NoNumbers&&) = delete;
  ~NoNumbers();

  std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_;
};

}  // namespace pharos::ml
