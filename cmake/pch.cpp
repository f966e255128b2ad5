// Carries a precompiled header, built as its users are.
int main() {}
