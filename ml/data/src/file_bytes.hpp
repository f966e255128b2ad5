#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <pharos/ml/readers.hpp>

namespace pharos::ml {

/// Throws what the system says.
Bytes bytes_of_file(const std::filesystem::path& path, Keep keep);

/// `why` says what is wrong, and where.
[[noreturn]] void throw_corrupt(const std::filesystem::path& path, const std::string& why);
[[noreturn]] void throw_unsupported(const std::filesystem::path& path, const std::string& why);

/// How a file writes numbers.
struct FileNumbers {
  enum class Kind : std::uint8_t { kReal, kBFloat, kSigned, kUnsigned, kBool };
  Kind kind{};
  std::size_t bytes = 0;
  bool big_endian = false;
};
/// The type that they become; they stay where they are if that is theirs, else are copied. Throws for what there is no
/// type for, and when `bytes` are less than the shape says.
Array array_of(const std::filesystem::path& path, FileNumbers numbers, std::vector<std::int64_t> shape,
               const Bytes& bytes);

}  // namespace pharos::ml
