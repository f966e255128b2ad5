#include <iostream>
#include <string>
#include <string_view>

#include "commands.hpp"
#include "listed.hpp"

namespace pharos::console {
namespace {

/// A cell of a Markdown table.
std::string cell(std::string text) {
  for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) text.insert(at, 1, '\\');
  return text;
}

std::string with_type(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  return option.get_name(!option.nonpositional()) + (type.empty() ? "" : ' ' + type);
}

std::string described(const CLI::Option& option) {
  std::string text = option.get_description();
  if (!option.get_envname().empty()) text += ". Default: `" + option.get_envname() + "`";
  return text;
}

void print_command(const CLI::App& command, const std::string& name) {
  std::cout << "\n## " << name << "\n\n" << command.get_description() << ".\n";
  bool has_rows = false;
  for (const CLI::Option* const each : listed_options(command)) {
    if (each == command.get_help_ptr()) continue;
    if (!has_rows) std::cout << "\n| | |\n| --- | --- |\n";
    has_rows = true;
    std::cout << "| `" << cell(with_type(*each)) << "` | " << cell(described(*each)) << " |\n";
  }
  if (const std::string footer = command.get_footer(); !footer.empty())
    std::cout << "\n```text\n" << footer << "\n```\n";
  for (const CLI::App* const each : listed_commands(command)) print_command(*each, name + ' ' + each->get_name());
}

void print_page(const CLI::App& app) {
  std::cout << "# Commands of `pharos`\n\n"
               "`pharos COMMAND --help` says the same. `pharos reference` prints this page.\n\n"
            << app.get_footer() << '\n';
  for (const CLI::App* const each : listed_commands(app)) print_command(*each, "pharos " + each->get_name());
}

}  // namespace

void add_reference(Commands& commands) {
  commands
      .add("reference", "Prints docs/commands.md",
           [&commands] {
             print_page(commands.app());
             return 0;
           })
      .group("");
}

}  // namespace pharos::console
