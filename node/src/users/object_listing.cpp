#include "users/object_listing.hpp"

#include <map>
#include <string>
#include <vector>

#include "head/rows.hpp"

namespace pharos::node {
namespace {

using Object = StoreInspection::Object;

std::string place_of(const Object& object) {
  if (!object.is_sealed) return "being written";
  if (object.is_copy) return object.is_out ? "other node" : "memory, a copy";
  return object.is_out ? "disk" : "memory";
}

std::string name_of(const Client& client) {
  if (const auto& worker = client.worker) return worker->label + " (pid " + std::to_string(worker->process.pid) + ")";
  const std::string& executable = client.job->program.executable;
  return executable.substr(executable.rfind('/') + 1);
}

}  // namespace

wire::Rows ObjectListing::sum_up() const {
  const StoreInspection store = store_.inspect();
  const auto bytes = [](ByteCount count) { return std::to_string(count.bytes()); };
  return {{"node", "capacity_bytes", "used_bytes", "idle_bytes", "disk_bytes", "objects"},
          {{to_string(site_.settings.id), bytes(store.capacity), bytes(store.used), bytes(store.idle),
            bytes(store.on_disk), std::to_string(store.count)}},
          0,
          0};
}

wire::Rows ObjectListing::list() const {
  const StoreInspection store = store_.inspect();
  std::map<CallerId, std::string> names;
  for (const auto& [caller, client] : clients_.callers()) names[caller] = name_of(client);
  for (const NodeId node : store.neighbours) names[CallerId{node.value()}] = "node " + to_string(node);
  for (const CallerId own : store.own) names[own] = "this node";
  const auto named = [&](CallerId process) {
    const auto found = names.find(process);
    return found == names.end() ? to_string(process) : found->second;  // it has outlived its Runtime
  };
  wire::Rows all{{"node", "object", "bytes", "where", "owner", "kept_by", "comes_from"}, {}, 0, 0};
  for (const Object& object : store.largest) {
    std::vector<std::string> others;
    for (const CallerId process : object.kept_by) others.push_back(named(process));
    for (const CallerId process : object.read_by) others.push_back(named(process) + " reads it");
    all.rows.push_back({to_string(site_.settings.id), to_string(object.id), std::to_string(object.size.bytes()),
                        place_of(object), object.holder ? named(object.holder) : "", listed(others), object.label});
  }
  return all;
}

}  // namespace pharos::node
