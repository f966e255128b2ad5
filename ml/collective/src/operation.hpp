#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <pharos/base/error.hpp>
#include <pharos/base/export.hpp>
#include <pharos/ml/dtype.hpp>

namespace pharos::ml {

/// What ranks do together: all of them, or the two of a message, must want the same at the same time.
struct Operation {
  enum class Kind : std::uint8_t {
    kBarrier,
    kAllReduce,
    kReduceScatter,
    kAllGather,
    kBroadcast,
    kAllToAll,
    kMessage,  ///< of two ranks alone
    kAllocate,
    kAllocateForAll,  ///< of ranks that share memory
  };

  Kind kind = Kind::kBarrier;
  DType dtype = DType::kU8;
  Reduction reduction = Reduction::kSum;
  std::uint16_t root = 0;   ///< who gives, in a broadcast or message
  std::uint16_t to = 0;     ///< of a message
  std::uint64_t count = 0;  ///< elements that a rank gives

  bool operator==(const Operation&) const = default;
};

// What is marked PHAROS_API here is for libpharos_nccl.so, whose backend is one more of these.

/// For people: "all_reduce(sum of 1024 f32)", "message(7 f64 from rank 0 to rank 1)".
PHAROS_API std::string to_string(const Operation& operation);

/// A rank's part of data that all ranks reduce: bytes. No two of them write to one cache line.
struct Part {
  std::size_t begin;
  std::size_t size;
};
Part part_of(std::size_t bytes, std::uint32_t rank, std::uint32_t ranks);

// What all ranks are told, whatever they reach each other by.

/// `when`: "round 7".
PHAROS_API Error disagreement(std::uint32_t rank, const Operation& its, std::uint32_t other, const Operation& others,
                              const std::string& when);
/// `waits`: "barrier, round 7,".
Error has_died(std::uint32_t rank, const std::string& waits);
Error has_left(std::uint32_t rank, const std::string& waits);
/// An error's words as they go to others, and back.
std::string told(const Error& error);
Error error_of(std::uint32_t code, std::string_view text);

}  // namespace pharos::ml
