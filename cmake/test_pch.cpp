// Carries the precompiled header of the tests, built as they are.
int main() {}
