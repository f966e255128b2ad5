#pragma once

#include <pharos/pharos.hpp>

// Each of the two translation units has a static function and a class that are called as the other's.
int answer_of_first(pharos::Runtime& runtime);
int answer_of_second(pharos::Runtime& runtime);
int made_by_first(pharos::Runtime& runtime);
int made_by_second(pharos::Runtime& runtime);
