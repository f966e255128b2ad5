#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <pharos/base/result.hpp>
#include <pharos/wire/bytes.hpp>

#include "manifest.hpp"

namespace pharos::ml {

/// What a checkpoint holds: any elements of any of its tensors, wherever its ranks have written them. What is read is
/// checked first. One thread.
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

  /// kCorrupt: a file is missing, too long or too short, or of another checkpoint.
  static Result<SavedTensors> open(const std::filesystem::path& checkpoint);

  const Manifest& manifest() const { return *manifest_; }
  const std::map<std::string_view, Tensor>& tensors() const { return tensors_; }
  const Tensor* find(std::string_view name) const;

  /// Elements from `begin` on, as many as there is room for, in numbers of that type.
  Result<void> read(const Tensor& tensor, std::uint64_t begin, DType as, std::span<std::byte> to);

 private:
  SavedTensors(std::filesystem::path path, Manifest manifest);

  /// Those bytes of an entry, whose pieces are right.
  Result<std::span<const std::byte>> checked(const Tensor::Piece& piece, std::uint64_t begin, std::uint64_t bytes);

  std::filesystem::path path_;
  std::unique_ptr<const Manifest> manifest_;  // entries are pointed to
  std::vector<Bytes> files_;
  std::map<std::string_view, Tensor> tensors_;
  std::map<const PartEntry*, std::vector<bool>> right_;  // pieces
};

}  // namespace pharos::ml
