// Makes three actor groups on the head's node, "b" and "c": one whose members are on different nodes, one whose members
// are together, and one whose members each ask for a place. Prints the node and the GPUs of each member.

#include <cstdlib>
#include <string>

#include <pharos/pharos.hpp>

#include "report.hpp"

namespace {

using pharos::cluster::say;

class Placed {
 public:
  std::string where() const {
    const char* const gpus = std::getenv("CUDA_VISIBLE_DEVICES");
    return to_string(pharos::context().node) + " with " + (gpus == nullptr || *gpus == '\0' ? "none" : gpus);
  }
};

pharos::NodeId node_of_task() {
  return pharos::context().node;
}
pharos::NodeId node_with(pharos::Runtime& runtime, const std::string& resource) {
  return runtime.submit<&node_of_task>(pharos::TaskOptions{.resources = {{resource, 1}}}).get();
}

void say_where(const std::string& name, const pharos::ActorGroup<Placed>& group) {
  for (const std::string& where : group.gather<&Placed::where>().get()) say(name + " on " + where);
}

}  // namespace

int main() {
  return pharos::cluster::report([] {
    pharos::Runtime runtime;
    const pharos::NodeId b = node_with(runtime, "b");
    const pharos::NodeId c = node_with(runtime, "c");
    say("b is " + to_string(b));
    say("c is " + to_string(c));
    say_where("apart", runtime.spawn_group<Placed>(
                           {.size = 3, .member = {.cpus = 1}, .strategy = pharos::Strategy::kStrictSpread}));
    say_where("together", runtime.spawn_group<Placed>(
                              {.size = 2, .member = {.cpus = 0.5}, .strategy = pharos::Strategy::kStrictPack}));
    say_where("as asked",
              runtime.spawn_group<Placed>(
                  {.members = {
                       {.labels = {{"zone", "b"}}}, {.gpus = 1}, {.memory = pharos::ByteCount{1 << 20}, .node = b}}}));
  });
}
