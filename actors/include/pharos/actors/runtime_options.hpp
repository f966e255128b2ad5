#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <pharos/base/byte_count.hpp>

namespace pharos {

/// How a program's Runtime joins a cluster, or starts one of its own. A Runtime in a worker ignores all options. A
/// value; Runtime's constructor throws InvalidArgument if an address is none.
struct RuntimeOptions {
  /// The cluster to join: the socket of a node on this machine ("unix:/path/node.sock"), or the address of a head
  /// ("HOST:PORT"), to which the Runtime adds a node of its own. If empty, PHAROS_ADDRESS is used. If that is not set
  /// either, the Runtime starts a cluster for this program alone, which ends with the Runtime.
  /// In a program that joins a cluster, `listen`, `object_store`, `spill_folder` and `cpus` have no effect; a warning
  /// in the log says so.
  std::string address{};
  /// The file with the cluster's token: 32 bytes, mode 0600. If empty, PHAROS_TOKEN_FILE is used, else the file "token"
  /// in the folder of the node's socket. A program that joins at HOST:PORT has no such folder: the Runtime throws
  /// PermissionDenied if neither this option nor the variable names a file. A cluster of the program's own needs none.
  std::string token_file{};
  /// Address at which the program's own cluster listens besides its Unix socket: "127.0.0.1:7000". Empty for none.
  std::string listen{};
  /// Memory that large values may take at once in the program's own cluster. 0 for half of the memory that the machine
  /// has or the cgroup allows.
  ByteCount object_store{};
  /// A folder on a disk: the program's own cluster moves large values there when memory becomes short, and brings them
  /// back when they are read. If empty, PHAROS_SPILL_FOLDER is used, else /var/tmp. With "none" nothing is moved, and a
  /// full store is an error (Exhausted).
  std::string spill_folder{};
  /// CPUs that tasks and actors may use at once in the program's own cluster. 0 for as many as PHAROS_RESOURCES says,
  /// else as many as this process may use.
  std::uint32_t cpus = 0;
  /// If true, a line that several workers print is shown once, and every five seconds a message tells how often it was
  /// repeated. Lines that contain only numbers are always shown. PHAROS_FOLD_OUTPUT=0 in the environment shows every
  /// line.
  bool fold_output = true;
  /// Files and folders in the folder in which the program starts. Its workers on other nodes find them by the same
  /// relative paths: nodes that lack them, or have other contents there, are sent copies once. The
  /// absolute path of a shared library names one that workers load by its name. If empty, PHAROS_WITH is used, in which
  /// paths are separated by ":". At most 4096 files and 4 GiB. The program's executable and libraries go along without
  /// being named here.
  std::vector<std::string> with{};
  /// If true, libtorch's libraries go to nodes that lack them. PHAROS_WITH_LIBTORCH=1 in the environment does the same.
  bool with_libtorch = false;
};

}  // namespace pharos
