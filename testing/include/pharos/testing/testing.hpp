#pragma once

/// \file
/// All that tests of actor programs need. Link them with the CMake target pharos::testing.

#include <pharos/testing/cluster.hpp>
#include <pharos/testing/cluster_options.hpp>
#include <pharos/testing/faults.hpp>
#include <pharos/testing/seeds.hpp>
