#include "file_bytes.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include <pharos/actors/exceptions.hpp>
#include <pharos/base/fd.hpp>
#include <pharos/base/whole_files.hpp>

#include "shapes.hpp"

namespace pharos::ml {
namespace {

Bytes mapped(const Fd& file, std::size_t bytes, const std::string& what) {
  if (bytes == 0) return {};
  void* const memory = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (memory == MAP_FAILED) throw_error(Error::from_errno(what, errno));
  const auto unmap = [bytes](const void* at) { ::munmap(const_cast<void*>(at), bytes); };
  const std::shared_ptr<const void> owner{static_cast<const void*>(memory), unmap};
  return {owner, {static_cast<const std::byte*>(memory), bytes}};
}

std::optional<DType> type_of(FileNumbers numbers) {
  using Kind = FileNumbers::Kind;
  switch (numbers.kind) {
    case Kind::kReal:
      if (numbers.bytes == 2) return DType::kF16;
      if (numbers.bytes == 4) return DType::kF32;
      return numbers.bytes == 8 ? std::optional{DType::kF64} : std::nullopt;
    case Kind::kBFloat: return numbers.bytes == 2 ? std::optional{DType::kBF16} : std::nullopt;
    case Kind::kSigned:
      if (numbers.bytes == 1) return DType::kI8;
      if (numbers.bytes == 2 || numbers.bytes == 4) return DType::kI32;
      return numbers.bytes == 8 ? std::optional{DType::kI64} : std::nullopt;
    case Kind::kUnsigned:
      if (numbers.bytes == 1) return DType::kU8;
      if (numbers.bytes == 2) return DType::kI32;
      return numbers.bytes == 4 ? std::optional{DType::kI64} : std::nullopt;
    case Kind::kBool: return numbers.bytes == 1 ? std::optional{DType::kU8} : std::nullopt;
  }
  return std::nullopt;
}

template <class From, class To>
void widen(std::span<const std::byte> from, std::span<std::byte> to) {
  for (std::size_t i = 0; i < from.size() / sizeof(From); ++i) {
    From value{};
    std::memcpy(&value, from.data() + i * sizeof(From), sizeof value);
    const To wide = value;
    std::memcpy(to.data() + i * sizeof(To), &wide, sizeof wide);
  }
}

}  // namespace

Bytes bytes_of_file(const std::filesystem::path& path, Keep keep) {
  const std::string what = "reading " + path.string();
  const Fd file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0) throw_error(Error::from_errno(what, errno));
  if (!S_ISREG(status.st_mode)) {
    throw_error(Error{ErrorCode::kInvalidArgument, what + ": this is no file", "Name a file."});
  }
  if (keep == Keep::kMapped) return mapped(file, static_cast<std::size_t>(status.st_size), what);
  auto bytes = read_whole(file, what);
  if (!bytes) throw_error(std::move(bytes).error());
  return Bytes{*std::move(bytes)};
}

Bytes map_file(const std::filesystem::path& path) {
  return bytes_of_file(path, Keep::kMapped);
}

void throw_if(const std::error_code& failed, const std::string& what) {
  if (failed) throw_error(Error::from_errno(what, failed.value()));
}
void throw_corrupt(const std::filesystem::path& path, const std::string& why) {
  throw_error(Error{ErrorCode::kCorrupt, path.string() + ": " + why});
}
void throw_unsupported(const std::filesystem::path& path, const std::string& why) {
  throw_error(Error{ErrorCode::kUnsupported, path.string() + ": " + why});
}

Array array_of(const std::filesystem::path& path, FileNumbers numbers, std::vector<std::int64_t> shape,
               const Bytes& bytes) {
  using Kind = FileNumbers::Kind;
  const std::optional<DType> type = type_of(numbers);
  if (!type) {
    throw_unsupported(
        path, "there is no type for its numbers of " + std::to_string(numbers.bytes * 8) + " bits; write others");
  }
  // Checked even if a length of 0 makes the array empty.
  if (!bytes_of_shape(*type, shape)) throw_corrupt(path, "there can be no array of " + describe(*type, shape));
  const auto needed_as_bytes = bytes_of_shape(DType::kU8, shape);
  std::size_t needed = 0;
  if (!needed_as_bytes || __builtin_mul_overflow(*needed_as_bytes, numbers.bytes, &needed) || needed > bytes.size()) {
    throw_corrupt(path, "it has " + std::to_string(bytes.size()) + " bytes of numbers, which are fewer than " +
                            describe(*type, shape) + " takes");
  }
  const Bytes own{bytes.owner(), bytes.span().first(needed)};
  if (!numbers.big_endian && size_of(*type) == numbers.bytes) return {*type, std::move(shape), own};

  std::vector<std::byte> turned;
  std::span<const std::byte> from = own.span();
  if (numbers.big_endian && numbers.bytes > 1) {
    turned.assign(from.begin(), from.end());
    for (std::size_t i = 0; i < turned.size(); i += numbers.bytes) {
      std::reverse(turned.begin() + static_cast<std::ptrdiff_t>(i),
                   turned.begin() + static_cast<std::ptrdiff_t>(i + numbers.bytes));
    }
    from = turned;
  }
  if (size_of(*type) == numbers.bytes) {
    if (turned.empty()) return {*type, std::move(shape), own};  // numbers of one byte, or no numbers
    return {*type, std::move(shape), Bytes{std::move(turned)}};
  }
  std::vector<std::byte> wide(from.size() / numbers.bytes * size_of(*type));
  if (numbers.bytes == 2) {
    numbers.kind == Kind::kSigned ? widen<std::int16_t, std::int32_t>(from, wide)
                                  : widen<std::uint16_t, std::int32_t>(from, wide);
  } else {
    widen<std::uint32_t, std::int64_t>(from, wide);
  }
  return {*type, std::move(shape), Bytes{std::move(wide)}};
}

}  // namespace pharos::ml
