// A program that tests run against a cluster of several nodes: `far_driver MODE`. It prints lines that tests look for,
// and "done" at its end. After an exception it prints "TYPE: message" and ends with status 1.

#include "far_driver.hpp"

#include <string>

#include <pharos/pharos.hpp>

#include "report.hpp"

int main(int, char** argv) {
  const std::string mode = argv[1];
  return pharos::cluster::report([&] {
    pharos::Runtime runtime;
    if (mode == "actors") run_actors(runtime);
    if (mode == "large") run_large(runtime);
    if (mode == "stop") run_stop(runtime);
    if (mode == "gpu") run_gpu(runtime);
    if (mode == "tasks") run_tasks(runtime);
    if (mode == "leaves_detached") run_leaves_detached(runtime, argv[2] != nullptr);
    if (mode == "finds_detached") run_finds_detached(runtime);
    if (mode == "ends_detached") run_ends_detached(runtime);
    if (mode == "load") run_load(runtime, argv[2]);
    if (mode == "drained") run_drained(runtime, argv[2]);
    if (mode == "objects") run_objects(runtime, argv[2]);
    if (mode == "exclusive") run_exclusive(runtime);
    if (mode == "overflow") run_overflow(runtime, std::stoi(argv[2]), argv[3]);
    if (mode == "nearest") run_nearest(runtime);
    if (mode == "loss") run_loss(runtime);
    if (mode == "fixed") run_fixed(runtime);
    if (mode == "hands_over") run_hands_over(runtime, argv[2]);
    if (mode == "has_actor") run_has_actor(runtime, argv[2]);
    if (mode == "kills_others_actor") run_ends_others_actor(runtime, false);
    if (mode == "stops_others_actor") run_ends_others_actor(runtime, true);
    if (mode == "full_disk") run_full_disk(runtime, argv[2], argv[3], argv[4]);
    if (mode == "cuts") run_cuts(runtime, std::stoull(argv[2]));
    if (mode == "crowd") run_crowd(runtime);
    if (mode == "owner") run_owner(runtime);
    if (mode == "quiet") run_quiet(runtime);
    if (mode == "placed") run_placed(runtime);
    if (mode == "groups") run_groups(runtime);
    if (mode == "group_loss") run_group_loss(runtime);
    if (mode == "waits") run_waits(runtime, argv[2]);
    if (mode == "wants_node") run_wants_node(runtime);
  });
}
