#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

#include <pharos/base/fd.hpp>

namespace pharos::ml {

/// A file that gets its name only when it is complete and on disk; an existing file of that name stays until then. It
/// is written in the same folder under a unique name, and removed by the destructor unless finish() has given the file
/// its name. Functions throw the error of the system. If finish() throws because the folder could not be synced, the
/// new file has its name already. If the process dies, the file with the unique name stays. Owned by the function that
/// writes; one thread.
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
