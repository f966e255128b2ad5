#include <algorithm>
#include <iostream>
#include <set>
#include <string>
#include <vector>

#include "commands.hpp"
#include "listed.hpp"

namespace pharos::console {
namespace {

/// A command of the completion: what its user has typed before, and what may come next.
struct Words {
  std::string path;  ///< "" or " tune show"
  std::string next{};
};

void add_words(const CLI::App& command, const std::string& path, std::vector<Words>& all) {
  Words words{.path = path};
  for (const CLI::App* const each : listed_commands(command)) words.next += each->get_name() + ' ';
  for (const CLI::Option* const each : listed_options(command)) {
    std::string word = each->get_name() + ' ';
    if (!each->nonpositional()) {  // "nodes|actors" if it is one of some words
      word = each->get_type_name().find('|') == std::string::npos ? "" : each->get_type_name() + ' ';
      std::replace(word.begin(), word.end(), '|', ' ');
    }
    words.next += word;
  }
  words.next.pop_back();  // each command has --help
  // A command comes before the one that it belongs to, because the first match counts.
  for (const CLI::App* const each : listed_commands(command)) add_words(*each, path + ' ' + each->get_name(), all);
  all.push_back(std::move(words));
}

std::string options_for_paths(const CLI::App& command) {
  std::set<std::string> names;
  const auto look = [&](const auto& self, const CLI::App& app) -> void {
    for (const CLI::Option* const each : listed_options(app)) {
      const std::string type = each->get_type_name();
      if (each->nonpositional() && (type == "FILE" || type == "FOLDER")) names.insert(each->get_name());
    }
    for (const CLI::App* const each : listed_commands(app)) self(self, *each);
  };
  look(look, command);
  return CLI::detail::join(names, "|");
}

void print_bash(const CLI::App& app) {
  std::vector<Words> all;
  add_words(app, "", all);
  std::cout << "# Completes the commands and options of pharos in bash.\n"
               "_pharos() {\n"
               "  local word=\"${COMP_WORDS[COMP_CWORD]}\" path=\"\" next=\"\" i\n"
               "  case \"${COMP_WORDS[COMP_CWORD - 1]}\" in\n"
               "    "
            << options_for_paths(app)
            << ") return ;;  # bash completes the path\n"
               "  esac\n"
               "  for ((i = 1; i < COMP_CWORD; ++i)); do\n"
               "    [[ ${COMP_WORDS[i]} == -* ]] || path+=\" ${COMP_WORDS[i]}\"\n"
               "  done\n"
               "  case \"$path \" in\n";
  for (const Words& each : all) std::cout << "    \"" << each.path << " \"*) next=\"" << each.next << "\" ;;\n";
  std::cout << "  esac\n"
               "  mapfile -t COMPREPLY < <(compgen -W \"$next\" -- \"$word\")\n"
               "}\n"
               "complete -o default -F _pharos pharos\n";
}

}  // namespace

void add_completion(Commands& commands) {
  CLI::App& command =
      commands.add("completion", "Prints a script that completes commands and options in bash", [&commands] {
        print_bash(commands.app());
        return 0;
      });
  command.footer("Examples:\n  source <(pharos completion)    # in ~/.bashrc; the Debian package does without");
}

}  // namespace pharos::console
