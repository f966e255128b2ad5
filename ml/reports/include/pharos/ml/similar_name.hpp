#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <pharos/base/export.hpp>

namespace pharos::ml {

/// Returns the name that `asked` is most likely a misspelling or an abbreviation of: at most a third of its letters
/// differ, or "val_loss" stands for "validation_loss". nullopt if no name is so similar. Never fails; any thread.
PHAROS_API std::optional<std::string> similar_name(std::string_view asked, const std::vector<std::string>& names);

}  // namespace pharos::ml
