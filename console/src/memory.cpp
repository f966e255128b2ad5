#include <algorithm>
#include <iostream>
#include <map>
#include <memory>
#include <string>

#include <pharos/base/byte_count.hpp>

#include "commands.hpp"
#include "table.hpp"

namespace pharos::console {
namespace {

constexpr std::size_t kShown = 40;  // objects in the table

std::string bytes(std::uint64_t count) {
  return to_string(ByteCount{count});
}

std::string where(const wire::InspectedObject& object) {
  if (!object.sealed) return "being written";
  if (object.copied) return object.out ? "other node" : "memory, a copy";
  return object.out ? "disk" : "memory";
}

void show(const wire::InspectedStore& store) {
  if (store.capacity == 0) {
    std::cout << "The object store is empty: nobody has used it.\n";
    return;
  }
  std::cout << "Memory   " << bytes(store.used) << " of " << bytes(store.capacity) << " in use";
  if (store.idle != 0) std::cout << ", " << bytes(store.idle) << " free and not yet given back to the system";
  std::cout << "\nDisk     " << bytes(store.on_disk) << '\n';
  std::cout << "Objects  " << store.objects << "\n";
  if (store.largest.empty()) return;

  std::map<CallerId, std::string> names;
  for (const wire::InspectedProcess& process : store.processes) {
    std::string& name = names[process.caller];
    name = process.label.empty() ? to_string(process.caller) : process.label.substr(process.label.rfind('/') + 1);
    if (process.pid != 0) name += " (pid " + std::to_string(process.pid) + ")";
  }
  const auto name_of = [&](CallerId caller) {
    const auto found = names.find(caller);
    return found == names.end() ? to_string(caller) : found->second;
  };
  Table table{{"SIZE", "WHERE", "OWNER", "KEPT ALIVE BY", "COMES FROM"}};
  for (std::size_t i = 0; i < std::min(store.largest.size(), kShown); ++i) {
    const wire::InspectedObject& object = store.largest[i];
    std::string owner = "let go";
    std::string others;
    for (const wire::ObjectUse& use : object.uses) {
      if (use.holds) {
        owner = name_of(use.process);
      } else {
        if (!others.empty()) others += ", ";
        others += name_of(use.process) + (use.reads ? " reads it" : "");
      }
    }
    if (others.empty()) others = owner == "let go" ? "nobody" : "its owner";
    table.add({bytes(object.size), where(object), owner, others, object.label});
  }
  std::cout << '\n';
  table.print();
  if (store.objects > kShown) std::cout << "… and " << store.objects - kShown << " more\n";
}

Result<void> print_memory(const Place& place) {
  PHAROS_TRY(const wire::Message answer, ask(place, wire::Inspect{}));
  const auto* const inspected = std::get_if<wire::Inspected>(&answer);
  if (inspected == nullptr) return Error{ErrorCode::kInternal, "the node sent an invalid answer"};
  show(inspected->store);
  return {};
}

}  // namespace

void add_memory(Commands& commands) {
  const auto place = std::make_shared<Place>();
  CLI::App& command =
      commands.add("memory", "Shows the objects in a node's object store, and which processes keep them",
                   [place] { return status_of(print_memory(*place)); });
  add_place_options(command, *place);
  command.footer(
      "Examples:\n"
      "  pharos memory\n"
      "  watch -n 1 pharos memory");
}

}  // namespace pharos::console
