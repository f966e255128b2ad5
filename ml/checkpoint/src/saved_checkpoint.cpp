#include <pharos/actors/exceptions.hpp>
#include <pharos/ml/checkpoints.hpp>

#include "folder.hpp"
#include "saved_tensors.hpp"

namespace pharos::ml {

namespace fs = std::filesystem;

std::vector<SavedCheckpoint> checkpoints_in(const fs::path& folder) {
  std::vector<SavedCheckpoint> found;
  const auto names = complete_in(folder);
  if (!names && names.error().code() == ErrorCode::kNotFound) return found;
  if (!names) throw_error(names.error());
  for (const std::string& name : *names) {
    const auto manifest = read_manifest(folder / name);
    if (!manifest) {
      // Checkpoints that are damaged or of a newer format are left out. Any other error is thrown, because otherwise an
      // older checkpoint would be taken for the newest.
      const ErrorCode why = manifest.error().code();
      if (why != ErrorCode::kCorrupt && why != ErrorCode::kUnsupported) throw_error(manifest.error());
      continue;
    }
    SavedCheckpoint saved{
        .path = folder / name, .moment = manifest->moment, .ranks = static_cast<std::uint32_t>(manifest->parts.size())};
    for (const RankPart& each : manifest->parts) saved.bytes += each.bytes;
    found.push_back(std::move(saved));
  }
  return found;
}

namespace {

SavedTensors opened(const fs::path& checkpoint) {
  auto saved = SavedTensors::open(checkpoint);
  if (!saved) throw_error(std::move(saved).error());
  return *std::move(saved);
}

NamedArray whole_tensor(SavedTensors& saved, std::string_view name, const SavedTensors::Tensor& tensor) {
  std::vector<std::byte> bytes(tensor.elements * size_of(tensor.dtype));
  const auto read = saved.read(tensor, 0, tensor.dtype, bytes);
  if (!read) throw_error(read.error());
  return {std::string{name}, Array{tensor.dtype, tensor.shape, Bytes{std::move(bytes)}}};
}

}  // namespace

void verify_checkpoint(const fs::path& checkpoint) {
  SavedTensors saved = opened(checkpoint);
  const auto heads = saved.check_heads();
  if (!heads) throw_error(heads.error());
  for (const auto& [name, tensor] : saved.tensors()) static_cast<void>(whole_tensor(saved, name, tensor));
}

std::vector<NamedArray> tensors_of_checkpoint(const fs::path& checkpoint, const std::string& prefix) {
  SavedTensors saved = opened(checkpoint);
  std::vector<NamedArray> tensors;
  for (const auto& [name, tensor] : saved.tensors()) {
    if (name.starts_with(prefix)) tensors.push_back(whole_tensor(saved, name.substr(prefix.size()), tensor));
  }
  return tensors;
}

}  // namespace pharos::ml
