#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <pharos/base/result.hpp>
#include <pharos/ml/checkpoints.hpp>
#include <pharos/ml/dtype.hpp>

namespace pharos::ml {

/// A slice of a tensor in a part.
struct PartEntry {
  std::string name;
  DType dtype{};
  std::vector<std::int64_t> shape{};  ///< of the tensor
  std::uint64_t begin = 0;            ///< in elements
  std::uint64_t count = 0;
  std::uint64_t place = 0;                 ///< in the file, in bytes
  std::vector<std::uint64_t> checksums{};  ///< of each mebibyte

  std::uint64_t bytes() const { return count * size_of(dtype); }
};

/// What a rank has written: a head, and behind it the entries, one behind the other.
struct RankPart {
  std::string file;
  std::uint64_t bytes = 0;
  std::optional<std::uint64_t> head_checksum{};  ///< early ones have none
  std::vector<PartEntry> entries{};

  std::uint64_t head_bytes() const {
    std::uint64_t head = bytes;
    for (const PartEntry& each : entries) head -= each.bytes();
    return head;
  }
};

struct Manifest {
  std::string id;  ///< of this checkpoint, which its parts have, too
  Moment moment{};
  std::vector<RankPart> parts{};  ///< by rank
};

/// Text, with a checksum of itself.
std::string to_text(const Manifest& manifest);
std::string to_text(const RankPart& part);
/// kCorrupt for all that cannot be; what they say is sane then.
Result<Manifest> parse_manifest(std::string_view text);
Result<RankPart> parse_part(std::string_view text);

/// Whether the parts have each element of each tensor.
Result<void> check_whole(const Manifest& manifest);

}  // namespace pharos::ml
