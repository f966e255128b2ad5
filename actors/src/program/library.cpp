// libpharos.so is made of the static libraries of the modules; see CMakeLists.txt.
