#pragma once

#include <string>
#include <vector>

#include <pharos/base/result.hpp>

namespace pharos::process {

/// Returns the absolute paths of the shared libraries that this process has loaded, as the loader found them: their
/// last parts are the names by which programs ask for them. Any thread.
std::vector<std::string> loaded_libraries();

/// Returns the same of a program that does not run: what the loader would load. Empty if the file is no program that
/// uses shared libraries. Starts the loader as a process, and waits for its end; an error of the system if that is not
/// possible. Any thread.
Result<std::vector<std::string>> libraries_of(const std::string& program);

/// Returns those of a program's libraries that go to a node that lacks them. Left out are the system's, in /lib and
/// /usr, except Pharos's own; and libtorch's, CUDA's in the same installation among them, unless `with_libtorch` is
/// set.
std::vector<std::string> libraries_to_send(const std::vector<std::string>& libraries, bool with_libtorch);

}  // namespace pharos::process
