#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <pharos/base/fd.hpp>
#include <pharos/base/result.hpp>

#include "manifest.hpp"

namespace pharos::ml {

/// Reads the tensors of one checkpoint: any range of their elements, from whichever parts have them. Everything that is
/// read is compared with its checksum. Errors are returned, also if a file disappears meanwhile (kCorrupt); only
/// std::bad_alloc is thrown. A local variable of the functions that load; one thread. At most 64 files are open at a
/// time. Tensors, and what they point to, are valid as long as this object or the one that it was moved to.
class SavedTensors {
 public:
  struct Tensor {
    DType dtype{};
    std::vector<std::int64_t> shape{};
    std::uint64_t elements = 0;
    struct Piece {
      std::size_t part;
      const PartEntry* entry;
    };
    std::vector<Piece> pieces{};
  };

  /// Returns kCorrupt if the manifest is damaged, or if a file is missing or has the wrong size, kUnsupported if the
  /// manifest has another format, and any other error of the disk. Does not open the parts.
  static Result<SavedTensors> open(const std::filesystem::path& checkpoint);

  const Manifest& manifest() const { return *manifest_; }
  const std::map<std::string_view, Tensor>& tensors() const { return tensors_; }
  const Tensor* find(std::string_view name) const;

  /// Reads elements from `begin` on until `to` is full, and converts them to the type `as`. Returns kInvalidArgument if
  /// the types differ and one of them is no floating point type, or if the tensor has fewer elements, and kCorrupt if a
  /// part is not what was written. After an error part of `to` may have been written.
  Result<void> read(const Tensor& tensor, std::uint64_t begin, DType as, std::span<std::byte> to);
  /// Checks the heads of all parts, which reading tensors checks only as far as it opens the parts. A head of an early
  /// version has no checksum, and is not checked.
  Result<void> check_heads();

 private:
  SavedTensors(std::filesystem::path path, Manifest manifest);

  std::filesystem::path path_of(std::size_t part) const { return path_ / manifest_->parts[part].file; }
  /// Opens the file of the part, unless it is open, and checks its head the first time.
  Result<void> open_part(std::size_t part);
  Result<void> read_bytes(const Tensor::Piece& piece, std::uint64_t begin, std::uint64_t bytes, DType as,
                          std::span<std::byte> to);
  /// Reads one piece that has a checksum, all of it.
  Result<void> read_checked(const Tensor::Piece& piece, std::uint64_t number, std::span<std::byte> to);
  Result<std::span<const std::byte>> kept_piece(const Tensor::Piece& piece, std::uint64_t number, std::uint64_t bytes);

  std::filesystem::path path_;
  std::unique_ptr<const Manifest> manifest_;  // entries are pointed to, so the manifest must not move
  std::map<std::string_view, Tensor> tensors_;
  std::vector<Fd> open_;  // by part
  std::size_t open_count_ = 0;
  std::vector<bool> right_heads_;
  // The last piece of which only some bytes were wanted.
  std::vector<std::byte> kept_;
  std::pair<const PartEntry*, std::uint64_t> kept_of_{};
};

}  // namespace pharos::ml
