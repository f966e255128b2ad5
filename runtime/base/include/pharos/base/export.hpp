#pragma once

/// Marks a symbol that libpharos.so exports to programs. Symbols without this mark are hidden.
#define PHAROS_API __attribute__((visibility("default")))
