#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include <pharos/ml/readers.hpp>

namespace pharos::ml {

/// Reads or maps a whole file, for the readers. Throws the error of the system, and InvalidArgument if the path names
/// no regular file. A mapping lasts as long as a copy of the Bytes.
Bytes bytes_of_file(const std::filesystem::path& path, Keep keep);

/// Throws the error of the system if there is one. `what` names the attempt.
void throw_if(const std::error_code& failed, const std::string& what);
/// These throw an Exception with kCorrupt or kUnsupported. `why` says what is wrong and where.
[[noreturn]] void throw_corrupt(const std::filesystem::path& path, const std::string& why);
[[noreturn]] void throw_unsupported(const std::filesystem::path& path, const std::string& why);

/// The representation of numbers in a file.
struct FileNumbers {
  enum class Kind : std::uint8_t { kReal, kBFloat, kSigned, kUnsigned, kBool };
  Kind kind{};
  std::size_t bytes = 0;
  bool big_endian = false;
};
/// Returns the numbers as an array of the type that represents them. They are not copied if the representation is the
/// same. Throws an Exception with kUnsupported if no type can represent them, and with kCorrupt if there are fewer
/// bytes than the shape needs or the shape makes no sense. Bytes behind the last number are ignored.
Array array_of(const std::filesystem::path& path, FileNumbers numbers, std::vector<std::int64_t> shape,
               const Bytes& bytes);

}  // namespace pharos::ml
