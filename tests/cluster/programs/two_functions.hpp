#pragma once

#include <pharos/pharos.hpp>

// Each program has two translation units, which use the same name for a static function or for a class.
int answer_of_first(pharos::Runtime& runtime);
int answer_of_second(pharos::Runtime& runtime);
int made_by_first(pharos::Runtime& runtime);
int made_by_second(pharos::Runtime& runtime);
