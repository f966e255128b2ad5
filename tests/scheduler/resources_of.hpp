#pragma once

#include <gtest/gtest.h>

#include <string>

#include <pharos/scheduler/resources.hpp>

namespace pharos::scheduler {

/// The resources that this text describes, for example "cpu=2,gpu=1". A text that cannot be read fails the test.
inline Resources of(const std::string& text) {
  auto parsed = Resources::parse(text);
  EXPECT_TRUE(parsed.ok()) << text;
  return parsed ? *parsed : Resources{};
}

}  // namespace pharos::scheduler
