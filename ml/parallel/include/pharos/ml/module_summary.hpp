#pragma once

#include <string>

#include <pharos/base/export.hpp>

namespace torch::nn {
class Module;
}

namespace pharos::ml {

/// A table of a module, as text: a line for each part that has parameters of its own, with its name, its type, the
/// number of elements of its parameters and their shapes, and a line with the sums. A parameter that the module lists
/// several times counts once. Never fails; the thread that uses the module calls it.
PHAROS_API std::string summary_of(const torch::nn::Module& module);

}  // namespace pharos::ml
