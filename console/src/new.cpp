#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>

#include <pharos/base/error.hpp>

#include "commands.hpp"
#include "new_files.hpp"

namespace pharos::console {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kNamePlace = "NEW_NAME";

struct Wanted {
  std::string name;
  bool trains = false;
};

/// CMake takes the name for a project and for programs.
Result<void> check_name(const std::string& name) {
  const auto fits = [](char each) {
    return std::isalnum(static_cast<unsigned char>(each)) != 0 || each == '-' || each == '_';
  };
  const bool begins_well = !name.empty() && std::isalpha(static_cast<unsigned char>(name.front())) != 0;
  if (begins_well && name != "test" && std::all_of(name.begin(), name.end(), fits)) return {};
  return Error{ErrorCode::kInvalidArgument, "a project cannot be called \"" + name + '"',
               "Take letters, digits, - and _, with a letter in front; \"test\" is a name of CMake's."};
}

std::string with_name(std::string_view text, const std::string& name) {
  std::string whole{text};
  for (std::size_t at = whole.find(kNamePlace); at != std::string::npos;
       at = whole.find(kNamePlace, at + name.size())) {
    whole.replace(at, kNamePlace.size(), name);
  }
  return whole;
}

Result<void> write(const fs::path& file, const std::string& text) {
  std::ofstream out{file, std::ios::binary};
  out << text << std::flush;
  if (out) return {};
  return Error::from_errno("writing " + file.string(), errno);
}

/// All files or none: they are written to a folder beside, which then gets the name.
Result<void> write_project(const Wanted& wanted) {
  const fs::path folder = wanted.name;
  const fs::path unfinished = '.' + wanted.name + ".unfinished";  // what an interrupted call has left may go
  std::error_code failed;
  if (fs::exists(folder, failed)) {
    return Error{ErrorCode::kAlreadyExists, "there is " + folder.string() + " here already", "Take another name."};
  }
  fs::remove_all(unfinished, failed);
  if (!fs::create_directory(unfinished, failed)) {
    return Error::from_errno("making the folder " + unfinished.string(), failed.value());
  }
  for (const NewFile& each : wanted.trains ? training_files() : program_files()) {
    if (auto written = write(unfinished / each.name, with_name(each.text, wanted.name)); !written) {
      fs::remove_all(unfinished, failed);
      return written;
    }
  }
  fs::rename(unfinished, folder, failed);
  if (failed) return Error::from_errno("renaming " + unfinished.string(), failed.value());
  return {};
}

/// What CMake has to be told so that it finds this copy of Pharos, and libtorch.
std::string options_for_cmake(const Wanted& wanted) {
  std::string options;
  const fs::path prefix = fs::read_symlink("/proc/self/exe").parent_path().parent_path();
  const bool is_installed = fs::exists(prefix / "include/pharos/pharos.hpp");
  if (!is_installed) {
    options += " -DCMAKE_PREFIX_PATH=FOLDER_WHERE_PHAROS_IS_INSTALLED";
  } else if (prefix != "/usr" && prefix != "/usr/local") {
    options += " -DCMAKE_PREFIX_PATH=" + prefix.string();
  }
  if (wanted.trains && std::getenv("PHAROS_TORCH_DIR") == nullptr) {
    options += " -DPHAROS_TORCH_DIR=FOLDER_OF_LIBTORCH";
  }
  return options;
}

Result<void> make_project(const Wanted& wanted) {
  PHAROS_TRY_VOID(check_name(wanted.name));
  PHAROS_TRY_VOID(write_project(wanted));
  const std::string& name = wanted.name;
  std::cout << name
            << (wanted.trains ? "/ has a training on two ranks, and its test"
                              : "/ has an actor and a task, and their test")
            << ". To build and run it:\n\n"
            << "  cmake -S " << name << " -B " << name << "/build -DCMAKE_BUILD_TYPE=Release"
            << options_for_cmake(wanted) << "\n  cmake --build " << name << "/build\n  " << name << "/build/" << name
            << "\n  ctest --test-dir " << name << "/build --output-on-failure\n";
  return {};
}

}  // namespace

void add_new(Commands& commands) {
  const auto wanted = std::make_shared<Wanted>();
  CLI::App& command = commands.add("new", "Makes a folder with a small project: a program, its test, a CMakeLists.txt",
                                   [wanted] { return status_of(make_project(*wanted)); });
  command.add_option("NAME", wanted->name, "The project's name, and that of its folder")->required();
  command.add_flag("--train", wanted->trains, "The program trains a network; it takes libtorch from PHAROS_TORCH_DIR");
  command.footer("Examples:\n  pharos new demo\n  pharos new spirals --train");
}

}  // namespace pharos::console
