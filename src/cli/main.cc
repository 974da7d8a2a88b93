#include "cli/cli.h"

int main(int argc, char** argv) { return thalweg::cli::Main(argc, argv); }
