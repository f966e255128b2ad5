#pragma once

#include <cstdint>

namespace pharos::node::head {

/// Numbers for the requests of one head, each given once. A head with records begins at random, because answers to
/// requests of an earlier head may still be on their way. Owned by Head, which gives it to its parts; on the strand.
class RequestNumbers {
 public:
  explicit RequestNumbers(std::uint64_t begin) : last_{begin} {}
  std::uint64_t next() { return ++last_; }

 private:
  std::uint64_t last_;
};

}  // namespace pharos::node::head
