#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

#include <pharos/base/fd.hpp>

namespace pharos::ml {

/// A file that has its name when it is whole, and on disk; what was there before stays until then. It is written beside
/// it, under a name of its own, and goes when it is left before. Throws what the system says.
class NewFile {
 public:
  explicit NewFile(std::filesystem::path path);
  NewFile(NewFile&&) = delete;
  ~NewFile();

  void write(std::span<const std::byte> bytes);
  void finish();

 private:
  [[noreturn]] void fail(int error_number) const;

  const std::filesystem::path path_;
  const std::string what_;
  const std::filesystem::path begun_;
  const Fd file_;
  bool is_named_ = false;
};

}  // namespace pharos::ml
