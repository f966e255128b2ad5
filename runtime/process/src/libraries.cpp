#include <fcntl.h>
#include <link.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <set>
#include <sstream>
#include <string_view>

#include <pharos/base/fd.hpp>
#include <pharos/process/libraries.hpp>
#include <pharos/process/spawn.hpp>

namespace pharos::process {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 5> kSystemFolders{"/lib/", "/lib32/", "/lib64/", "/libx32/", "/usr/"};
constexpr std::size_t kListBytesMax = 1 << 20;

std::string name_of(const std::string& library) {
  return fs::path{library}.filename().string();
}

bool is_systems(const std::string& library) {
  return std::any_of(kSystemFolders.begin(), kSystemFolders.end(),
                     [&](std::string_view folder) { return library.starts_with(folder); });
}

/// The folder of libtorch's libraries. In a PyTorch that pip has installed, those of CUDA lie beside torch/lib, in
/// folders of their own: so it is the folder of all packages there.
std::string folder_of_libtorch(const fs::path& library) {
  const fs::path folder = library.parent_path();
  const bool is_package = folder.filename() == "lib" && folder.parent_path().filename() == "torch";
  return (is_package ? folder.parent_path().parent_path() : folder).string() + "/";
}

/// What the loader prints about a program; empty if it refuses it.
Result<std::string> list_of_loader(const std::string& loader, const std::string& program) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return Error::from_errno("making a pipe", errno);
  const Fd read_end{ends[0]};
  Fd write_end{ends[1]};
  const Fd nowhere{::open("/dev/null", O_WRONLY | O_CLOEXEC)};
  PHAROS_TRY(const pid_t child, spawn({.path = loader,
                                       .executable = {},
                                       .arguments = {loader, "--list", program},
                                       .environment = own_environment(),
                                       .moved = {{write_end.get(), STDOUT_FILENO}, {nowhere.get(), STDERR_FILENO}},
                                       .folder = {}}));
  write_end.reset();
  std::string text;
  std::array<char, 4096> some;
  while (text.size() < kListBytesMax) {
    const ssize_t size = ::read(read_end.get(), some.data(), some.size());
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) break;
    text.append(some.data(), static_cast<std::size_t>(size));
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status == 0 ? text : std::string{};
}

}  // namespace

std::vector<std::string> loaded_libraries() {
  std::vector<std::string> paths;
  const auto add = [](dl_phdr_info* loaded, std::size_t, void* to) {
    const std::string_view path = loaded->dlpi_name;
    // The program itself has no name, and what the kernel provides has no path.
    if (path.find('/') != std::string_view::npos) static_cast<std::vector<std::string>*>(to)->emplace_back(path);
    return 0;
  };
  ::dl_iterate_phdr(add, &paths);
  for (std::string& path : paths) path = fs::absolute(path).string();
  return paths;
}

// A line of the list is "NAME => PATH (ADDRESS)", or "PATH (ADDRESS)" for one that is asked for by its path.
Result<std::vector<std::string>> libraries_of(const std::string& program) {
  const auto own = loaded_libraries();
  const auto loader = std::find_if(own.begin(), own.end(),
                                   [](const std::string& library) { return name_of(library).starts_with("ld-"); });
  if (loader == own.end()) return std::vector<std::string>{};  // this process has no loader: neither has the program
  PHAROS_TRY(const std::string text, list_of_loader(*loader, program));
  std::vector<std::string> paths;
  std::istringstream lines{text};
  for (std::string line; std::getline(lines, line);) {
    const std::size_t arrow = line.find(" => ");
    const std::size_t begin = arrow != std::string::npos ? arrow + 4 : line.find_first_not_of(" \t");
    const std::size_t end = line.rfind(" (");
    if (begin == std::string::npos || end == std::string::npos || end <= begin || line[begin] != '/') continue;
    paths.push_back(line.substr(begin, end - begin));
  }
  return paths;
}

std::vector<std::string> libraries_to_send(const std::vector<std::string>& libraries, bool with_libtorch) {
  std::set<std::string> libtorchs;  // folders, each with a slash at its end
  for (const std::string& library : libraries) {
    if (name_of(library).starts_with("libtorch") || name_of(library).starts_with("libc10")) {
      libtorchs.insert(folder_of_libtorch(library));
    }
  }
  std::vector<std::string> sent;
  for (const std::string& library : libraries) {
    const bool is_torch = std::any_of(libtorchs.begin(), libtorchs.end(),
                                      [&](const std::string& folder) { return library.starts_with(folder); });
    const bool is_sent = is_torch ? with_libtorch : !is_systems(library);
    if (is_sent || name_of(library).starts_with("libpharos")) sent.push_back(library);
  }
  return sent;
}

}  // namespace pharos::process
