#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <pharos/base/error.hpp>
#include <pharos/base/export.hpp>
#include <pharos/ml/dtype.hpp>

namespace pharos::ml {

/// An operation that ranks do together. All ranks, or the two ranks of a message, must begin equal operations. A value.
/// The functions below have no state: any thread may call them.
struct Operation {
  enum class Kind : std::uint8_t {
    kBarrier,
    kAllReduce,
    kReduceScatter,
    kAllGather,
    kBroadcast,
    kAllToAll,
    kMessage,  ///< between two ranks only
    kAllocate,
    kAllocateForAll,  ///< only for ranks that share memory
  };

  Kind kind = Kind::kBarrier;
  DType dtype = DType::kU8;
  Reduction reduction = Reduction::kSum;
  std::uint16_t root = 0;   ///< The rank that sends, in a broadcast or message.
  std::uint16_t to = 0;     ///< The rank that receives, in a message.
  std::uint64_t count = 0;  ///< The elements that a rank gives; bytes in an allocation.

  bool operator==(const Operation&) const = default;
};

// PHAROS_API marks what libpharos_nccl.so uses: it has a backend, too.

/// A description for people: "all_reduce(sum of 1024 f32)", "message(7 f64 from rank 0 to rank 1)".
PHAROS_API std::string to_string(const Operation& operation);

/// A range of bytes.
struct Part {
  std::size_t begin;
  std::size_t size;
};
/// Returns the part of `rank` when data of this size is divided among all ranks. Parts begin at multiples of 64 bytes,
/// so that no two ranks write to one cache line.
PHAROS_API Part part_of(std::size_t bytes, std::uint32_t rank, std::uint32_t ranks);

// The errors of all backends, so that they have the same words.

/// The two ranks have begun different operations. `when` says where, such as "round 7".
PHAROS_API Error disagreement(std::uint32_t rank, const Operation& its, std::uint32_t other, const Operation& others,
                              const std::string& when);
/// `waits` is what waits for the rank, such as "barrier, round 7,".
Error has_died(std::uint32_t rank, const std::string& waits);
Error has_left(std::uint32_t rank, const std::string& waits);
/// The error's message and remedy as one text for other ranks. error_of() makes the error of that text and its code. An
/// unknown code becomes kInternal.
std::string told(const Error& error);
Error error_of(std::uint32_t code, std::string_view text);

}  // namespace pharos::ml
