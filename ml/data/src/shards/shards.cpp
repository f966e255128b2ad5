#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <system_error>
#include <utility>

#include <nlohmann/json.hpp>

#include <pharos/actors/exceptions.hpp>
#include <pharos/ml/shards.hpp>

#include "file_bytes.hpp"
#include "new_file.hpp"

namespace pharos::ml {
namespace {

namespace fs = std::filesystem;

constexpr const char* kIndex = "index.json";

[[noreturn]] void refuse_index(const fs::path& path) {
  throw_corrupt(path, R"(this is not {"shards": [{"name": "00000.safetensors", "samples": 1000}, …]})");
}

/// Samples `begin` to `begin + count`, one row of an array for each.
std::vector<NamedArray> arrays_of(const Dataset& dataset, std::uint64_t begin, std::uint64_t count) {
  std::vector<std::vector<std::byte>> memory;
  for (const Field& field : dataset.fields()) memory.emplace_back(field.bytes() * count);
  std::vector<std::span<std::byte>> to(memory.size());
  for (std::uint64_t i = 0; i < count; ++i) {
    for (std::size_t field = 0; field < to.size(); ++field) {
      const std::size_t bytes = dataset.fields()[field].bytes();
      to[field] = std::span{memory[field]}.subspan(static_cast<std::size_t>(i) * bytes, bytes);
    }
    dataset.read(begin + i, 0, to);
  }
  std::vector<NamedArray> arrays;
  for (std::size_t i = 0; i < memory.size(); ++i) {
    const Field& field = dataset.fields()[i];
    std::vector<std::int64_t> shape{static_cast<std::int64_t>(count)};
    shape.insert(shape.end(), field.shape.begin(), field.shape.end());
    arrays.push_back({field.name, Array{field.dtype, std::move(shape), Bytes{std::move(memory[i])}}});
  }
  return arrays;
}

std::string name_of(std::size_t number) {
  const std::string digits = std::to_string(number);
  return std::string(digits.size() < 5 ? 5 - digits.size() : 0, '0') + digits + ".safetensors";
}

}  // namespace

std::vector<Shard> shards_in(const fs::path& folder) {
  const fs::path path = folder / kIndex;
  const Bytes text = bytes_of_file(path, Keep::kInMemory);
  const auto* const begin = reinterpret_cast<const char*>(text.data());
  const auto index = nlohmann::json::parse(begin, begin + text.size(), nullptr, false);
  if (!index.is_object() || !index.contains("shards") || !index["shards"].is_array()) refuse_index(path);
  std::vector<Shard> shards;
  for (const auto& each : index["shards"]) {
    if (!each.is_object() || !each.contains("name") || !each["name"].is_string() || !each.contains("samples") ||
        !each["samples"].is_number_unsigned()) {
      refuse_index(path);
    }
    shards.push_back({each["name"], each["samples"]});
  }
  return shards;
}

void write_shards(const fs::path& folder, const Dataset& dataset, std::uint64_t samples) {
  if (samples == 0) throw_error(Error{ErrorCode::kInvalidArgument, "shards of no samples make no sense"});
  for (const Field& each : dataset.fields()) {
    if (!each.varies()) continue;
    throw_error(Error{ErrorCode::kInvalidArgument,
                      "the field \"" + each.name + "\" varies, and shards of safetensors have rows of one length",
                      "Write a tar archive for samples of different sizes."});
  }
  std::error_code failed;
  fs::create_directories(folder, failed);
  throw_if(failed, "making the folder " + folder.string());
  nlohmann::json shards = nlohmann::json::array();
  for (std::uint64_t begin = 0; begin < dataset.size(); begin += samples) {
    const std::uint64_t count = std::min(samples, dataset.size() - begin);
    const std::string name = name_of(shards.size());
    write_safetensors(folder / name, arrays_of(dataset, begin, count));
    shards.push_back({{"name", name}, {"samples", count}});
  }
  const std::string text = nlohmann::json{{"shards", std::move(shards)}}.dump(1) + "\n";
  NewFile index{folder / kIndex};
  index.write(std::as_bytes(std::span{text}));
  index.finish();
}

DatasetPtr open_shard(const fs::path& path) {
  if (path.extension() == ".safetensors") return rows_of(SafeTensors::read(path).tensors());
  if (path.extension() == ".tar") return samples_in_tar(path);
  throw_unsupported(path, "the name of a shard ends with .safetensors or .tar; others need StreamOptions::open");
}

}  // namespace pharos::ml
