#include <algorithm>

#include <pharos/actors/exceptions.hpp>
#include <pharos/ml/readers.hpp>

#include "file_bytes.hpp"

// The file has records without a head: a byte for the label, then three planes of 32 by 32 bytes.

namespace pharos::ml {
namespace {

constexpr std::size_t kImageBytes = std::size_t{3} * 32 * 32;
constexpr std::size_t kRecordBytes = 1 + kImageBytes;

Labelled labelled_in(const Bytes& records) {
  const auto rows = static_cast<std::int64_t>(records.size() / kRecordBytes);
  const Bytes images{records.owner(), records.span().subspan(std::min<std::size_t>(records.size(), 1))};
  return {Array{DType::kU8, {rows, 3, 32, 32}, images, kRecordBytes}, Array{DType::kU8, {rows}, records, kRecordBytes}};
}

}  // namespace

Labelled read_cifar10(const std::vector<std::filesystem::path>& paths, Keep keep) {
  if (paths.empty()) throw_error(Error{ErrorCode::kInvalidArgument, "no file of CIFAR-10 was named"});
  std::vector<std::byte> all;
  for (const auto& path : paths) {
    const Bytes file = bytes_of_file(path, keep);
    if (file.empty() || file.size() % kRecordBytes != 0) {
      throw_corrupt(path, "its " + std::to_string(file.size()) + " bytes are no whole number of records of 3073");
    }
    for (std::size_t place = 0; place < file.size(); place += kRecordBytes) {
      const auto label = static_cast<std::uint8_t>(file.span()[place]);
      if (label < 10) continue;
      throw_corrupt(path, "record " + std::to_string(place / kRecordBytes) + " has the label " + std::to_string(label) +
                              ", and there are ten");
    }
    if (paths.size() == 1) return labelled_in(file);
    all.insert(all.end(), file.span().begin(), file.span().end());
  }
  return labelled_in(Bytes{std::move(all)});
}

}  // namespace pharos::ml
