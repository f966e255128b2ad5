#pragma once

#include <string>
#include <vector>

namespace pharos::ml::xgboost {

/// Returns the places where XGBoost may be, in the order in which they are tried: names that the system's loader
/// searches for, and files that exist. If PHAROS_XGBOOST is set, it is the only place. Folders that cannot be read are
/// skipped. Called by library().
std::vector<std::string> places_to_look();

}  // namespace pharos::ml::xgboost
