#include "saved_tensors.hpp"

#include <algorithm>
#include <cstring>
#include <memory>

#include <pharos/actors/exceptions.hpp>
#include <pharos/ml/readers.hpp>
#include <pharos/object_store/checksum.hpp>

#include "folder.hpp"

namespace pharos::ml {
namespace {

namespace fs = std::filesystem;
using object_store::kPieceBytes;

/// Why this is not the part that was written: nothing, as far as its head says.
std::optional<std::string> strangeness(const fs::path& path, const Manifest& manifest) {
  try {
    const SafeTensors file = SafeTensors::read(path);
    std::string id;
    std::string step;
    for (const auto& [name, value] : file.metadata()) {
      if (name == "checkpoint") id = value;
      if (name == "step") step = value;
    }
    if (id == manifest.id) return std::nullopt;
    return "it is of another checkpoint, of step " + (step.empty() ? "?" : step);
  } catch (const Exception& e) {
    return e.error().message();
  }
}

Result<Bytes> part_bytes(const fs::path& path, const Part& part, const Manifest& manifest) {
  try {
    std::error_code error;
    const std::uint64_t bytes = fs::file_size(path, error);
    if (error) return Error{ErrorCode::kCorrupt, path.string() + " is missing"};
    if (bytes != part.bytes) {
      const auto why = strangeness(path, manifest);
      return Error{ErrorCode::kCorrupt, path.string() + " has " + std::to_string(bytes) + " bytes, and should have " +
                                            std::to_string(part.bytes) + (why ? ": " + *why : "")};
    }
    return map_file(path);
  } catch (const Exception& e) {
    return e.error();
  }
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
    : path_{std::move(path)}, manifest_{std::make_unique<const Manifest>(std::move(manifest))} {}

Result<SavedTensors> SavedTensors::open(const fs::path& checkpoint) {
  PHAROS_TRY(Manifest manifest, read_manifest(checkpoint));
  PHAROS_TRY_VOID(check_whole(manifest));
  SavedTensors saved{checkpoint, std::move(manifest)};
  for (std::size_t i = 0; i < saved.manifest_->parts.size(); ++i) {
    const Part& part = saved.manifest_->parts[i];
    PHAROS_TRY(Bytes bytes, part_bytes(checkpoint / part.file, part, *saved.manifest_));
    saved.files_.push_back(std::move(bytes));
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

Result<std::span<const std::byte>> SavedTensors::checked(const Tensor::Piece& piece, std::uint64_t begin,
                                                         std::uint64_t bytes) {
  const PartEntry& entry = *piece.entry;
  const auto all = files_[piece.part].span().subspan(entry.place, entry.bytes());
  std::vector<bool>& right = right_[&entry];
  right.resize(entry.checksums.size());
  for (std::uint64_t i = begin / kPieceBytes; i * kPieceBytes < begin + bytes; ++i) {
    if (right[i]) continue;
    const auto own = all.subspan(i * kPieceBytes, std::min<std::uint64_t>(kPieceBytes, all.size() - i * kPieceBytes));
    if (object_store::checksum_of(own) != entry.checksums[i]) {
      const fs::path path = path_ / manifest_->parts[piece.part].file;
      const auto why = strangeness(path, *manifest_);
      return Error{ErrorCode::kCorrupt, path.string() + ": bytes of \"" + entry.name + "\" from " +
                                            std::to_string(entry.place + i * kPieceBytes) +
                                            " on are not what was written" + (why ? ": " + *why : "")};
    }
    right[i] = true;
  }
  return all.subspan(begin, bytes);
}

Result<void> SavedTensors::read(const Tensor& tensor, std::uint64_t begin, DType as, std::span<std::byte> to) {
  if (tensor.dtype != as && (!is_real(tensor.dtype) || !is_real(as))) {
    return Error{ErrorCode::kInvalidArgument, "it is of " + std::string{to_string(tensor.dtype)} +
                                                  " in the checkpoint, and of " + std::string{to_string(as)} + " here"};
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
    PHAROS_TRY(const auto from, checked(*piece, (at - entry.begin) * size, count * size));
    convert(tensor.dtype, from, as, to.subspan((at - begin) * size_of(as), count * size_of(as)));
    at += count;
  }
  return {};
}

}  // namespace pharos::ml
