#include "daemon_options.hpp"

#include <string>

#include "command.hpp"

namespace pharos::console {

void add_store_options(CLI::App& command, node::DaemonOptions& daemon) {
  command.add_option("--object-store", daemon.object_store, "Memory for large values (default: half of what there is)")
      ->type_name("BYTES")
      ->transform(CLI::AsSizeValue{false}.description(""))
      ->transform(not_negative());  // runs before the transformation above it
  command
      .add_option("--spill-folder", daemon.spill_folder,
                  "Folder on a disk for large values that do not fit in memory; \"none\": they stay in memory")
      ->type_name("FOLDER")
      ->envname("PHAROS_SPILL_FOLDER")
      ->capture_default_str();
}

void add_resource_options(CLI::App& command, node::DaemonOptions& daemon) {
  command
      .add_option("--cpus", daemon.cpus, "CPUs that it gives (default: what --resources says, or all that there are)")
      ->type_name("NUMBER")
      ->check(CLI::Range(1, 1'000'000).description(""));
  command
      .add_option("--resources", daemon.resources,
                  "What it gives: gpu=2,memory=8GiB,fast_disk=1. CPUs, GPUs and memory that are not named are found")
      ->type_name("NAME=AMOUNT,…")
      ->envname("PHAROS_RESOURCES");
  command
      .add_option("--labels", daemon.labels,
                  "Labels of the node: zone=a,disk=ssd. The label gpu_type is found automatically")
      ->type_name("NAME=VALUE,…")
      ->envname("PHAROS_LABELS");
  command
      .add_option("--memory-threshold", daemon.memory_threshold,
                  "When more than this part of memory is in use, workers are killed; 1: never")
      ->type_name("PART")
      ->check([](const std::string& text) {  // CLI::Range accepts "nan"
        double part = 0;
        const bool is_part = CLI::detail::lexical_cast(text, part) && part >= 0.01 && part <= 1;
        return std::string{is_part ? "" : "it is between 0.01 and 1"};
      })
      ->envname("PHAROS_MEMORY_THRESHOLD")
      ->capture_default_str();
}

}  // namespace pharos::console
