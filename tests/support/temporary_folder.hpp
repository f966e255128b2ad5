#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>

#include <pharos/base/check.hpp>

namespace pharos {

/// A new folder for one test. The destructor removes the folder and all files in it.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = std::filesystem::temp_directory_path() / "pharos-test-XXXXXX";
    PHAROS_CHECK(::mkdtemp(name.data()) != nullptr, name);
    path_ = name;
  }
  TemporaryFolder(TemporaryFolder&&) = delete;
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace pharos
