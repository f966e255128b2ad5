#include "saved_tensors.hpp"

#include <algorithm>
#include <cstring>
#include <memory>

#include <pharos/object_store/checksum.hpp>

#include "folder.hpp"
#include "part_file.hpp"

namespace pharos::ml {
namespace {

namespace fs = std::filesystem;
using object_store::kPieceBytes;

/// A checkpoint may have thousands of parts, so only some are open at the same time.
constexpr std::size_t kOpenMax = 64;

Result<void> check_size(const fs::path& path, const RankPart& part, const Manifest& manifest) {
  std::error_code error;
  const std::uint64_t bytes = fs::file_size(path, error);
  if (error == std::errc::no_such_file_or_directory) return Error{ErrorCode::kCorrupt, path.string() + " is missing"};
  if (error == std::errc::io_error) return Error{ErrorCode::kCorrupt, path.string() + ": " + error.message()};
  if (error) return disk_error("looking at " + path.string(), error.value());
  if (bytes == part.bytes) return {};
  return Error{ErrorCode::kCorrupt, path.string() + " has " + std::to_string(bytes) + " bytes, and should have " +
                                        std::to_string(part.bytes) + strangeness(path, manifest)};
}

double number_at(DType dtype, const std::byte* at) {
  const auto read = [&](auto value) {
    std::memcpy(&value, at, sizeof value);
    return value;
  };
  switch (dtype) {
    case DType::kF16: return to_float(read(Half{}));
    case DType::kBF16: return to_float(read(BFloat16{}));
    case DType::kF32: return read(float{});
    default: return read(double{});
  }
}
void put_number(DType dtype, double number, std::byte* at) {
  const auto write = [&](auto value) { std::memcpy(at, &value, sizeof value); };
  switch (dtype) {
    case DType::kF16: return write(to_half(static_cast<float>(number)));
    case DType::kBF16: return write(to_bfloat16(static_cast<float>(number)));
    case DType::kF32: return write(static_cast<float>(number));
    default: return write(number);
  }
}

void convert(DType from_type, std::span<const std::byte> from, DType to_type, std::span<std::byte> to) {
  if (from_type == to_type) {
    std::memcpy(to.data(), from.data(), from.size());
    return;
  }
  for (std::size_t i = 0; i < from.size() / size_of(from_type); ++i) {
    put_number(to_type, number_at(from_type, from.data() + i * size_of(from_type)), to.data() + i * size_of(to_type));
  }
}

}  // namespace

SavedTensors::SavedTensors(fs::path path, Manifest manifest)
    : path_{std::move(path)},
      manifest_{std::make_unique<const Manifest>(std::move(manifest))},
      open_(manifest_->parts.size()),
      right_heads_(manifest_->parts.size()) {}

Result<SavedTensors> SavedTensors::open(const fs::path& checkpoint) {
  PHAROS_TRY(Manifest manifest, read_manifest(checkpoint));
  PHAROS_TRY_VOID(check_whole(manifest));
  SavedTensors saved{checkpoint, std::move(manifest)};
  for (std::size_t i = 0; i < saved.manifest_->parts.size(); ++i) {
    const RankPart& part = saved.manifest_->parts[i];
    PHAROS_TRY_VOID(check_size(checkpoint / part.file, part, *saved.manifest_));
    for (const PartEntry& each : part.entries) {
      Tensor& tensor = saved.tensors_[each.name];
      if (tensor.pieces.empty()) {
        tensor.dtype = each.dtype;
        tensor.shape = each.shape;
        tensor.elements = 1;
        for (const std::int64_t length : each.shape) tensor.elements *= static_cast<std::uint64_t>(length);
      }
      tensor.pieces.push_back({i, &each});
    }
  }
  return saved;
}

const SavedTensors::Tensor* SavedTensors::find(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

Result<void> SavedTensors::open_part(std::size_t part) {
  if (open_[part]) return {};
  if (open_count_ == kOpenMax) {
    for (Fd& each : open_) each.reset();
    open_count_ = 0;
  }
  auto file = open_to_read(path_of(part));
  if (!file && file.error().code() == ErrorCode::kNotFound) {
    return Error{ErrorCode::kCorrupt, path_of(part).string() + " is missing"};
  }
  if (!file) return file.error();
  if (!right_heads_[part]) {
    PHAROS_TRY_VOID(check_head(*file, path_of(part), manifest_->parts[part], *manifest_));
    right_heads_[part] = true;
  }
  open_[part] = *std::move(file);
  ++open_count_;
  return {};
}

Result<void> SavedTensors::check_heads() {
  for (std::size_t part = 0; part < open_.size(); ++part) {
    PHAROS_TRY_VOID(open_part(part));
  }
  return {};
}

Result<void> SavedTensors::read_checked(const Tensor::Piece& piece, std::uint64_t number, std::span<std::byte> to) {
  const PartEntry& entry = *piece.entry;
  const std::uint64_t place = entry.place + number * kPieceBytes;
  const fs::path path = path_of(piece.part);
  PHAROS_TRY_VOID(open_part(piece.part));
  PHAROS_TRY_VOID(read_at(open_[piece.part], path, place, to));
  if (object_store::checksum_of(to) == entry.checksums[number]) return {};
  return Error{ErrorCode::kCorrupt, path.string() + ": bytes of \"" + entry.name + "\" from " + std::to_string(place) +
                                        " on are not what was written" + strangeness(path, *manifest_)};
}

Result<std::span<const std::byte>> SavedTensors::kept_piece(const Tensor::Piece& piece, std::uint64_t number,
                                                            std::uint64_t bytes) {
  const std::pair of{piece.entry, number};
  if (kept_of_ != of) {
    kept_of_ = {};
    kept_.resize(bytes);
    PHAROS_TRY_VOID(read_checked(piece, number, kept_));
    kept_of_ = of;
  }
  return std::span<const std::byte>{kept_};
}

Result<void> SavedTensors::read_bytes(const Tensor::Piece& piece, std::uint64_t begin, std::uint64_t bytes, DType as,
                                      std::span<std::byte> to) {
  const PartEntry& entry = *piece.entry;
  for (const std::uint64_t end = begin + bytes; begin < end;) {
    const std::uint64_t number = begin / kPieceBytes;
    const std::uint64_t piece_begin = number * kPieceBytes;
    const std::uint64_t length = std::min<std::uint64_t>(kPieceBytes, entry.bytes() - piece_begin);
    const std::uint64_t wanted = std::min(end, piece_begin + length) - begin;
    const auto own = to.first(wanted / size_of(entry.dtype) * size_of(as));
    if (wanted == length && entry.dtype == as) {
      PHAROS_TRY_VOID(read_checked(piece, number, own));
    } else {
      PHAROS_TRY(const auto from, kept_piece(piece, number, length));
      convert(entry.dtype, from.subspan(begin - piece_begin, wanted), as, own);
    }
    begin += wanted;
    to = to.subspan(own.size());
  }
  return {};
}

Result<void> SavedTensors::read(const Tensor& tensor, std::uint64_t begin, DType as, std::span<std::byte> to) {
  if (tensor.dtype != as && (!is_real(tensor.dtype) || !is_real(as))) {
    return Error{ErrorCode::kInvalidArgument, "its type is " + std::string{to_string(tensor.dtype)} +
                                                  " in the checkpoint, and " + std::string{to_string(as)} + " here"};
  }
  const std::uint64_t end = begin + to.size() / size_of(as);
  std::uint64_t at = begin;
  while (at < end) {
    const auto piece = std::ranges::find_if(tensor.pieces, [at](const Tensor::Piece& each) {
      return each.entry->begin <= at && at < each.entry->begin + each.entry->count;
    });
    if (piece == tensor.pieces.end()) {
      return Error{ErrorCode::kInvalidArgument, "it has " + std::to_string(tensor.elements) +
                                                    " elements in the checkpoint, and none at " + std::to_string(at)};
    }
    const PartEntry& entry = *piece->entry;
    const std::uint64_t count = std::min(end, entry.begin + entry.count) - at;
    const std::size_t size = size_of(tensor.dtype);
    PHAROS_TRY_VOID(read_bytes(*piece, (at - entry.begin) * size, count * size, as,
                               to.subspan((at - begin) * size_of(as), count * size_of(as))));
    at += count;
  }
  return {};
}

}  // namespace pharos::ml
