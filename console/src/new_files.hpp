#pragma once

#include <span>
#include <string_view>

namespace pharos::console {

/// A file that `pharos new` writes. In its text NEW_NAME stands for the project's name.
struct NewFile {
  std::string_view name;
  std::string_view text;
};

// The files in examples/new/program and examples/new/training, which CMake puts into the executable.

std::span<const NewFile> program_files();
std::span<const NewFile> training_files();

}  // namespace pharos::console
