#include "listed.hpp"

namespace pharos::console {

std::vector<const CLI::App*> listed_commands(const CLI::App& command) {
  return command.get_subcommands([](const CLI::App* each) { return !each->get_group().empty(); });
}

std::vector<const CLI::Option*> listed_options(const CLI::App& command) {
  return command.get_options([](const CLI::Option* each) { return !each->get_group().empty(); });
}

}  // namespace pharos::console
