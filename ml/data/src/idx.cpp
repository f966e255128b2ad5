#include <pharos/ml/readers.hpp>

#include "file_bytes.hpp"

// The format: two zeros, a letter for the type and the number of dimensions, one byte each; the dimensions, 4 bytes
// each; the numbers. All are big-endian.

namespace pharos::ml {

Array read_idx(const std::filesystem::path& path, Keep keep) {
  using Kind = FileNumbers::Kind;
  const Bytes file = bytes_of_file(path, keep);
  const auto at = [&](std::size_t place) { return static_cast<std::uint8_t>(file.span()[place]); };
  if (file.size() >= 2 && at(0) == 0x1f && at(1) == 0x8b) {
    throw_unsupported(path, "it is compressed; run gunzip first");
  }
  if (file.size() < 4 || at(0) != 0 || at(1) != 0)
    throw_corrupt(path, "this is not an IDX file: it begins with other bytes");

  FileNumbers numbers{.kind = Kind::kReal, .bytes = 0, .big_endian = true};
  switch (at(2)) {
    case 0x08: numbers.kind = Kind::kUnsigned, numbers.bytes = 1; break;
    case 0x09: numbers.kind = Kind::kSigned, numbers.bytes = 1; break;
    case 0x0b: numbers.kind = Kind::kSigned, numbers.bytes = 2; break;
    case 0x0c: numbers.kind = Kind::kSigned, numbers.bytes = 4; break;
    case 0x0d: numbers.bytes = 4; break;
    case 0x0e: numbers.bytes = 8; break;
    default: throw_corrupt(path, "an IDX file has no numbers of type " + std::to_string(at(2)));
  }
  const std::size_t head = 4 + std::size_t{4} * at(3);
  if (file.size() < head) throw_corrupt(path, "it ends within its head");
  std::vector<std::int64_t> shape;
  for (std::size_t place = 4; place < head; place += 4) {
    shape.push_back(std::int64_t{at(place)} << 24 | at(place + 1) << 16 | at(place + 2) << 8 | at(place + 3));
  }
  Array array = array_of(path, numbers, std::move(shape), Bytes{file.owner(), file.span().subspan(head)});
  const std::size_t used = head + array.elements() * numbers.bytes;
  if (used != file.size()) {
    throw_corrupt(path, "it has " + std::to_string(file.size() - used) + " bytes behind its last number");
  }
  return array;
}

}  // namespace pharos::ml
