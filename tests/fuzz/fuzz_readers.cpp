// Gives a file of arbitrary bytes to each reader of datasets. The reader must return numbers that can be read, or
// throw an exception that names the file.

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <pharos/actors/exceptions.hpp>
#include <pharos/base/check.hpp>
#include <pharos/base/fd.hpp>
#include <pharos/base/whole_files.hpp>
#include <pharos/ml/readers.hpp>
#include <pharos/ml/shards.hpp>

#include "images/image_file.hpp"

namespace {

using namespace pharos;
using namespace pharos::ml;

/// Reads all numbers of the array.
void use(const Array& array) {
  PHAROS_CHECK(array.shape().empty() || static_cast<std::size_t>(array.shape()[0]) == array.rows());
  volatile std::byte sum{};
  for (std::size_t row = 0; row < array.rows() && array.row_bytes() != 0; ++row) {
    for (const std::byte each : array.row(row)) sum = sum ^ each;
  }
}
void use(const std::vector<NamedArray>& arrays) {
  for (const NamedArray& each : arrays) use(each.array);
}
void use(const Table& table) {
  for (const Column& each : table.columns()) {
    std::visit([&](const auto& values) { PHAROS_CHECK(values.size() == table.rows(), each.name, table.rows()); },
               each.values);
  }
}
void use(const Tokens& tokens) {
  for (std::size_t place = 0; place < tokens.size(); ++place) {
    const std::int64_t token = tokens[place];
    PHAROS_CHECK(token >= 0 && token <= UINT32_MAX, token);
  }
}

/// Reads all pixels, or the last one of a large image.
void use(ImageFile& image) {
  const Size size = image.size();
  constexpr std::uint64_t kMany = 1 << 20;
  const Box last{std::int64_t{size.width} - 1, std::int64_t{size.height} - 1, 1, 1};
  const Pixels pixels = image.read(std::uint64_t{size.width} * size.height > kMany ? last : box_of(size));
  volatile std::uint32_t sum = 0;
  for (std::uint32_t y = 0; y < pixels.size().height; ++y) {
    for (std::uint32_t x = 0; x < pixels.size().width; ++x) sum = sum + pixels.numbers(y)[x];
  }
}

/// Reads all samples of an archive.
void use(const Dataset& data) {
  for (std::uint64_t sample = 0; sample < data.size(); ++sample) {
    std::vector<std::vector<std::byte>> memory;
    for (std::size_t i = 0; i < data.fields().size(); ++i) {
      memory.emplace_back(data.fields()[i].bytes(data.length(sample, i)));
    }
    const std::vector<std::span<std::byte>> to{memory.begin(), memory.end()};
    data.read(sample, 0, to);
  }
}

using Read = void (*)(const std::filesystem::path& path);
constexpr Read kReaders[]{
    [](const std::filesystem::path& path) { use(read_idx(path)); },
    [](const std::filesystem::path& path) {
      const Labelled read = read_cifar10({path});
      use(read.samples);
      use(read.labels);
    },
    [](const std::filesystem::path& path) { use(read_npy(path)); },
    [](const std::filesystem::path& path) { use(read_tokens(path)); },
    [](const std::filesystem::path& path) { use(read_csv(path)); },
    [](const std::filesystem::path& path) { use(read_csv(path, {.separator = ';', .has_names = false})); },
    [](const std::filesystem::path& path) { use(read_json_lines(path)); },
    [](const std::filesystem::path& path) { use(SafeTensors::read(path).tensors()); },
    [](const std::filesystem::path& path) { use(read_torch(path)); },
    [](const std::filesystem::path& path) { use(*samples_in_tar(path)); },
    [](const std::filesystem::path& path) {
      const Bytes bytes = map_file(path);
      use(*ImageFile::open(bytes.span(), path.string()));
    }};

}  // namespace

/// Replaces the function of pharos_actors, but throws only Exception, because this program does not check the type.
void pharos::throw_error(Error error) {
  throw Exception{std::move(error)};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Fd file{::memfd_create("fuzz_readers", MFD_CLOEXEC)};
  PHAROS_CHECK(write_whole(file, std::as_bytes(std::span{data, size}), "writing", "").ok());
  const std::string path = "/proc/self/fd/" + std::to_string(file.get());
  for (const Read read : kReaders) {
    try {
      read(path);
    } catch (const Exception& e) {
      PHAROS_CHECK(e.code() == ErrorCode::kCorrupt || e.code() == ErrorCode::kUnsupported, e.what());
      PHAROS_CHECK(std::string{e.what()}.find(path + ": ") != std::string::npos, e.what());
    }
  }
  return 0;
}
