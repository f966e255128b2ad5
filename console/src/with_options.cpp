#include "with_options.hpp"

#include <filesystem>
#include <iostream>
#include <utility>

#include <pharos/process/libraries.hpp>

namespace pharos::console {

namespace fs = std::filesystem;

std::vector<std::string> WithOptions::environment() const {
  std::vector<std::string> variables;
  std::string joined;
  for (const std::string& path : paths) joined += (joined.empty() ? "" : ":") + path;
  if (!joined.empty()) variables.push_back("PHAROS_WITH=" + joined);
  if (libtorch) variables.emplace_back("PHAROS_WITH_LIBTORCH=1");
  return variables;
}

void add_with_options(CLI::App& command, WithOptions& with) {
  command
      .add_option("--with", with.paths,
                  "A file or a folder, in the folder in which the program starts, that it needs on each node; may be "
                  "given several times")
      ->type_name("PATH")
      ->allow_extra_args(false);
  command.add_flag("--with-libtorch", with.libtorch, "Sends libtorch's libraries, too, to nodes that lack them");
}

JobFiles files_of_job(const std::vector<std::string>& command, const WithOptions& with) {
  JobFiles files{.with = with.paths, .command = command};
  std::error_code error;
  const std::string& program = command.front();
  const fs::path within = fs::absolute(program).lexically_normal().lexically_relative(fs::current_path());
  const bool has_path = program.find('/') != std::string::npos;  // otherwise the node looks into its own PATH
  if (!has_path || within.empty() || *within.begin() == ".." || !fs::is_regular_file(within, error)) return files;
  files.with.push_back(within.string());
  files.command.front() = "./" + within.string();
  const auto libraries = process::libraries_of(files.command.front());
  if (!libraries) {
    std::cerr << "pharos: which libraries " << program << " needs is not known: " << libraries.error().to_string()
              << '\n';
    return files;
  }
  for (std::string& library : process::libraries_to_send(*libraries, with.libtorch)) {
    files.with.push_back(std::move(library));
  }
  return files;
}

}  // namespace pharos::console
