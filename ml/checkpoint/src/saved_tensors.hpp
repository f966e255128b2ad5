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

/// What a checkpoint holds: any elements of any of its tensors, wherever its ranks have written them. What has been
/// read is checked; what a disk cannot read, or has lost meanwhile, is an error. One thread.
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

  /// kCorrupt: a file is missing, too long or too short, or of another checkpoint; from others, too.
  static Result<SavedTensors> open(const std::filesystem::path& checkpoint);

  const Manifest& manifest() const { return *manifest_; }
  const std::map<std::string_view, Tensor>& tensors() const { return tensors_; }
  const Tensor* find(std::string_view name) const;

  /// Elements from `begin` on, as many as there is room for, in numbers of that type. After an error there may be some.
  Result<void> read(const Tensor& tensor, std::uint64_t begin, DType as, std::span<std::byte> to);
  /// What no tensor is read from: the parts' heads.
  Result<void> check_heads();

 private:
  SavedTensors(std::filesystem::path path, Manifest manifest);

  std::filesystem::path path_of(std::size_t part) const { return path_ / manifest_->parts[part].file; }
  /// Open, with a head that is right.
  Result<void> open_part(std::size_t part);
  Result<void> read_bytes(const Tensor::Piece& piece, std::uint64_t begin, std::uint64_t bytes, DType as,
                          std::span<std::byte> to);
  /// One piece that has a checksum, whole.
  Result<void> read_checked(const Tensor::Piece& piece, std::uint64_t number, std::span<std::byte> to);
  Result<std::span<const std::byte>> kept_piece(const Tensor::Piece& piece, std::uint64_t number, std::uint64_t bytes);

  std::filesystem::path path_;
  std::unique_ptr<const Manifest> manifest_;  // entries are pointed to
  std::map<std::string_view, Tensor> tensors_;
  std::vector<Fd> open_;  // by part
  std::size_t open_count_ = 0;
  std::vector<bool> right_heads_;
  // What was read last where not all of a piece was wanted.
  std::vector<std::byte> kept_;
  std::pair<const PartEntry*, std::uint64_t> kept_of_{};
};

}  // namespace pharos::ml
