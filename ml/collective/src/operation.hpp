#pragma once

#include <cstdint>
#include <string>

#include <pharos/ml/dtype.hpp>

namespace pharos::ml {

/// What ranks do together: all of them must want the same at the same time.
struct Operation {
  enum class Kind : std::uint8_t { kBarrier, kAllReduce, kReduceScatter, kAllGather, kBroadcast, kAllToAll, kAllocate };

  Kind kind = Kind::kBarrier;
  DType dtype = DType::kU8;
  Reduction reduction = Reduction::kSum;
  std::uint32_t root = 0;
  std::uint64_t count = 0;  ///< elements that a rank gives

  bool operator==(const Operation&) const = default;
};

/// For people: "all_reduce(sum of 1024 f32)".
std::string to_string(const Operation& operation);

}  // namespace pharos::ml
