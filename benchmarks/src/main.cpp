// pharos-bench: measures Pharos and, in the same run, the limits of the machine.

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>

#include "figures.hpp"

namespace {

constexpr const char* kHelp =
    "usage: pharos-bench core|store|cluster|scale|collective|ddp|sharding|trainer|tune [--json FILE] [--only NAME] "
    "[--gates]\n"
    "\n"
    "  core         tasks, actors and values on an embedded cluster, with the machine's limits beside them\n"
    "  store        large values in shared memory\n"
    "  cluster      head, nodes and scheduler\n"
    "  scale        the head with up to 10 000 nodes and 100 000 actors\n"
    "  collective   ranks that reduce numbers together, on this machine\n"
    "  ddp          steps of data-parallel training, beside those of a module by itself\n"
    "  sharding     steps of a module that ranks divide among them, and the memory that they take\n"
    "  trainer      what trainings cost beside their steps: reports, checkpoints, deaths, batches\n"
    "  tune         sweeps: what a trial costs, and what proposes it\n"
    "  --json FILE  writes machine and figures there\n"
    "  --only NAME  measures one figure\n"
    "  --size SIZE  of scale: with so many nodes and actors (\"1000x10000\")\n"
    "  --gates      ends with status 1 if a figure misses its bound; for a machine with nothing else to do\n"
    "\n"
    "examples:\n"
    "  pharos-bench core --json core.json\n"
    "  pharos-bench core --only actor_call_sync_median\n"
    "  pharos-bench store\n";

int fail(const std::string& why) {
  std::fprintf(stderr, "pharos-bench: %s\n%s", why.c_str(), kHelp);
  return 2;
}

int run(int argc, char** argv) {
  const auto asks_for_help = [](const char* word) {
    return std::strcmp(word, "--help") == 0 || std::strcmp(word, "-h") == 0;
  };
  if (std::any_of(argv + 1, argv + argc, asks_for_help)) {
    std::fputs(kHelp, stdout);
    return 0;
  }
  if (argc == 2 && std::strcmp(argv[1], bench::kDoNothing) == 0) return 0;
  if (argc == 3 && std::strcmp(argv[1], "counted-calls") == 0)
    return bench::run_counted_calls(argc, argv, std::atoi(argv[2]));
  if (argc == 3 && std::strcmp(argv[1], "broadcast-once") == 0)
    return bench::run_broadcast(argc, argv, std::atoi(argv[2]));
  if (argc == 2 && std::strcmp(argv[1], "rank-apart") == 0) return bench::run_rank_apart();
  const std::string what = argc < 2 ? "" : argv[1];
  constexpr std::array kKinds{"core", "store", "cluster", "scale", "collective", "ddp", "sharding", "trainer", "tune"};
  if (std::find(kKinds.begin(), kKinds.end(), what) == kKinds.end()) return fail("say what to measure");
  std::string json;
  std::string only;
  std::string size;
  bool gates = false;
  for (int i = 2; i < argc; i += 2) {
    if (std::strcmp(argv[i], "--gates") == 0) {
      gates = true;
      --i;
      continue;
    }
    if (i + 1 == argc) return fail(std::string{argv[i]} + " needs a value");
    if (std::strcmp(argv[i], "--json") == 0) {
      json = argv[i + 1];
    } else if (std::strcmp(argv[i], "--only") == 0) {
      only = argv[i + 1];
    } else if (std::strcmp(argv[i], "--size") == 0 && what == "scale") {
      size = argv[i + 1];
    } else {
      return fail(std::string{"unknown option "} + argv[i]);
    }
  }
  bench::Report report{only};
  if (what == "scale") {
    bench::measure_scale(report, size);
  } else if (what == "collective") {
    bench::measure_limits_of_ranks(report);
    bench::measure_collective(report);
  } else if (what == "ddp" || what == "sharding" || what == "trainer") {
    bench::measure_with_torch(report, what);
    if (only.empty() || only.starts_with("torch_") || only.starts_with("images_")) {
      for (const auto& each : bench::figures_of_pytorch(what)) report.add(each.name, each.value, each.unit);
    }
  } else if (what == "tune") {
    bench::measure_tune(report, argc, argv);
  } else {
    bench::measure_limits(report);
  }
  if (what == "core") bench::measure_asio(report);
  if (what == "core") bench::measure_core(report, argc, argv);
  if (what == "core" || what == "store") bench::measure_objects(report, argc, argv);
  if (what == "core") bench::measure_refs(report, argc, argv);
  if (what == "store") {
    bench::measure_store(report, argc, argv);
    bench::measure_between_nodes(report, argc, argv);
  }
  if (what == "cluster") {
    bench::measure_placement(report);
    bench::measure_head(report);
    bench::measure_several_nodes(report, argc, argv);
    bench::measure_locality(report, argc, argv);
    bench::measure_shipping(report);
  }
  if (report.figures().empty()) return fail("there is no figure \"" + only + "\"");
  if (!json.empty() && !report.write_json(json)) return fail("cannot write " + json);
  return gates && !report.holds_gates(only.empty() && size.empty() ? what : "") ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "pharos-bench: %s\n", e.what());
    return 1;
  }
}
