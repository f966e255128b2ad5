#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <pharos/base/result.hpp>
#include <pharos/ml/checkpoint_options.hpp>
#include <pharos/ml/dtype.hpp>

namespace pharos::ml {

/// One slice of a tensor in the part of a rank.
struct PartEntry {
  std::string name;
  DType dtype{};
  std::vector<std::int64_t> shape{};  ///< the shape of the whole tensor
  std::uint64_t begin = 0;            ///< in elements
  std::uint64_t count = 0;
  std::uint64_t place = 0;                 ///< the offset in the file, in bytes
  std::vector<std::uint64_t> checksums{};  ///< one for each mebibyte

  std::uint64_t bytes() const { return count * size_of(dtype); }
};

/// The file that one rank has written: a head, and then the entries one after the other.
struct RankPart {
  std::string file;
  std::uint64_t bytes = 0;
  std::optional<std::uint64_t> head_checksum{};  ///< checkpoints of early versions have none
  std::vector<PartEntry> entries{};

  std::uint64_t head_bytes() const {
    std::uint64_t head = bytes;
    for (const PartEntry& each : entries) head -= each.bytes();
    return head;
  }
};

/// The manifest of a checkpoint, which lists the parts of all ranks.
struct Manifest {
  std::string id;  ///< the id of this checkpoint, which its parts have too
  Moment moment{};
  std::vector<RankPart> parts{};  ///< by rank
};

// The functions below read and change nothing but their arguments: any thread may call them. They may throw
// std::bad_alloc.

/// Return text that contains a checksum of itself.
std::string to_text(const Manifest& manifest);
std::string to_text(const RankPart& part);
/// Return kCorrupt for text that is damaged or whose numbers contradict each other, and kUnsupported for a manifest of
/// another format. Whether the parts of a manifest fit together is checked only by check_whole().
Result<Manifest> parse_manifest(std::string_view text);
Result<RankPart> parse_part(std::string_view text);

/// Returns kCorrupt unless the parts together have each element of each tensor. Parts may overlap. The parts must come
/// from parse_manifest() or parse_part(), which have checked their shapes.
Result<void> check_whole(const Manifest& manifest);

}  // namespace pharos::ml
