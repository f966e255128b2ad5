#pragma once

#include <string>
#include <vector>

namespace pharos::ml::xgboost {

/// Where XGBoost may be, the first that is there to be taken: names that the system's loader looks for, and files that
/// are there. PHAROS_XGBOOST is the only one where it is set.
std::vector<std::string> places_to_look();

}  // namespace pharos::ml::xgboost
